"""What is wrong with a spec, in messages that name the field and the remedy."""

from __future__ import annotations

from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.sizing import Size, size, stated_partitions
from penstock.sql.refusals import NOT_JUDGED, Refusal
from penstock.validation import messages, pod_security
from penstock.validation.plain_credentials import find_plain_credentials
from penstock.validation.pod_security import PodSecurity, Violation
from penstock.validation.problem import Problem, Severity
from penstock.validation.rules import kafka, pod_templates
from penstock.validation.texts.judge import judge_texts
from penstock.validation.texts.verdict import TextVerdict

_MOST_ERRORS = 50
_TEXTS_TOO_LONG = TextVerdict(
    warnings=(
        Refusal(
            NOT_JUDGED,
            "spec.transform: the texts of this file are too long together: put the stream into a "
            "file of its own",
        ),
    )
)


def describe_error(error: ValidationError) -> list[Problem]:
    """Why a resource is not a valid ContinuousStream: its first problems, and the number of all."""
    errors = error.errors(include_url=False, include_context=True)
    found = [
        Problem("InvalidSpec", messages.message(each), path=messages.path_of(each))
        for each in errors[:_MOST_ERRORS]
    ]
    if len(errors) > _MOST_ERRORS:
        found.append(Problem("InvalidSpec", f"and {len(errors) - _MOST_ERRORS} more problems"))
    return found


def judge(
    spec: StreamSpec,
    *,
    local: bool = False,
    allowed: PodSecurity = PodSecurity.RESTRICTED,
    with_texts: bool = True,
) -> list[Problem]:
    """All that is known about a valid spec; with `local`, about running it on one machine.

    `allowed` is the Pod Security Standard that pods in the cluster must meet. Without `with_texts`,
    the spec's texts are said to be not judged.
    """
    verdict = judge_texts(spec) if with_texts else _TEXTS_TOO_LONG
    found = [_of_text(each, "error") for each in verdict.refusals]
    found += [*kafka.find_problems(spec), *pod_templates.find_problems(spec)]
    if not local:
        found += [
            *_check_memory_sink(spec),
            *_check_size(spec),
            *_check_pod_security(spec, allowed),
        ]
    found += [
        _of_text(each, "notice" if each.reason == NOT_JUDGED else "warning")
        for each in verdict.warnings
    ]
    return [*found, *_check_plain_credentials(spec)]


def _of_text(found: Refusal, severity: Severity) -> Problem:
    return Problem(
        found.reason, found.message, severity, text_line=found.line, text_column=found.column
    )


def find_problems(spec: StreamSpec, *, local: bool = False) -> list[Problem]:
    """Why a valid spec cannot run, in a cluster or, with `local`, on one machine."""
    return [each for each in judge(spec, local=local) if each.severity == "error"]


def _check_memory_sink(spec: StreamSpec) -> list[Problem]:
    if spec.sink.memory is None:
        return []
    return [
        Problem(
            "MemorySinkInCluster",
            "spec.sink.memory keeps rows in the driver, where nobody in a cluster can read them: "
            "use sink.kafka or sink.console, or run the stream on your machine with `penstock run`",
        )
    ]


def _check_size(spec: StreamSpec) -> list[Problem]:
    """Checks what the spec states: all partitions, or the fewest that Kafka's topics can have."""
    if spec.source.kafka is None:
        partitions = stated_partitions(spec.source, spec.spark_conf)
    else:
        partitions = kafka.least_partitions(spec.source.kafka)
    sized = size(partitions, spec)
    return [] if isinstance(sized, Size) else [Problem("TooFewExecutorsAllowed", str(sized))]


def _check_pod_security(spec: StreamSpec, allowed: PodSecurity) -> list[Problem]:
    templates = {"driver": spec.driver.pod_template, "executor": spec.executor.pod_template}
    found = [
        (f"spec.{pod}.podTemplate: {each.path}", each)
        for pod, template in templates.items()
        for each in pod_security.find_violations(template, pod, allowed)
    ]
    in_conf = pod_security.find_violations_in_conf(spec.spark_conf, allowed)
    return [
        _pod_security_problem(path, each)
        for path, each in (*found, *((f"spec.sparkConf: {each.path}", each) for each in in_conf))
    ]


def _pod_security_problem(path: str, violation: Violation) -> Problem:
    return Problem(
        "PodSecurityViolation",
        f"{path}: {violation.words}: the {violation.standard} Pod Security Standard forbids it "
        "(the chart's value podSecurity allows more)",
    )


def _check_plain_credentials(spec: StreamSpec) -> list[Problem]:
    return [
        Problem(
            "PlainCredential",
            f"{place} looks like a credential, and is readable in the resource and in a ConfigMap: "
            "provide it from a Secret in podTemplate (a volume, or env with valueFrom), if what "
            "reads it can take it from there",
            "warning",
        )
        for place in find_plain_credentials(spec)
    ]
