"""Judges a valid spec by the rules that the CRD cannot hold: in the operator and in `validate`."""

from __future__ import annotations

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.sizing import Size, size, stated_partitions
from penstock.validation.rules import kafka, plain_credentials, pod_security, pod_templates
from penstock.validation.rules.pod_security import PodSecurity
from penstock.validation.text_sandbox import judge_texts


def judge(
    spec: StreamSpec, *, local: bool = False, allowed: PodSecurity = PodSecurity.RESTRICTED
) -> list[Problem]:
    """All that is known about a valid spec; with `local`, about running it on one machine.

    `allowed` is the Pod Security Standard that pods in the cluster must meet.
    """
    found = [*judge_texts(spec), *kafka.find_problems(spec), *pod_templates.find_problems(spec)]
    if not local:
        found += [
            *_check_memory_sink(spec),
            *_check_size(spec),
            *pod_security.find_problems(spec, allowed),
        ]
    return [*found, *plain_credentials.find_problems(spec)]


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
