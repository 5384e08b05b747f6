"""Checks of a stream's network, status and checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from penstock.api.problem import sentence
from penstock.api.v1alpha1.status import Condition
from penstock.client.cluster_facts import ClusterFacts, StreamFacts
from penstock.client.doctor.finding import Finding, Severity
from penstock.client.formatting import age, size
from penstock.contract import naming
from penstock.contract.pod_check import BrokerCheck, Reach
from penstock.contract.reason_table import INSIDE
from penstock.contract.remedies import remedy_for

# An operator that runs has written the status of a new spec by then.
_STALE_AFTER = timedelta(seconds=30)
# New numbers may be written so late, beyond the operator's interval.
_UNSEEN_AFTER = timedelta(minutes=2)
_RECENT = timedelta(hours=1)
_NEARLY_FULL = 0.9
# A start, a rollout or a restart takes this long at most, unless something is wrong.
_STARTS_WITHIN = timedelta(minutes=2)
_ON_THE_WAY = frozenset(
    {
        "DriverStarting",
        "DriverStopping",
        "NoDriverPod",
        "QueryRestarting",
        "QueryStarting",
        "RollingOut",
        "WaitingForCores",
        "WaitingForDeletion",
        "WaitingForFirstEpoch",
    }
)
# What failed just before says more.
_SAYS_LITTLE = _ON_THE_WAY | {"DriverNotReady", "ExecutorLost"}
_ASKED_FOR = frozenset({"Suspended", "Suspending"})
_SAYS_UNREACHABLE = frozenset({"BrokerUnreachable", "KafkaClientFailed", "Timeout"})
_UNREACHABLE = _SAYS_UNREACHABLE | {"NoProgress", "CommitsStuck"}
_REACHED = (
    "From inside the driver's container all bootstrapServers accept connections now. If the stream "
    "does not continue, look at TLS, and at the addresses that the brokers advertise"
)
_WORDS = {
    Reach.NAME_UNKNOWN: "the name server does not know the host",
    Reach.NAME_SERVER_SILENT: "no name server answers",
    Reach.REFUSED: "the host answers, and nothing listens at the port",
    Reach.NO_ANSWER: "nothing answers at the address",
}
_ACTIONS = {
    Reach.NAME_UNKNOWN: "Correct bootstrapServers, or create the Service of the brokers.",
    Reach.NAME_SERVER_SILENT: "Repair the cluster's name servers, or the network policies.",
    Reach.REFUSED: "Start the broker, or correct the port in bootstrapServers.",
    Reach.NO_ANSWER: "Check the broker, and the network policies between it and this namespace.",
}


def stale_status(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the operator has looked at the newest spec, and at the driver's newest report."""
    why = _unseen_spec(stream, facts) or _unseen_report(stream, facts)
    if why:
        yield Finding(
            Severity.PROBLEM,
            str(stream.key),
            "StatusStale",
            f"{why}. The status is out of date",
            "Start the operator, or see its log.",
            "kubectl logs -A -l app.kubernetes.io/name=penstock,app.kubernetes.io/component="
            "operator --prefix --tail=100",
        )


def _unseen_spec(stream: StreamFacts, facts: ClusterFacts) -> str:
    observed, edited = stream.status.observed_generation, stream.resource.spec_edited
    generation = stream.resource.generation
    if observed == generation or facts.now - edited <= _STALE_AFTER:
        return ""
    what = (
        "it has no status"
        if observed is None
        else f"the status is about generation {observed}, the spec is generation {generation}"
    )
    return f"The operator has not looked at the newest spec for {age(edited, facts.now)}: {what}"


def _unseen_report(stream: StreamFacts, facts: ClusterFacts) -> str:
    written, epoch = stream.resource.status_written, stream.status.epoch
    report = stream.driver_pod.report if stream.driver_pod else None
    if written is None or report is None or report.epoch in (None, epoch):
        return ""
    interval = facts.numbers_interval(stream.key.namespace, stream.resource.class_name)
    if facts.now - written < _UNSEEN_AFTER + interval:
        return ""
    return (
        f"The operator has not written the status for {age(written, facts.now)}: it has epoch "
        f"{epoch}, and the driver reports {report.epoch}"
    )


def network_inside(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the driver's container reaches the brokers."""
    if stream.inside is None:
        return
    reached = {
        broker.server for broker in stream.inside.brokers if broker.outcome is Reach.CONNECTED
    }
    for broker in stream.inside.brokers:
        if broker.server not in reached:
            # A client needs one broker to find the others.
            ends = [
                end for end, servers in stream.resource.brokers.items() if broker.server in servers
            ]
            cut_off = [end for end in ends if not reached & set(stream.resource.brokers[end])]
            yield _unreachable(stream, broker, cut_off)


def _unreachable(stream: StreamFacts, broker: BrokerCheck, cut_off: Sequence[str]) -> Finding:
    of = f" of the {' and '.join(cut_off)}" if cut_off else ""
    is_name = broker.outcome in (Reach.NAME_UNKNOWN, Reach.NAME_SERVER_SILENT)
    at_address = f" ({', '.join(broker.addresses)})" if broker.addresses else ""
    key = stream.key
    return Finding(
        Severity.PROBLEM if cut_off else Severity.WARNING,
        str(key),
        "BrokerNameUnresolved" if is_name else "BrokerUnreachable",
        f"From inside the driver's container, the broker {broker.server}{at_address}{of}: "
        f"{_WORDS[broker.outcome]}",
        _ACTIONS[broker.outcome],
        f"kubectl get networkpolicies,endpointslices -n {key.namespace}",
        explains=_UNREACHABLE | ({"HostUnknown"} if is_name else set()),
    )


def not_applied(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the newest spec is not applied, for another reason than that the query fails."""
    ready = stream.condition("Ready")
    for kind in ("Stalled", "Reconciling"):
        condition = stream.condition(kind)
        if (
            condition is None
            or condition.status != "True"
            or condition.reason == "ReconciliationPaused"
        ):
            continue
        if ready is not None and ready.status != "True" and ready.reason == condition.reason:
            continue  # not_ready says it
        runs = ", an earlier one runs" if stream.holds("Ready") else ""
        message = f"The newest spec is not applied{runs}: {condition.message}"
        yield _from_reason(stream, Severity.PROBLEM, condition.reason, message)


def not_ready(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """What the operator, and through it the driver, says about a stream that is not Ready."""
    ready = stream.condition("Ready")
    if ready is None or ready.status == "True" or ready.reason in _ASKED_FOR:
        return
    since = age(ready.last_transition_time, facts.now)
    reason, why = _cause(stream, ready)
    retry = stream.status.next_retry_time
    at_time = f"{retry:%H:%M:%S} UTC" if retry else ""
    is_new = bool(at_time) and at_time not in why
    next_attempt = f"; the next attempt is at {at_time}" if is_new else ""
    starts = facts.now - ready.last_transition_time < _STARTS_WITHIN
    severity = Severity.WARNING if starts and ready.reason in _ON_THE_WAY else Severity.PROBLEM
    message = f"{stream.state} for {since}: {why}{next_attempt}"
    if _reaches_brokers(stream, ready.reason):
        message = f"{sentence(message)} {_REACHED}"
    yield _from_reason(stream, severity, reason, message)


def _cause(stream: StreamFacts, ready: Condition) -> tuple[str, str]:
    """The reason that says most, and why. A driver that starts says only that it does."""
    failure = stream.last_failure
    if failure is None or ready.reason in (failure.reason, "RollingOut"):  # somebody's edit
        return ready.reason, ready.message
    if failure.message and failure.message in ready.message:
        return failure.reason, ready.message  # Kubernetes' word is the reason: CrashLoopBackOff
    if stream.has_passed(failure.time):
        return ready.reason, ready.message
    if ready.reason in _SAYS_LITTLE:
        return failure.reason, f"{failure.message.rstrip('.')}; now: {ready.message}"
    return ready.reason, f"{ready.message}; before that {failure.reason}: {failure.message}"


def _reaches_brokers(stream: StreamFacts, reason: str) -> bool:
    """Whether the check inside reached the brokers that the driver may report as unreachable."""
    brokers = stream.inside.brokers if stream.inside else ()
    all_connected = all(broker.outcome is Reach.CONNECTED for broker in brokers)
    return reason in _SAYS_UNREACHABLE and bool(brokers) and all_connected


def asked_for(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """What somebody has asked for, and may have forgotten."""
    ready = stream.condition("Ready")
    if ready is not None and ready.reason in _ASKED_FOR:
        since = age(ready.last_transition_time, facts.now)
        message = f"It has been suspended for {since}: {ready.message}"
        yield _from_reason(stream, Severity.WARNING, ready.reason, message)
    if stream.resource.paused:
        message = f"It has the annotation {naming.ANNOTATION_PAUSE}: the operator changes nothing"
        yield _from_reason(stream, Severity.WARNING, "ReconciliationPaused", message)


def warnings(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    warning = stream.condition("Warning")
    if warning is not None and warning.status == "True":
        yield _from_reason(stream, Severity.WARNING, warning.reason, warning.message)


def recovered(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """The last failure of a stream that runs again."""
    failure = stream.last_failure
    if failure is None or not stream.holds("Ready") or facts.now - failure.time > _RECENT:
        return
    ago, total = age(failure.time, facts.now), stream.status.restarts
    count = f" ({total.total} restarts in all)" if total else ""
    message = f"It runs, and {ago} ago it failed{count}: {failure.message}"
    yield _from_reason(stream, Severity.WARNING, failure.reason, message)


def cores_short(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether a stream runs on fewer cores than it should have."""
    cores = stream.status.cores
    if cores is None or not stream.holds("Ready") or cores.registered >= cores.desired:
        return
    message = f"It runs on {cores.registered} of {cores.desired} cores"
    yield _from_reason(stream, Severity.WARNING, "WaitingForCores", message)


def few_state_partitions(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Whether a stream has grown beyond what its state can use."""
    cores, state = stream.status.cores, stream.status.state_partitions
    if cores is None or state is None or state >= cores.desired:
        return
    if stream.status.mode == "RealTime":  # its other cores have tasks of their own
        return
    if stream.status.executors == 0:  # threads of one pod, whose CPUs are fewer
        return
    message = (
        f"Its state has {state} partitions, and it has "
        f"{cores.desired} cores: no more than {state} of them work on the state at a time"
    )
    yield _from_reason(stream, Severity.WARNING, "FewStatePartitions", message)


def checkpoint(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """A volume that fills."""
    inside = None if stream.checkpoint_location else stream.inside
    if inside is not None and inside.volume_used_bytes > _NEARLY_FULL * inside.volume_bytes > 0:
        used, total = size(inside.volume_used_bytes), size(inside.volume_bytes)
        message = f"The checkpoint's volume is nearly full: {used} of {total}"
        yield _from_reason(stream, Severity.WARNING, "CheckpointFull", message)


def _from_reason(stream: StreamFacts, severity: Severity, reason: str, message: str) -> Finding:
    """A finding whose remedy the table of reasons has."""
    remedy, key = remedy_for(reason, stream.status.state), stream.key
    command = stream.command(remedy)
    return Finding(
        severity,
        str(key),
        reason,
        message,
        "" if remedy.action in message else remedy.action,
        "" if remedy.command == INSIDE else command,  # that is what runs now
    )
