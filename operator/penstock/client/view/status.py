"""What `penstock status` prints: the table of all streams, or everything about one. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from penstock.client.cluster_facts import ClusterFacts, StreamFacts
from penstock.client.formatting import NONE, age, clock, number, printable, size, span, table
from penstock.client.view.timeline import Moment, moments_of
from penstock.cluster.pods import Pod
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.contract.reason_table import Remedy
from penstock.contract.remedies import remedy_for

HEAD = (
    "NAMESPACE", "NAME", "STATE", "REASON", "MODE", "LAG", "EPOCH", "COMMITTED", "CORES",
    "RESTARTS",
)  # fmt: skip
Row = tuple[str, str]
_LABEL_WIDTH = 14


def rows(facts: ClusterFacts, streams: Iterable[StreamFacts] | None = None) -> list[Sequence[str]]:
    """A row for each stream, in the order of HEAD."""
    return [_row(stream, facts) for stream in (facts.streams if streams is None else streams)]


def as_table(facts: ClusterFacts) -> str:
    """All streams, one on a line."""
    return "\n".join(table(HEAD, rows(facts)))


def _row(stream: StreamFacts, facts: ClusterFacts) -> tuple[str, ...]:
    status = stream.status
    cores = f"{status.cores.registered}/{status.cores.desired}" if status.cores else NONE
    committed = stream.metrics.last_commit if stream.metrics else None
    return (
        stream.key.namespace,
        stream.key.name,
        stream.state,
        stream.reason,
        status.mode or NONE,
        number(stream.lag),
        number(status.epoch),
        age(committed, facts.now),
        cores,
        number(status.restarts.total if status.restarts else 0),
    )


def as_json(facts: ClusterFacts) -> str:
    """For programs: the status as the API has it, and what was read besides."""
    content = {
        "time": facts.now.isoformat(timespec="seconds"),
        "streams": [_as_json(stream) for stream in facts.streams],
        "notRead": [{"what": fact.what, "why": fact.why} for fact in facts.not_read],
    }
    return json.dumps(content, indent=2, default=str)


def _as_json(stream: StreamFacts) -> dict[str, Any]:
    remedy, metrics = _remedy(stream), stream.metrics
    return {
        "namespace": stream.key.namespace,
        "name": stream.key.name,
        "generation": stream.resource.generation,
        "status": stream.resource.manifest.get("status") or {},
        "lastCommitTime": metrics.last_commit if metrics else None,
        "recordCommitLatencySeconds": metrics.latency if metrics else None,
        "action": remedy.action,
        "command": stream.command(remedy),
        "pods": [
            {"name": pod.name, "status": _pod_status(pod), "node": pod.node} for pod in stream.pods
        ],
        "story": [
            {
                "time": moment.time,
                "what": moment.what,
                "reason": moment.reason,
                "message": moment.message,
                "count": moment.count,
            }
            for moment in moments_of(stream)
        ],
    }


def as_text(stream: StreamFacts, facts: ClusterFacts) -> str:
    """Everything about one stream."""
    lines = [f"{stream.key}: {stream.state}: {_message(stream)}", ""]
    lines += [f"{label:<{_LABEL_WIDTH}}{value}" for label, value in _rows(stream, facts) if value]
    lines += [
        "",
        *table(("POD", "STATUS", "READY", "RESTARTS", "NODE", "AGE"), _pods(stream, facts)),
    ]
    lines += ["", *_story(moments_of(stream), facts)]
    return "\n".join(lines)


def _rows(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Row]:
    status, remedy = stream.status, _remedy(stream)
    effective = status.effective
    ready = stream.condition("Ready")
    yield "mode", status.mode or ""
    if effective is not None:
        yield "image", effective.image or ""
        yield "revision", f"{effective.revision or NONE}, {_generation(stream)}"
        number_of = effective.checkpoint_generation
        yield "checkpoint", f"checkpoint.generation {number_of}" if number_of else ""
    if ready is not None:
        is_ready = "Ready" if ready.status == "True" else "not Ready"
        since = ready.last_transition_time
        yield "since", f"{is_ready} for {age(since, facts.now)}, since {clock(since)}"
    yield "progress", _progress(stream, facts)
    yield "latency", _latency(stream)
    yield "cores", _cores(stream)
    yield "restarts", _restarts(stream)
    yield from _failure(stream, facts)
    for kind in ("Reconciling", "Stalled", "Warning"):
        condition = stream.condition(kind)
        if (
            condition is not None
            and condition.status == "True"
            and condition.message != _message(stream)
        ):
            yield kind.lower(), f"{condition.reason}: {printable(condition.message)}"
    yield "do", remedy.action
    yield "run", stream.command(remedy)
    yield from _checkpoint(stream, facts)
    for fact in (*facts.not_read, *stream.not_read):
        yield "not read", printable(f"{fact.what}: {fact.why}")


def _remedy(stream: StreamFacts) -> Remedy:
    """For what is wrong. While an earlier spec runs, that is what refuses the newest one."""
    kinds = ("Stalled", "Reconciling", "Warning") if stream.holds("Ready") else ("Stalled",)
    conditions = filter(None, map(stream.condition, kinds))
    reasons = [condition.reason for condition in conditions if condition.status == "True"]
    return remedy_for(reasons[0] if reasons else stream.reason, stream.status.state)


def _message(stream: StreamFacts) -> str:
    ready = stream.condition("Ready")
    return printable(ready.message) if ready else "the operator has not looked at it yet"


def _generation(stream: StreamFacts) -> str:
    observed = stream.status.observed_generation
    if observed == stream.resource.generation:
        return f"metadata.generation {stream.resource.generation}"
    seen = NONE if observed is None else observed
    return (
        f"metadata.generation {stream.resource.generation}, of which the operator has seen {seen}"
    )


def _progress(stream: StreamFacts, facts: ClusterFacts) -> str:
    report = stream.driver_pod.report if stream.driver_pod else None
    runs = report is not None and report.state is QueryState.RUNNING
    of = " of an earlier query" if runs and report is not None and not report.committed else ""
    epoch = stream.status.epoch
    parts = [] if epoch is None else [f"epoch {number(epoch)}{of}"]
    if stream.metrics and stream.metrics.last_commit:
        parts.append(f"committed {age(stream.metrics.last_commit, facts.now)} ago")
    if stream.lag is not None:
        parts.append(f"{number(stream.lag)} records behind")
    return ", ".join(parts)


def _latency(stream: StreamFacts) -> str:
    latency = stream.metrics.latency if stream.metrics else None
    if latency is None:
        return ""
    return f"{latency:.2f} s from a record's timestamp to its commit, mean of this driver"


def _cores(stream: StreamFacts) -> str:
    status = stream.status
    if status.cores is None:
        return ""
    of = f"{status.cores.registered} of {status.cores.desired}"
    state = "" if status.state_partitions is None else f", {status.state_partitions} of state"
    in_driver = status.executors == 0 and status.cores.registered > 0
    where = "in the driver's pod" if in_driver else f"{number(status.executors)} executors"
    return f"{of}, {where}, {number(status.partitions)} partitions{state}"


def _restarts(stream: StreamFacts) -> str:
    restarts = stream.status.restarts
    if restarts is None:
        return ""
    levels = f"query {restarts.query}, process {restarts.process}, pod {restarts.pod}"
    return f"{restarts.total} ({levels})"


def _failure(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Row]:
    failure, retry = stream.last_failure, stream.status.next_retry_time
    if failure is not None:
        ago = age(failure.time, facts.now)
        yield "last failure", f"{ago} ago: {failure.reason}: {printable(failure.message)}"
    if retry is not None:
        remaining = retry - facts.now
        when = f"in {span(remaining)}" if remaining > timedelta(0) else "now"
        yield "next attempt", f"{when}, at {clock(retry)}"


def _checkpoint(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Row]:
    claim, repair = stream.claim, stream.status.last_repair
    name = naming.checkpoint_claim_name(stream.key.name)
    if claim is not None:
        storage = f"class {claim.storage_class}" if claim.storage_class else ""
        known = [claim.phase or NONE, claim.capacity, storage, _used(stream)]
        yield "checkpoint", f"{name}, {', '.join(each for each in known if each)}"
    yield "checkpoint", printable(stream.checkpoint_location)
    if repair is not None:
        ago = age(repair.time, facts.now)
        yield "last repair", f"{ago} ago: {repair.cause}: {printable(repair.message)}"


def _used(stream: StreamFacts) -> str:
    inside = stream.inside
    if inside is None or not inside.volume_bytes:
        return ""
    return f"{size(inside.volume_used_bytes)} used"


def _pods(stream: StreamFacts, facts: ClusterFacts) -> Iterator[Sequence[str]]:
    for pod in stream.pods:
        ready = sum(container.ready for container in pod.containers)
        yield (
            pod.name,
            _pod_status(pod),
            f"{ready}/{len(pod.containers)}",
            str(sum(container.restarts for container in pod.containers)),
            pod.node or NONE,
            age(pod.created, facts.now),
        )


def _pod_status(pod: Pod) -> str:
    if pod.terminating:
        return "Terminating"
    waiting = pod.waiting_reason
    return waiting.reason if waiting else pod.phase or "Unknown"


def _story(moments: Sequence[Moment], facts: ClusterFacts) -> list[str]:
    def line(each: Moment) -> Sequence[str]:
        count = f" (x{each.count})" if each.count > 1 else ""
        return age(each.time, facts.now), each.what, each.reason, f"{each.message}{count}"

    return table(("AGO", "WHAT", "REASON", "MESSAGE"), map(line, moments))
