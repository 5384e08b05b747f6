"""Judges a valid spec by the rules that the CRD cannot hold: in the operator and in `validate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.operator_settings import PodSecurity
from penstock.contract.sizing import Size, size, stated_partitions
from penstock.contract.stream_defaults import ALLOWED, StreamDefaults
from penstock.validation.rules import (
    data_sources,
    kafka,
    plain_credentials,
    pod_security,
    pod_templates,
)
from penstock.validation.schema_errors import describe_error
from penstock.validation.text_sandbox import judge_texts

# Of one rule and one kind. A template may have a problem in each line.
_MOST_PROBLEMS = 50


def judge(
    spec: StreamSpec, *, local: bool = False, allowed: PodSecurity = PodSecurity.RESTRICTED
) -> list[Problem]:
    """All that is known about a valid spec; with `local`, about running it on one machine.

    `allowed` is the Pod Security Standard that pods in the cluster must meet.
    """
    rules: list[Iterable[Problem]] = [
        judge_texts(spec),
        kafka.find_problems(spec),
        data_sources.find_problems(spec),
        pod_templates.find_problems(spec),
    ]
    if not local:
        rules += [
            _check_memory_sink(spec),
            _check_ttl(spec),
            _check_size(spec),
            pod_security.find_problems(spec, allowed),
        ]
    rules.append(plain_credentials.find_problems(spec))
    return [problem for rule in rules for problem in _first(rule)]


def _first(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The first errors, and the first of what is none: no warnings hide an error."""
    count = Counter[bool]()
    for problem in problems:
        is_error = problem.severity == "error"
        count[is_error] += 1
        if count[is_error] <= _MOST_PROBLEMS:
            yield problem
        if count[True] > _MOST_PROBLEMS:
            return


def find_problems(spec: StreamSpec, *, local: bool = False) -> list[Problem]:
    """Why a valid spec cannot run, in a cluster or, with `local`, on one machine."""
    return [problem for problem in judge(spec, local=local) if problem.severity == "error"]


def judge_defaults(defaults: StreamDefaults, allowed: PodSecurity) -> list[str]:
    """Why an operator cannot have these defaults for streams: no stream could run."""
    unknown = sorted(defaults.spec.keys() - set(ALLOWED))
    if unknown:
        return [f"{', '.join(unknown)}: there are defaults for {', '.join(ALLOWED)} only"]
    least: dict[str, object] = {
        "source": {"rate": {}},
        "sink": {"console": {}},
        "trigger": {"microBatch": {}},
    }
    try:
        spec = StreamSpec.model_validate(defaults.under({"spec": least})["spec"])
    except ValidationError as error:
        return [problem.message for problem in describe_error(error)]
    problems = judge(spec, allowed=allowed)
    return [problem.message for problem in problems if problem.severity == "error"]


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


def _check_ttl(spec: StreamSpec) -> list[Problem]:
    if spec.ttl_seconds_after_finished is None or spec.trigger.available_now is not None:
        return []
    return [
        Problem(
            "NeverFinishes",
            "spec.ttlSecondsAfterFinished has no effect: only a query with trigger.availableNow "
            "finishes",
            "warning",
        )
    ]


def _check_size(spec: StreamSpec) -> list[Problem]:
    """Checks what the spec states: all partitions, or the fewest that Kafka's topics can have.

    The tasks of a micro-batch take turns, so fewer cores only make it slower.
    """
    if not spec.trigger.mode.has_long_running_tasks:
        return []
    if spec.source.kafka is None:
        partitions = stated_partitions(spec.source, spec.spark_conf)
    else:
        partitions = kafka.least_partitions(spec.source.kafka)
    sized = size(partitions, spec)
    return [] if isinstance(sized, Size) else [Problem("TooFewExecutorsAllowed", str(sized))]
