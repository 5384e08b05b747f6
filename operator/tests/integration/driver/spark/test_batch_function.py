"""A function as sink: what it gets, what its exceptions say, and what becomes of one that hangs."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import QUERY_NOT_STOPPED
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from penstock.driver.loop import DriverMustExit
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.stall_detection import NO_PROGRESS
from testkit.driver.driver_process import driver
from testkit.driver.fake_kubelet import POLLING, Kubelet, driver_pod
from testkit.driver.in_process_driver import running, second_jvm
from testkit.kafka.topics import Topics
from testkit.paths import CHECKOUT
from testkit.streams.streams import MICRO_BATCH, kafka_source, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(300)

_NOTE = """
import json, time

def note(rows, batch):
    facts = {
        "batch": batch, "stream": batch.stream, "namespace": batch.namespace,
        "generation": batch.generation, "options": batch.options,
        "values": [row.value.decode() for row in rows.select("value").collect()],
    }
    with open(batch.options["path"], "a") as file:
        file.write(json.dumps(facts) + "\\n")
"""


def flow(
    topics: Topics, source: str, path: Path, text: str, function: str = "note", **spec: Any
) -> ContinuousStream:
    """A stream of numbers to a function of this text, which finds the file to write in `path`."""
    python = {"function": f"m:{function}", "inline": text, "options": {"path": str(path)}}
    python |= spec.pop("python", {})
    return stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        {"python": python},
        **{"trigger": MICRO_BATCH, **spec},
    )


def noted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def values(path: Path) -> Counter[str]:
    return Counter(value for note in noted(path) for value in note["values"])


@pytest.mark.proves("python.md#a-function-as-sink")
def test_each_batch_is_given_with_its_number_and_what_it_belongs_to(
    topics: Topics,
    jvm: Jvm,
    jvm_log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A Secret that is rotated is read for the next batch, and no value of it is printed."""
    source, path, secret = topics.make(2), tmp_path / "noted", tmp_path / "secrets/login/password"
    secret.parent.mkdir(parents=True)
    secret.write_text("first-secret\n")
    text = f"{_NOTE}    print('the password is', batch.options['password'])\n"
    ref = {"secretOptions": {"password": {"name": "login", "key": "password"}}}
    it = flow(topics, source, path, text, python=ref)
    where = LocalEnvironment(tmp_path / "checkpoint", secrets=tmp_path / "secrets")
    with running(it, jvm, where) as driver:
        topics.send(source, range(100))
        driver.wait_committed(100)
        secret.write_text("other-secret\n")
        topics.send(source, range(100, 200))
        driver.wait_committed(200)
        secret.unlink()  # what it held counts until it is back
        topics.send(source, range(200, 300))
        driver.wait_committed(300)
        assert driver.last.query_restarts == 0
    assert values(path) == Counter(map(str, range(300)))
    facts = noted(path)
    assert [note["batch"] for note in facts] == list(range(len(facts)))
    for note in facts:
        assert (note["stream"], note["namespace"], note["generation"]) == ("numbers", "payments", 0)
        assert note["options"]["path"] == str(path)
    seen = [note["options"]["password"] for note in facts]
    assert (seen[0], seen[-1]) == ("first-secret", "other-secret")
    printed = capsys.readouterr().out
    assert printed.count("the password is ***") == len(facts)
    assert "secret" not in printed
    assert "first-secret" not in jvm_log.read_text()


def _threads() -> int:
    """Those in which Py4J has called a function."""
    targets = (getattr(thread, "_target", None) for thread in threading.enumerate())
    return sum("ClientServerConnection.run" in repr(target) for target in targets)


_RAISES = """
from pathlib import Path

def note(rows, batch):
    values = [int(row.value) for row in rows.select("value").collect()]
    if 471147114711 in values and not Path(batch.options["path"] + ".repaired").exists():
        with open(batch.options["path"] + ".tries", "a") as file:
            file.write(f"{batch} {values}\\n")
        %s
    with open(batch.options["path"], "a") as file:
        file.write("".join(f"{value}\\n" for value in values))
"""


@pytest.mark.parametrize(
    ("statement", "reason", "says"),
    [
        (
            "raise ValueError('record 471147114711')",
            "PythonSinkFailed",
            "m:note raised ValueError, in inline, line 9, note.",
        ),
        (
            "__import__('json').loads('471147114711,')",
            "PythonSinkFailed",
            "m:note raised JSONDecodeError, in inline, line 9, note, in decoder.py, line ",
        ),
        (
            "__import__('sys').exit(3)",
            "PythonSinkFailed",
            "m:note raised SystemExit, in inline, line 9, note.",
        ),
        (
            "rows.selectExpr('no_such_column').collect()",
            "PythonSinkFailed",
            "raised UNRESOLVED_COLUMN.WITH_SUGGESTION (SQLSTATE 42703), in inline, line 9, note.",
        ),
        (
            "rows.selectExpr('raise_error(cast(value AS STRING))').collect()",
            "UserRaisedException",
            "m:note was at inline, line 9, note.",
        ),
    ],
    ids=["its own", "of a library", "exit", "planning", "in a task"],
)
@pytest.mark.proves("python.md#a-function-as-sink")
def test_a_batch_over_which_it_fails_comes_again_under_its_number(
    statement: str,
    reason: str,
    says: str,
    topics: Topics,
    jvm: Jvm,
    jvm_log: Path,
    tmp_path: Path,
) -> None:
    """With the same rows. What an exception quotes is shown nowhere."""
    source, path = topics.make(1), tmp_path / "noted"
    logged = jvm_log.stat().st_size
    it = flow(topics, source, path, _RAISES % statement)
    threads = _threads()
    policy = replace(RestartPolicy.from_spec(it.spec), recheck_interval=1.0, backoff_base=0.1)
    with running(it, jvm, tmp_path / "checkpoint", policy) as driver:
        topics.send(source, range(10))
        driver.wait_committed(10)
        topics.send(source, range(471147114700, 471147114720))
        report = driver.wait_failure(reason)
        assert report.last_failure is not None
        assert says in report.last_failure.message
        driver.wait("four failures", lambda report: report.query_restarts >= 4)
        tries = Path(f"{path}.tries").read_text().splitlines()
        assert len(set(tries)) == 1
        Path(f"{path}.repaired").touch()
        driver.wait_committed(30)
        # One of the query's, and one by which Java tells what it has dropped.
        wait_for("few threads", lambda: _threads() <= threads + 2)
        shown = "".join(report.model_dump_json() for report in driver.reports)
    assert Counter(path.read_text().split()) == Counter(
        map(str, [*range(10), *range(471147114700, 471147114720)])
    )
    assert "4711471147" not in shown
    assert "4711471147" not in jvm_log.read_text()[logged:]


_SOME = """
import json

def note(rows, batch):
    what = batch % 3  # all, some partitions, and nothing of them
    if what == 1:
        rows.limit(1).collect()
    if what == 0:
        with open(batch.options["path"], "a") as file:
            for row in rows.collect():
                file.write(json.dumps([row.k, row.n]) + "\\n")
        assert rows.count() == len(rows.collect())
        rows.unpersist()  # as the docs say of a query without state
"""


@pytest.mark.proves("python.md#a-function-as-sink")
def test_state_counts_each_batch_whatever_the_function_reads_of_it(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark alone fails at the end of a batch whose rows were not all read, for ever."""
    source, path = topics.make(2), tmp_path / "noted"
    it = flow(
        topics, source, path, _SOME,
        transform={
            "sql": "SELECT CAST(CAST(value AS STRING) AS INT) % 5 AS k, count(*) AS n FROM source "
            "GROUP BY 1"
        },
        outputMode="complete",
        checkpoint={"statePartitions": 2},
    )  # fmt: skip
    with running(it, jvm, tmp_path / "checkpoint") as driver:
        sent = 0

        def send(count: int) -> None:
            nonlocal sent
            topics.send(source, range(sent, sent + count))
            sent += count
            driver.wait_committed(sent)

        def counted() -> list[int]:
            lines = path.read_text().splitlines() if path.exists() else []
            return [json.loads(line)[1] for line in lines[-5:]]

        for _ in range(6):
            send(20)
        while sum(counted()) < sent and sent < 200:  # until a batch is written whose number fits
            send(5)
        assert driver.last.query_restarts == 0
        assert counted() == [sent // 5] * 5


_HANGS = """
import time

def note(rows, batch):
    pieces = [row.value for row in rows.select("value").collect()]
    for piece in pieces:
        wait(piece)
    with open(batch.options["path"], "a") as file:
        file.write(f"{len(pieces)}\\n")

def wait(piece):
    time.sleep(1000 if piece == b"-1" else 0.2)
"""


@pytest.mark.proves("python.md#a-function-as-sink")
def test_one_that_hangs_is_named_and_costs_the_process(
    topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """One that is only slow is left alone: it stands elsewhere at each look."""
    source, path = topics.make(1), tmp_path / "noted"
    it = flow(topics, source, path, _HANGS, sparkConf={"spark.sql.streaming.stopTimeout": "2s"})
    policy = replace(RestartPolicy.from_spec(it.spec), min_patience=4.0)
    with second_jvm(class_path) as jvm, running(it, jvm, tmp_path / "c", policy) as driver:
        topics.send(source, range(1))  # the first batch of a JVM takes long
        driver.wait_committed(1)
        restarts = driver.last.query_restarts
        topics.send(source, range(1, 100))  # twenty seconds
        driver.wait_committed(100)
        assert driver.last.query_restarts == restarts
        topics.send(source, range(-1, 0))
        report = driver.wait_failure(NO_PROGRESS)
        assert report.last_failure is not None
        assert "s in sink.python (inline, line 12, wait)" in report.last_failure.message
        wait_for("the end of the loop", lambda: not driver.thread.is_alive())
        error, driver.error = driver.error, None
    assert isinstance(error, DriverMustExit)
    assert error.failure.reason == QUERY_NOT_STOPPED


_IN_TASKS = """
def note(rows, batch):
    def write(partition):
        values = [row.value.decode() for row in partition]
        with open(batch.options["path"], "a") as file:
            file.write("".join(f"{batch.stream} {batch} {value}\\n" for value in values))
    rows.foreachPartition(write)
"""


def test_a_function_may_hand_the_batch_to_its_tasks(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, path = topics.make(2), tmp_path / "noted"
    topics.send(source, range(50))
    it = flow(topics, source, path, _IN_TASKS, sparkConf=POLLING, executor={"mode": "Pods"})
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    with running(it, jvm, where, api=api) as driver:
        driver.wait_committed(50)
    lines = [line.split() for line in path.read_text().splitlines()]
    assert {(stream, batch) for stream, batch, _ in lines} == {("numbers", "0")}
    assert sorted(int(value) for _, _, value in lines) == list(range(50))


@pytest.mark.proves("python.md#a-function-as-sink")
def test_killed_over_a_batch_the_next_driver_gives_it_again(
    topics: Topics, class_path: str, tmp_path: Path
) -> None:
    source, path = topics.make(1), tmp_path / "noted"
    text = f"{_NOTE}    time.sleep(3 if batch > 0 else 0)\n"
    it = flow(topics, source, path, text)
    topics.send(source, range(10))
    with driver(it, tmp_path, class_path) as process:
        wait_for("a batch", lambda: len(noted(path)) == 1)
        process.wait_ready()
        topics.send(source, range(10, 20))
        process.kill(lambda: len(noted(path)) == 2)
    topics.send(source, range(20, 30))
    with driver(it, tmp_path, class_path) as process:
        wait_for("all", lambda: set(values(path)) == set(map(str, range(30))))
        assert process.stop() == 0
    twice, again = noted(path)[1:3]
    assert twice == again
    assert sum(values(path).values()) == 40


def documented(page: str, heading: str, options: dict[str, str]) -> dict[str, Any]:
    """Transform and sink of the example below a heading, with a test's own options."""
    text = (CHECKOUT / "docs" / page).read_text().partition(f"\n## {heading}\n")[2]
    example = yaml.safe_load(text.split("```")[1].removeprefix("yaml"))
    python = {key: it for key, it in example["sink"]["python"].items() if key != "secretOptions"}
    return {"transform": example["transform"], "sink": {"python": {**python, "options": options}}}


@pytest.mark.proves("recipes.md#one-batch-into-several-places")
def test_a_batch_is_written_into_several_places(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """And a batch that comes again replaces its files."""
    source, ids, lake = topics.make(2), topics.make(), tmp_path / "lake"
    options = {"path": str(lake), "brokers": topics.bootstrap, "topic": ids}
    of_page = documented("recipes.md", "One batch into several places", options)
    kafka = kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest")
    it = stream(kafka, trigger=MICRO_BATCH, **of_page)
    topics.send(source, range(50))
    with running(it, jvm, tmp_path / "checkpoint") as driver:
        driver.wait_committed(50)
        topics.send(source, range(50, 100))
        driver.wait_committed(100)
    (tmp_path / "checkpoint" / "commits" / str(driver.last.epoch)).unlink()  # as if it was lost
    with running(it, jvm, tmp_path / "checkpoint") as driver:
        driver.wait_ready()
        assert driver.runtime.session is not None
        rows = driver.runtime.session.read.parquet(str(lake)).collect()
    assert sorted(int(row.payment) for row in rows) == list(range(100))
    assert {row.generation for row in rows} == {0}
    records = [json.loads(message.value()) for message in topics.messages(ids)]
    assert {int(record["payment"]) for record in records} == set(range(100))
    assert len(records) > 100


class _Service(BaseHTTPRequestHandler):
    """Keeps what is sent to it; at first it answers that it is not there."""

    posts: ClassVar[dict[str, list[str]]] = {}
    down: ClassVar[int] = 2

    def do_POST(self) -> None:
        lines = self.rfile.read(int(self.headers["Content-Length"])).decode().splitlines()
        if type(self).down > 0:
            type(self).down -= 1
            self.send_error(503)
            return
        self.posts.setdefault(self.path, []).extend(lines)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.mark.proves("python.md#a-function-as-sink")
def test_a_service_gets_the_batches_once_it_is_there(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, server = topics.make(2), ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=server.serve_forever).start()
    options = {"url": f"http://127.0.0.1:{server.server_address[1]}/", "token": "t"}
    of_page = documented("python.md", "A function as sink", options)
    kafka = kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest")
    topics.send(source, range(50))
    try:
        with running(stream(kafka, trigger=MICRO_BATCH, **of_page), jvm, tmp_path) as driver:
            report = driver.wait_failure("PythonSinkFailed")
            assert report.last_failure is not None
            assert "raised HTTPError, in inline, line 10, write, in" in report.last_failure.message
            driver.wait_committed(50)
    finally:
        server.shutdown()
        server.server_close()
    assert all(path.startswith("/?batch=0-") for path in _Service.posts)
    lines = [json.loads(line) for lines in _Service.posts.values() for line in lines]
    assert sorted(int(line["text"]) for line in lines) == list(range(50))
