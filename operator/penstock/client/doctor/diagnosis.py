"""All checks in their order, and what remains of their findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.client.cluster_facts import ClusterFacts, StreamFacts
from penstock.client.doctor import cluster_checks, pod_checks, stream_checks
from penstock.client.doctor.finding import Finding, Severity

ClusterCheck = Callable[[ClusterFacts], Iterator[Finding]]
StreamCheck = Callable[[StreamFacts, ClusterFacts], Iterator[Finding]]

# From cause to effect: what an earlier check explains, a later one does not repeat.
OF_CLUSTER: tuple[ClusterCheck, ...] = (
    cluster_checks.resource_type,
    cluster_checks.operator_runs,
    cluster_checks.operator_leads,
    cluster_checks.operator_rights,
    cluster_checks.name_servers,
    cluster_checks.versions,
    cluster_checks.own_rights,
    cluster_checks.not_read,
)
OF_STREAM: tuple[StreamCheck, ...] = (
    stream_checks.stale_status,
    pod_checks.node_away,
    pod_checks.obstacles,
    pod_checks.quota,
    pod_checks.killed_for_memory,
    stream_checks.network_inside,
    stream_checks.not_applied,
    stream_checks.not_ready,
    stream_checks.asked_for,
    stream_checks.cores_short,
    stream_checks.few_state_partitions,
    stream_checks.warnings,
    stream_checks.recovered,
    stream_checks.checkpoint,
)
# The checks of what the status says; the others look at the cluster themselves.
_OF_STATUS = (
    stream_checks.not_ready,
    stream_checks.cores_short,
    stream_checks.recovered,
    stream_checks.warnings,
)


def diagnose(facts: ClusterFacts) -> tuple[Finding, ...]:
    """The findings, the worst first; among equals the cause before its effects."""
    shared = [finding for check in OF_CLUSTER for finding in check(facts)]
    all_findings = [*shared]
    for stream in facts.streams:
        all_findings += _of_stream(stream, facts, shared)
    order = list(Severity)
    return tuple(sorted(dict.fromkeys(all_findings), key=lambda each: order.index(each.severity)))


def _of_stream(
    stream: StreamFacts, facts: ClusterFacts, shared: Sequence[Finding]
) -> list[Finding]:
    of_stream: list[Finding] = []
    for check in OF_STREAM:
        for finding in check(stream, facts):
            if check not in _OF_STATUS or not _is_explained(finding, (*shared, *of_stream)):
                of_stream.append(finding)
    return of_stream


def _is_explained(finding: Finding, earlier: Iterable[Finding]) -> bool:
    """Whether an earlier problem is the cause; a warning does not hide a problem."""
    problems = (other for other in earlier if other.severity is Severity.PROBLEM)
    return any(finding.reason in problem.explains for problem in problems)
