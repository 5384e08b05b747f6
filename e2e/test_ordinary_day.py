"""A stream of each mode and trigger, left alone with light traffic: nothing is said, nothing grows.

PENSTOCK_MINUTES says for how long. What grows shows after half an hour.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from confluent_kafka import Producer

from e2e.chaos.alerting import Alerting, alerting
from e2e.chaos.observers import StatusLog
from penstock.driver.background_threads import repeat_in_background
from testkit.cluster.access import Cluster
from testkit.cluster.install import NAMESPACE, Installation
from testkit.cluster.stream import Stream, small_stream
from testkit.driver.driver_process import is_warning
from testkit.errors import ClusterError
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topic_reader import TopicReader
from testkit.kubernetes.kubectl import Kube, Object
from testkit.kubernetes.penstock_command import PenstockCommand
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import ASYNC, AVAILABLE_NOW, CONTINUOUS, REAL_TIME, kafka_to_kafka
from testkit.wait import wait_for

MINUTES = float(os.environ.get("PENSTOCK_MINUTES", "6"))

pytestmark = [pytest.mark.full, pytest.mark.timeout(2400 + 60 * MINUTES)]

_EVERY_SECOND = {"microBatch": {"interval": "1s"}}
_COUNTS = {
    "sql": "SELECT CAST(window.end AS STRING) AS key, CAST(count(*) AS STRING) AS value "
    "FROM source GROUP BY window(timestamp, '10 seconds')",
    "watermark": {"column": "timestamp", "delay": "5 seconds"},
}
_PYTHON = {
    "python": {
        "function": "copies:copied",
        "inline": """
from pyspark.sql.functions import udf

def copied(source):
    same = udf(lambda value: value, "string")
    return source.select("key", same(source.value.cast("string")).alias("value"))
""",
    }
}
_STREAMS: dict[str, dict[str, Any]] = {
    "continuous": {"trigger": CONTINUOUS},
    "real-time": {"trigger": REAL_TIME},
    "micro-batch": {"trigger": _EVERY_SECOND},
    "stateful": {"trigger": _EVERY_SECOND, "transform": _COUNTS, "outputMode": "update"},
    "python": {"trigger": _EVERY_SECOND, "transform": _PYTHON},
    "async": {"trigger": ASYNC},
    "idle": {"trigger": {"microBatch": {}}},
    "daily": {"trigger": AVAILABLE_NOW},
}
DAILY, IDLE, STATEFUL = "daily", "idle", "stateful"
# Until then a stream may still load classes, compile, and reach its usual number of files.
_WARM_SECONDS = 120.0
# Of each process in a pod: the pod's uid, the name, kB in memory, threads, open files.
_PROCESSES = r"""
for process in /proc/[0-9]*; do
  pod=$(grep -oE 'pod[0-9a-f]{8}[-_][-_0-9a-f]{27}' $process/cgroup 2>/dev/null | head -n 1)
  [ -n "$pod" ] || continue
  read -r name < $process/comm || continue
  memory=$(awk '/^VmRSS/ {m = $2} /^Threads/ {t = $2} END {print m + 0, t + 0}' $process/status)
  echo "${pod#pod} $name $memory $(ls $process/fd 2>/dev/null | wc -l)"
done
"""


class Traffic:
    """Light traffic: a record every five seconds, a burst each minute, and pauses.

    Partition 1 gets a record every two minutes only, and the topic of the idle stream none.
    """

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
        self._topics = topics
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        """How many records each topic has got."""

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(30) == 0

    def _run(self) -> None:
        step = 0
        while not self._stop.wait(5):
            step += 1
            if step % 72 >= 48:  # two minutes of silence after four
                continue
            for _ in range(200 if step % 12 == 0 else 1):
                self._send(0)
            if step % 24 == 0:
                self._send(1)

    def _send(self, partition: int) -> None:
        for topic in self._topics:
            number = str(self.sent)
            self._producer.produce(topic, key=number, value=number, partition=partition)
        self._producer.poll(0)
        self.sent += 1


@dataclass(frozen=True)
class Sizes:
    """What a pod's processes take."""

    megabytes: int
    threads: int
    files: int


class Growth:
    """What each pod takes, looked at once a minute."""

    def __init__(self, cluster: Cluster, pods: list[Object]) -> None:
        self._cluster = cluster
        self._pods = {
            pod["metadata"]["uid"].replace("-", "_"): pod["metadata"]["name"] for pod in pods
        }
        self.seen: defaultdict[str, list[Sizes]] = defaultdict(list)

    def look(self) -> None:
        try:
            lines = self._cluster.on_node(self._cluster.nodes[0], "bash", "-c", _PROCESSES)
        except ClusterError:  # the machine is busy: there will be another look
            return
        sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for line in lines.splitlines():
            uid, _, memory, threads, files = line.split()
            name = self._pods.get(uid.replace("-", "_"))
            if name is not None:
                sums[name].update(kb=int(memory), threads=int(threads), files=int(files))
        for name, of in sums.items():
            self.seen[name].append(Sizes(of["kb"] // 1024, of["threads"], of["files"]))


@dataclass(frozen=True)
class Day:
    """The streams of the day, each Ready, with the alerts and what is watched."""

    installation: Installation
    kube: Kube
    topics: dict[str, tuple[str, str]]

    def stream(self, name: str) -> Stream:
        return Stream(self.kube, name)

    def pods(self) -> list[Object]:
        operators = self.installation.kube(NAMESPACE).select("pods")
        return [*operators, *self.kube.select("pods")]

    def log(self, pod: Object, since: float) -> list[str]:
        """The lines that a pod has said since then."""
        meta = pod["metadata"]
        kube = self.installation.kube(meta["namespace"])
        return kube.run("logs", meta["name"], f"--since-time={_utc(since)}").splitlines()


@pytest.fixture
def day(installation: Installation, kube: Kube, topic: str) -> Day:
    topics = {name: (f"{topic}-{name}-in", f"{topic}-{name}-out") for name in _STREAMS}
    external, internal = installation.kafka.external, installation.kafka.internal
    create_topics(external, {source: 2 for source, _ in topics.values()})
    create_topics(external, {sink: 1 for _, sink in topics.values()})
    day = Day(installation, kube, topics)
    for number, (name, fields) in enumerate(_STREAMS.items()):
        manifest = small_stream(name, kafka_to_kafka(internal, *topics[name], **fields))
        for part in ("driver", "executor"):
            # They wait nearly all the time, so all of them fit on two cores.
            manifest["spec"][part]["resources"]["requests"]["cpu"] = "20m"
        kube.apply(manifest)
        if number % 2:  # their starts do not
            day.stream(name).wait_ready(600)
    return day


@pytest.fixture
def alerts(installation: Installation, tmp_path: Path) -> Iterator[Alerting]:
    """Prometheus, which looks as often as is usual."""
    with alerting(installation.cluster, tmp_path, every="15s") as running:
        yield running


@pytest.mark.proves(21)
def test_streams_that_are_left_alone_say_nothing_and_do_not_grow(
    day: Day, alerts: Alerting, record_figure: RecordFigure
) -> None:
    """No condition changes, no warning, no event, no alert; each record comes once."""
    sources = [source for name, (source, _) in day.topics.items() if name != IDLE]
    with ExitStack() as watching:
        traffic = watching.enter_context(Traffic(day.installation.kafka.external, sources))
        for name in _STREAMS:
            day.stream(name).wait_ready(900)
        time.sleep(_WARM_SECONDS)
        began, pods = time.time(), day.pods()
        logs = {name: watching.enter_context(StatusLog(day.stream(name))) for name in _STREAMS}
        growth = Growth(day.installation.cluster, pods)
        growth.look()
        watching.enter_context(repeat_in_background(growth.look, 60.0))
        files = {name: _files(day, name) for name in _STREAMS if name != DAILY}
        _leave_alone(day, MINUTES * 60)
        traffic.finish()
        said = _what_was_said(day, alerts, logs, pods, began)
        _wait_for_records(day, traffic.sent)
    for pod in pods:
        name = pod["metadata"]["name"]
        if name in growth.seen and not name.startswith(DAILY):
            hourly = len(day.log(pod, began)) * 3600 / (time.time() - began)
            first, last = growth.seen[name][0], growth.seen[name][-1]
            record_figure(name, f"{first} then {last}, {hourly:.0f} lines of log an hour")
    for name, before in files.items():
        # Spark keeps the last hundred batches.
        record_figure(f"files in the checkpoint of {name}", f"{before} then {_files(day, name)}")
    assert said == []
    assert _grown(growth) == []


def _leave_alone(day: Day, seconds: float) -> None:
    """Nothing is done, except that the daily job runs again in the middle."""
    time.sleep(seconds / 2)
    day.stream(DAILY).edit(restartedAt=str(time.time()))
    day.stream(DAILY).wait_ready(600)
    time.sleep(seconds / 2)


def _what_was_said(
    day: Day, alerts: Alerting, logs: dict[str, StatusLog], pods: list[Object], began: float
) -> list[str]:
    said, since = [], _utc(began)
    for name, log in logs.items():
        states = log.said(began)
        if name != DAILY and states != ["Running/Running"][: len(states)]:
            said.append(f"{name}: {states}")
        restarts = day.stream(name).restarts("total")
        failure = day.stream(name).status().get("lastFailure") or {}
        warning = day.stream(name).condition("Warning")
        if restarts or failure.get("time", "") > since or warning.get("status") == "True":
            said.append(f"{name}: {restarts} restarts, {failure}, {warning}")
    now = {pod["metadata"]["uid"] for pod in day.pods()}
    for pod in pods:
        name = pod["metadata"]["name"]
        if pod["metadata"]["uid"] in now:
            said += [f"{name}: {line}" for line in day.log(pod, began) if is_warning(line)]
        elif not name.startswith(f"{DAILY}-"):
            said.append(f"{name}: is gone")
    said += [f"event: {each}" for each in _events(day.kube, began)]
    for alert in alerts.log.about():
        is_ours = alert.labels.get("namespace", day.kube.namespace) == day.kube.namespace
        if is_ours and alert.labels.get("name") != DAILY:
            said.append(f"alert: {alert.labels}")
    for name in _STREAMS:
        command = PenstockCommand(day.kube.kubeconfig, day.kube.namespace)
        answer = command.run("doctor", name).stdout.splitlines()
        found = [line for line in answer if line.startswith(("problem: ", "warning: "))]
        said += [f"doctor about {name}: {line}" for line in found]
    return said


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _events(kube: Kube, began: float) -> list[str]:
    """What was said about the streams' objects since then; the daily job is restarted."""
    found = json.loads(kube.run("get", "events", "-o", "json"))["items"]
    since = _utc(began)
    return [
        f"{each['involvedObject']['name']}: {each['reason']}: {each['message']}"
        for each in found
        if max(each.get("lastTimestamp") or "", each.get("eventTime") or "") > since
        and not each["involvedObject"]["name"].startswith(DAILY)
    ]


def _files(day: Day, name: str) -> int:
    folder = day.stream(name).checkpoint_on_node()
    node = day.installation.cluster.nodes[0]
    return int(day.installation.cluster.on_node(node, "bash", "-c", f"find {folder} | wc -l"))


def _wait_for_records(day: Day, sent: int) -> None:
    """Each record comes, and none comes twice. The daily job reads the rest tomorrow."""
    reader = TopicReader(day.installation.kafka.external)
    for name in set(_STREAMS) - {DAILY, IDLE, STATEFUL}:
        sink = day.topics[name][1]
        wait_for(f"{sent} records of {name}", lambda: len(reader.read(sink)) >= sent, 120)  # noqa: B023
        numbers = Counter(int(message.value()) for message in reader.read(sink))
        assert numbers == Counter(range(sent)), name
    counts = {m.key(): int(m.value()) for m in reader.read(day.topics[STATEFUL][1])}
    assert sum(counts.values()) == sent
    assert reader.read(day.topics[IDLE][1]) == []


def _grown(growth: Growth) -> list[str]:
    """The pods with more threads or open files in the second half than ever in the first.

    As a median: after a collection of garbage Spark forgets its broadcasts with up to 228 threads
    at once (the pools of the block manager), which end after a minute without work.
    """
    found = []
    for name, seen in growth.seen.items():
        middle = (len(seen) + 1) // 2
        for what, may in (("threads", 8), ("files", 16)):
            first, second = (
                [getattr(sizes, what) for sizes in half] for half in (seen[:middle], seen[middle:])
            )
            if second and median(second) > max(first) + may:
                found.append(f"{name}: {what} {first}, then {second}")
    return found
