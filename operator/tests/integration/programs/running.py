"""Runs a program with a restart in the middle of its input, and reads what it has written."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from testkit.driver.checkpoints import folder_at
from testkit.driver.in_process_driver import InProcessDriver
from testkit.driver.in_process_driver import running as driver_of
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topic_reader import TopicReader
from testkit.streams.streams import stream
from testkit.wait import wait_for
from tests.integration.programs.program import MODES, Program, Record, Row


class Run:
    """One program in one mode: its topics, its folder and its stream."""

    def __init__(self, program: Program, mode: str, bootstrap: str, folder: Path) -> None:
        self.program, self.mode = program, mode
        self._bootstrap, self._folder = bootstrap, folder
        self._prefix = f"p-{uuid.uuid4().hex[:8]}-"
        self._names = {topic: self._prefix + topic for topic in program.topics}
        self._producers: dict[str, Producer] = {}
        self._sent = 0
        self._ends: dict[tuple[str, int], int] = {}
        """What must be committed, by topic and partition."""
        self._may_repeat = mode == "S"
        """Whether a clean stop may leave a batch uncommitted, or the query was restarted."""

    def make(self) -> None:
        """Creates its topics, and fills its folder."""
        create_topics(
            self._bootstrap, {self._names[it]: n for it, n in self.program.topics.items()}
        )
        self.program.prepare(self._folder)

    @property
    def resource(self) -> ContinuousStream:
        """What a user writes."""
        program = self.program
        spec: dict[str, Any] = {
            **_source_and_sink(program, self._bootstrap),
            "transform": _transform(program),
            **MODES[self.mode],
            **program.spec,
        }
        return stream(**_filled(spec, self._place))

    def _place(self, text: str) -> str:
        for topic, name in self._names.items():
            text = text.replace(f"<{topic}>", name)
        return text.replace("<topics>", self._prefix).replace("<folder>", str(self._folder))

    # Records.

    def send(self, records: Iterable[Record]) -> None:
        """Sends these records, one after the other where they are of one partition."""
        for record in records:
            if record.topic == "files":
                self._write_file(record)
            else:
                self._produce(record)
            self._sent += 1
        for producer in self._producers.values():
            assert producer.flush(30) == 0

    def _write_file(self, record: Record) -> None:
        """A file for each record. A rename, because Spark reads what it sees."""
        folder = self._folder / "files"
        folder.mkdir(exist_ok=True)
        unfinished = self._folder / "unfinished"
        assert isinstance(record.value, str)
        unfinished.write_text(record.value + "\n")
        unfinished.rename(folder / f"{self._sent}.json")

    def _produce(self, record: Record) -> None:
        topic, partitions = self._names[record.topic], self.program.topics[record.topic]
        partition = self._sent % partitions if record.partition is None else record.partition
        more: dict[str, Any] = {} if record.ms is None else {"timestamp": record.ms}
        producer = self._producer(record)
        if record.transaction is not None:
            producer.begin_transaction()
        if record.transaction is not False:
            more["on_delivery"] = self._note_end
        producer.produce(
            topic, record.value, record.key, partition, headers=list(record.headers), **more
        )
        if record.transaction is not None:
            assert producer.flush(30) == 0  # an aborted record that was never sent proves nothing
            end = producer.commit_transaction if record.transaction else producer.abort_transaction
            end(30)

    def _note_end(self, error: KafkaError | None, message: Message) -> None:
        """Without what follows the last record: the readers of some modes do not see it."""
        assert error is None, error
        self._ends[message.topic(), message.partition()] = message.offset() + 1

    def _producer(self, record: Record) -> Producer:
        kind = "transactional" if record.transaction is not None else record.compression
        if kind not in self._producers:
            options: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "linger.ms": 0}
            if record.transaction is None:
                options["compression.type"] = record.compression
            else:
                options["transactional.id"] = self._prefix
            self._producers[kind] = Producer(options)
            if record.transaction is not None:
                self._producers[kind].init_transactions(30)
        return self._producers[kind]

    # A run.

    def run(self, jvm: Jvm) -> None:
        """The first half of the input, a clean stop, the second half: and every value is right."""
        self.make()
        self.send(self.program.before)
        environment = LocalEnvironment(self._folder / "checkpoint")
        stream = self.resource
        with driver_of(stream, jvm, environment) as driver:
            self._wait_done(driver)
        self._note_disturbance(driver)
        self.send(self.program.after)
        with driver_of(stream, jvm, environment) as driver:
            self._wait_done(driver)
            wait_for("the expected rows", self._has_expected, detail=self._told)
        self._note_disturbance(driver)
        self._judge()

    def _wait_done(self, driver: InProcessDriver) -> None:
        """Waits until everything that has been sent is committed."""

        def is_done(report: DriverReport) -> bool:
            assert report.state is not QueryState.FAILED, report.last_failure
            if self.mode == "N":
                return report.state is QueryState.COMPLETED
            # A stop waits for the batch that has begun if the driver has seen a commit.
            if self.mode == "S" or not self._ends:
                # The last batch is committed only after the next one; files have no offsets.
                return driver.health.ready
            return driver.health.ready and self._is_committed()

        driver.wait("everything committed", is_done)

    def _is_committed(self) -> bool:
        offsets = folder_at(self._folder / "checkpoint").progress.committed_offsets() or {}
        return all(
            offsets.get(topic, {}).get(partition, 0) >= end
            for (topic, partition), end in self._ends.items()
        )

    def _note_disturbance(self, driver: InProcessDriver) -> None:
        """Fails if something failed, but for a query that was slow on a busy machine."""
        report = driver.last
        reason = report.last_failure and report.last_failure.reason
        assert reason in (None, "NoProgress"), report.last_failure
        self._may_repeat |= report.query_restarts > 0

    # What it has written.

    @cached_property
    def _reader(self) -> TopicReader:
        return TopicReader(self._bootstrap)

    def _has_expected(self) -> bool:
        """Whether all expected rows are there, and maybe others."""
        return not Counter(self.program.expected) - self._rows()

    def _told(self) -> str:
        rows, expected = self._rows(), Counter(self.program.expected)
        return f"missing: {expected - rows}\ntoo many: {rows - expected}"

    def _judge(self) -> None:
        rows, expected = self._rows(), Counter(self.program.expected)
        if self._may_repeat:
            assert not expected - rows, self._told()
            assert rows.keys() == expected.keys(), self._told()
        else:
            assert rows == expected, self._told()

    def _rows(self) -> Counter[Row]:
        if not self.program.out:
            return Counter(self._lines())
        rows = [
            tuple(self._shown(message, part) for part in self.program.shows)
            for topic in self.program.out
            for message in self._reader.read(self._names[topic])
        ]
        if self.mode in "UM" or (self.mode == "R" and "U" in self.program.modes):
            last: dict[object, Row] = {row[0]: row for row in rows}
            return Counter(last.values())
        return Counter(rows)

    def _lines(self) -> Iterator[Row]:
        """The rows of the files that the sink has committed, behind the folder of each, if any."""
        written = self._folder / "written"
        log = written / "_spark_metadata"
        paths = {
            json.loads(line)["path"]
            for batch in (log.glob("[0-9]*") if log.exists() else ())
            for line in batch.read_text().splitlines()[1:]
        }
        for path in paths:
            file = Path(path.removeprefix("file://"))
            folder = str(file.parent.relative_to(written))
            for line in file.read_text().splitlines():
                yield (line,) if folder == "." else (folder, line)

    def _shown(self, message: Message, part: str) -> object:
        match part:
            case "key":
                return _text(message.key())
            case "value":
                return _text(message.value())
            case "topic":
                return message.topic().removeprefix(self._prefix)
            case "headers":
                return tuple(message.headers() or ())
        return message.partition()


def _source_and_sink(program: Program, bootstrap: str) -> dict[str, Any]:
    """Source and sink: those of Kafka, unless the program has others in its spec."""
    starts = {"startingOffsets", "startingOffsetsByPartition"} & program.source.keys()
    source = {**({} if starts else {"startingOffsets": "earliest"}), **program.source}
    return {
        "source": {"kafka": {"bootstrapServers": bootstrap, **source}},
        "sink": {"kafka": {"bootstrapServers": bootstrap, **program.sink}},
    }


def _transform(program: Program) -> dict[str, Any]:
    if program.python is not None:
        python = {"function": f"{_module(program)}:transform", "inline": program.python}
        return {"python": python, **program.transform}
    return {**({} if program.sql is None else {"sql": program.sql}), **program.transform}


def _module(program: Program) -> str:
    return "program_" + program.name.replace("-", "_")


def _filled(part: Any, place: Any) -> Any:
    """A part of a spec with the names of this run."""
    if isinstance(part, dict):
        return {place(name): _filled(value, place) for name, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, place) for value in part]
    return place(part) if isinstance(part, str) else part


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode()
