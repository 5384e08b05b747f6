"""The logs of a stream's containers, in order of time; also of pods that come later."""

from __future__ import annotations

import heapq
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.formatting import printable
from penstock.client.reading.api_client import KubeApi
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.cluster.lenient_fields import text as as_text
from penstock.cluster.pods import Pod
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming

# Spark's own label of an executor's pod.
_EXECUTOR_ID = "spark-exec-id"
# What a line shows by itself; all other fields follow as name=value.
_SHOWN = frozenset({"time", "level", "message", "logger", "trace"})
_SOURCE_WIDTH = 10
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
# The name in the driver's template of executors (driver/spark/session.py).
_EXECUTOR_CONTAINER = "executor"
# How often new pods are looked for, and a log that has ended is opened again.
_POLL_SECONDS = 2.0


@dataclass(frozen=True, order=True)
class Line:
    time: str
    """When the kubelet received it, in RFC 3339 and UTC; so texts sort as times do."""
    source: str
    """Short for the container: driver, or exec-1."""
    text: str


def source_of(pod: Pod) -> str:
    """Short for a pod of a stream."""
    if pod.is_driver:
        return "driver"
    number = pod.labels.get(_EXECUTOR_ID)
    return f"exec-{number}" if number else pod.name


def parse_line(source: str, raw: str) -> Line:
    """A line as the API server returns it with `timestamps`."""
    time, _, text = raw.partition(" ")
    return Line(time, source, text)


def merge(logs: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """The lines of several logs, the oldest first."""
    return heapq.merge(*logs, key=lambda line: line.time)


def for_people(line: Line) -> str:
    """Time, level, source and message; the fields of a JSON line as name=value."""
    entry = _entry(line.text)
    if entry is None:
        return _format(line.time, "", line.source, printable(line.text))
    package, _, logger = as_text(entry.get("logger")).rpartition(".")
    is_ours = not package or package.split(".")[0] == "penstock"
    source = "jvm" if line.source == "driver" and not is_ours else line.source
    message = " ".join(
        part
        for part in (
            "" if is_ours else f"{logger}:",
            as_text(entry.get("message")),
            *(f"{name}={_value(value)}" for name, value in entry.items() if name not in _SHOWN),
        )
        if part
    )
    level = as_text(entry.get("level"))
    time = as_text(entry.get("time")) or line.time
    return _format(time, _LEVELS.get(level, level), source, printable(message))


def _format(time: str, level: str, source: str, message: str) -> str:
    return f"{time[11:23]:<12} {level:<5} {source:<{_SOURCE_WIDTH}} | {message}"


def _entry(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text) if " " in text or not text else text


@dataclass(frozen=True)
class LogOptions:
    """Which logs, and how much of them."""

    executors: bool = False
    follow: bool = False
    previous: bool = False
    tail: int | None = None
    since_seconds: int | None = None

    def query(self) -> dict[str, str]:
        return {
            "timestamps": "true",
            "follow": "true" if self.follow else "",
            "previous": "true" if self.previous else "",
            "tailLines": "" if self.tail is None else str(self.tail),
            "sinceSeconds": "" if self.since_seconds is None else str(self.since_seconds),
        }


def pods_of(api: KubeApi, stream: Key, *, executors: bool) -> list[Pod]:
    """The stream's pods whose logs are wanted, the driver's first."""
    labels = {naming.LABEL_STREAM: stream.name, naming.LABEL_MANAGED_BY: naming.MANAGED_BY}
    if not executors:
        labels[naming.LABEL_COMPONENT] = naming.COMPONENT_DRIVER
    return sorted(map(Pod, api.list(kinds.POD, stream.namespace, labels)), key=source_of)


def read_logs(
    api: KubeApi, pods: Sequence[Pod], options: LogOptions, note: Callable[[str], None]
) -> Iterator[Line]:
    """The lines that are there, in order of time. What cannot be read is noted."""

    def lines(pod: Pod) -> Iterator[Line]:
        try:
            for raw in api.log_lines(_path(pod), _with_container(pod, options)):
                yield parse_line(source_of(pod), raw)
        except ApiError as error:
            note(f"{pod.name}: {error.message}")

    return merge([lines(pod) for pod in pods])


class FollowedLogs:
    """The lines of all pods of a stream as they arrive, until the caller stops."""

    def __init__(
        self, api: KubeApi, stream: Key, options: LogOptions, note: Callable[[str], None]
    ) -> None:
        self._api = api
        self._stream = stream
        self._options = options
        self._note = note
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._read_paths: set[str] = set()
        """The logs that a thread reads. A driver's next pod has the name of the last one, and so
        the same log: its reader continues."""

    def lines(self) -> Iterator[Line]:
        """Never ends: the stream may be created again."""
        looked = 0.0
        while True:
            if time.monotonic() - looked >= _POLL_SECONDS:
                self._attach_new()
                looked = time.monotonic()
            try:
                yield self._lines.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue

    def _attach_new(self) -> None:
        try:
            pods = pods_of(self._api, self._stream, executors=self._options.executors)
        except ApiError as error:
            self._note(error.message)
            return
        for pod in pods:
            if _path(pod) not in self._read_paths and _has_log(pod):
                self._read_paths.add(_path(pod))
                threading.Thread(target=self._read, args=(pod,), daemon=True).start()

    def _read(self, pod: Pod) -> None:
        """Reads the log of one pod until the pod is gone: also of restarted containers."""
        path, source, last = _path(pod), source_of(pod), ""
        query = _with_container(pod, self._options)
        while True:
            try:
                for raw in self._api.log_lines(path, query):
                    line = parse_line(source, raw)
                    # A log that is opened again begins with the second of its last line.
                    if line.time > last:
                        last = line.time
                        self._lines.put(line)
            except ApiError as error:
                if error.code == 403:
                    self._note(f"{pod.name}: {error.message}")
                    return
                if error.code == 404:
                    self._read_paths.discard(path)  # a pod of this name may come
                    return
            if last:
                query = {**query, "tailLines": "", "sinceSeconds": "", "sinceTime": last}
            time.sleep(_POLL_SECONDS)


def _has_log(pod: Pod) -> bool:
    """Whether a container of it has started."""
    return any(container.running or container.ends for container in pod.containers)


def _with_container(pod: Pod, options: LogOptions) -> dict[str, str]:
    """The parameters, with the container: a pod template may have added others."""
    names = pod.container_names
    ours = [name for name in names if name in (naming.DRIVER_CONTAINER, _EXECUTOR_CONTAINER)]
    return {**options.query(), "container": next(iter([*ours, *names]), "")}


def _path(pod: Pod) -> str:
    return kinds.POD.path(pod.namespace, pod.name, "log")
