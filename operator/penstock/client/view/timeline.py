"""What happened to a stream, in order: events, conditions, failures, pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.client.cluster_facts import StreamFacts
from penstock.client.formatting import printable
from penstock.cluster.pods import Container

_MOMENT = timedelta(seconds=2)


@dataclass(frozen=True, order=True)
class Moment:
    time: datetime
    what: str
    """What it happened to: the stream, a pod, a volume claim."""
    reason: str
    message: str = ""
    count: int = 1


def moments_of(stream: StreamFacts) -> tuple[Moment, ...]:
    """All that is known, the oldest first; what two sources say is said once."""
    moments = sorted(
        {*_events(stream), *_conditions(stream), *_failures(stream), *_pods(stream)},
    )
    last_time: dict[tuple[str, str], datetime] = {}
    kept: list[Moment] = []
    for moment in moments:
        # The operator reports a change as a condition and as an event, a moment apart.
        key = (moment.reason, moment.message)
        if not moment.message or key not in last_time or moment.time - last_time[key] > _MOMENT:
            kept.append(moment)
        last_time[key] = moment.time
    return tuple(kept)


def _events(stream: StreamFacts) -> Iterator[Moment]:
    for event in stream.events:
        what = "stream" if event.name == stream.key.name else f"{event.kind} {event.name}"
        yield Moment(event.time, what, event.reason, printable(event.message), event.count)


def _conditions(stream: StreamFacts) -> Iterator[Moment]:
    yield Moment(stream.resource.created, "stream", "Created")
    for condition in stream.status.conditions:
        # A False one says that something does not hold: Ready is the one where that is news.
        if condition.status == "True" or condition.type == "Ready":
            since, message = condition.last_transition_time, printable(condition.message)
            yield Moment(since, "stream", condition.reason, message)


def _failures(stream: StreamFacts) -> Iterator[Moment]:
    failure, repair = stream.status.last_failure, stream.status.last_repair
    if failure is not None:
        yield Moment(failure.time, "driver", failure.reason, printable(failure.message))
    if repair is not None:
        message = f"{repair.cause}: {printable(repair.message)}"
        yield Moment(repair.time, "checkpoint", repair.reason, message)


def _pods(stream: StreamFacts) -> Iterator[Moment]:
    for pod in stream.pods:
        yield Moment(
            pod.created, f"Pod {pod.name}", "Created", f"on {pod.node}" if pod.node else ""
        )
        for container in pod.containers:
            yield from _runs(f"Pod {pod.name}", container)


def _runs(name: str, container: Container) -> Iterator[Moment]:
    if container.running_since:
        yield Moment(container.running_since, name, "ContainerStarted")
    for end in container.ends:
        if end.finished:
            message = f"{end.reason}, code {end.code}"
            yield Moment(end.finished, name, "ContainerEnded", message)
