"""Runs one case: the driver's own loop, step by step, on topics of the case's own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from penstock.api.v1alpha1.status import LastFailure
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.context import DriverContext
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.followed_stream import FollowedStream, LiveFields
from penstock.driver.loop import DriverOutput, Loop
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.local.cases.case_file import (
    Case,
    CaseFile,
    DeadLetter,
    InputRecord,
    OutputRecord,
    Step,
    milliseconds,
)
from penstock.local.cases.case_topics import CaseTopics, SentRecord
from penstock.local.cases.checkpoint_edits import advance_watermark, newest_epoch, undo_last_batch
from penstock.local.cases.comparison import REASON_HEADER, Expected, KafkaRecord, compare, json_of
from penstock.local.cases.stream_of_case import (
    WRITE_TOPIC,
    NotTestable,
    StreamOfCase,
    of_batches,
    topics_of,
    without_empty_batches,
)
from penstock.local.kafka.clients import lines_of

# A query that fails for the same reason again does not get better here.
_MAX_ATTEMPTS = 3
_BACKOFF_SECONDS = 0.1
# For a step of the driver to end.
_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """How a case has ended."""

    differences: tuple[str, ...] = ()
    """What must be otherwise; empty: the case has passed."""
    notes: tuple[str, ...] = ()
    """What is not wrong, and worth a word."""
    seconds: float = 0.0


Ends = Mapping[tuple[str, int], int]
"""Where partitions of the source end, by topic and number."""


@dataclass
class _QueryRun:
    """What one run of the query has shown."""

    failure: LastFailure | None = None
    """With which it has ended."""
    is_done: bool = False
    """It has handled all that it reads."""
    unread: tuple[str, ...] = ()
    """Partitions with records of the case that it has not read."""
    dropped_late: int = 0
    retried: dict[datetime, LastFailure] = field(default_factory=dict)
    """Failures after which it was started again, by their times."""
    last: DriverReport | None = None


@dataclass
class _Steps:
    """What the steps so far have left."""

    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    may_come_again: Sequence[KafkaRecord] = ()
    """What the batch wrote that was undone."""
    notes: list[str] = field(default_factory=list)


class CaseRunner:
    """Runs the cases of one file, one after another, in one JVM."""

    def __init__(
        self,
        jvm: Jvm,
        topics: CaseTopics,
        file: CaseFile,
        environment: LocalEnvironment,
        start_seconds: int = 0,
    ) -> None:
        """`environment` has a checkpoint that no other case uses. `start_seconds`: what the first
        session may take more.
        """
        self._jvm = jvm
        self._start_seconds = start_seconds
        self.topics = topics
        self._file = file
        self._environment = environment

    def run(self, case: Case, run: StreamOfCase) -> Outcome:
        """Runs the steps, up to the first that shows a difference.

        Raises NotTestable, OSError if a file of the case cannot be read, and DriverMustExit.
        """
        began, left = time.monotonic(), _Steps()
        environment = replace(self._environment, rows_as_json=run.rows_as_json)
        self.topics.make(topics_of(run, self.cases))
        differences: list[str] = []
        for number, step in enumerate(case.all_steps, 1):
            found = _Step(self, case, step, run, environment, left).run()
            where = f"step {number}, " if len(case.all_steps) > 1 else ""
            differences = [f"{where}{it}" for it in found]
            if differences:
                break
        return Outcome(tuple(differences), tuple(left.notes), time.monotonic() - began)

    @property
    def cases(self) -> Sequence[Case]:
        """All of the file."""
        return self._file.cases.cases

    def expected(self, field_name: str, records: Sequence[OutputRecord]) -> list[Expected]:
        """The records of a list, with the bytes of their files."""
        return [
            Expected(
                f"{field_name}[{n}]",
                it,
                self._bytes_of_file(it.key_file),
                self._bytes_of_file(it.value_file),
            )
            for n, it in enumerate(records)
        ]

    def _bytes_of_file(self, name: str | None) -> bytes | None:
        return self._file.beside(name).read_bytes() if name else None

    def input(self, records: Sequence[InputRecord], run: StreamOfCase) -> Iterator[SentRecord]:
        """The records to send."""
        for record in records:
            topic = record.topic or run.default_topic
            if topic is None:
                raise NotTestable(WRITE_TOPIC)
            partition = record.partition
            if partition is None:
                partition = run.default_partition(topic)
            values = [self._content(record, "value")]
            if record.lines is not None:
                lines = lines_of(self._file.beside(record.lines).read_bytes())
                values = [line.encode() for line in lines.values()]
            for value in values:
                yield SentRecord(
                    topic,
                    partition,
                    self._content(record, "key"),
                    value,
                    {name: _encoded(text) for name, text in record.headers.items()},
                    None if record.time is None else milliseconds(record.time),
                )

    def _content(self, record: InputRecord, part: str) -> bytes | None:
        if record.has(f"{part}_hex"):
            return bytes.fromhex(getattr(record, f"{part}_hex"))
        name = getattr(record, f"{part}_file")
        return self._bytes_of_file(name) if name else _encoded(getattr(record, part))

    def run_query(
        self, stream: ContinuousStream, environment: LocalEnvironment, ends: Ends, seconds: int
    ) -> _QueryRun:
        """Runs the query until it has handled the records before `ends`, has failed, or the time is
        over.
        """
        ran, stop = _QueryRun(), threading.Event()
        followed = FollowedStream(LiveFields.of(stream.spec))
        runtime = QueryRuntime(stream, DriverContext.of(stream, environment, self._jvm, followed))
        own_thread = threading.get_ident()

        def look(report: DriverReport) -> None:
            if stop.is_set() or threading.get_ident() != own_thread:
                return
            ran.last = report
            _count_late(runtime, ran)
            failure = report.last_failure
            if report.state is QueryState.RESTARTING and failure is not None:
                ran.retried[failure.time] = failure
            gives_up = may_give_up and len(ran.retried) >= _MAX_ATTEMPTS
            if report.state is QueryState.FAILED or gives_up:
                ran.failure = failure
            elif report.state is QueryState.COMPLETED:
                ran.is_done, ran.unread = True, _not_reached(runtime, ends)
            elif report.state is QueryState.RUNNING and runs_on:
                ran.unread = _not_read(runtime, ends)
                ran.is_done = bool(ran.unread) or not _not_reached(runtime, ends)
            if ran.failure is not None or ran.is_done:
                stop.set()

        runs_on = stream.spec.trigger.mode.has_long_running_tasks
        kafka = stream.spec.source.kafka
        may_give_up = kafka is None or kafka.dead_letters is None
        seconds += self._start_seconds
        self._start_seconds = 0
        policy = replace(RestartPolicy.from_spec(stream.spec), backoff_base=_BACKOFF_SECONDS)
        timers = [
            threading.Timer(seconds, stop.set),
            # A step of the driver, such as a plan, may wait for what never comes.
            threading.Timer(seconds + _STOP_SECONDS, self._jvm.kill),
        ]
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            Loop(runtime, policy, "", DriverOutput(publish=look)).run(stop)
        except BaseException:
            with contextlib.suppress(Exception):  # the JVM may have ended
                runtime.stop_session()
            raise
        finally:
            for timer in timers:
                timer.cancel()
        _count_late(runtime, ran)
        return ran


def _count_late(runtime: QueryRuntime, ran: _QueryRun) -> None:
    for batch in runtime.new_batches().batches:
        ran.dropped_late += 0 if batch.state is None else batch.state.late_rows


def _not_reached(runtime: QueryRuntime, ends: Ends) -> tuple[str, ...]:
    """The partitions of which less is committed."""
    committed = runtime.progress.committed_offsets() or {}
    return tuple(
        f"{topic}/{number}"
        for (topic, number), end in ends.items()
        if committed.get(topic, {}).get(number, 0) < end
    )


def _not_read(runtime: QueryRuntime, ends: Ends) -> tuple[str, ...]:
    """The partitions that a query which has committed does not know."""
    committed = runtime.progress.committed_offsets()
    if committed is None:
        return ()
    return tuple(f"{topic}/{n}" for topic, n in ends if n not in committed.get(topic, {}))


class _Step:
    """One step of a case."""

    def __init__(
        self,
        runner: CaseRunner,
        case: Case,
        step: Step,
        run: StreamOfCase,
        environment: LocalEnvironment,
        left: _Steps,
    ) -> None:
        self._left = left
        self._runner = runner
        self._case = case
        self._step = step
        self._run = run
        self._environment = environment

    def run(self) -> list[str]:
        """What differs."""
        step, runner, checkpoint = self._step, self._runner, self._environment.checkpoint
        left = self._left
        stream, before, dropped_late = self._run.stream, newest_epoch(checkpoint), 0
        if step.watermark is not None:
            if problem := advance_watermark(checkpoint, milliseconds(step.watermark)):
                return [f"watermark: {problem}"]
            # In batches, as real-time mode plans none without records: both share a checkpoint.
            closing = self._run_query(of_batches(stream, always=True))
            dropped_late = closing.dropped_late
            if closing.failure is not None or not closing.is_done:
                return self._of_end(closing)
        left.ends |= runner.topics.send(runner.input(step.in_, self._run))
        if step.kill:
            stream = without_empty_batches(stream)
        ran = self._run_query(of_batches(stream))
        came = runner.topics.new_records(self._out_topics())
        if ran.failure is not None and step.fails is None:
            return self._of_end(ran)
        differences = [*self._of_end(ran), *self._of_output(came, ran)]
        differences += self._of_dead_letters()
        dropped_late += ran.dropped_late
        if step.dropped_late not in (None, dropped_late):
            differences.append(f"droppedLate: expected {step.dropped_late}, were {dropped_late}")
        left.may_come_again = ()
        if step.kill and not differences:
            if not undo_last_batch(checkpoint, before):
                return ["kill: no batch of this step has records"]
            left.may_come_again = () if self._is_once else came
        return differences

    @property
    def _is_once(self) -> bool:
        return self._run.stream.spec.sink.exactly_once

    def _run_query(self, stream: ContinuousStream) -> _QueryRun:
        ends, seconds = self._left.ends, self._case.timeout_seconds
        return self._runner.run_query(stream, self._environment, ends, seconds)

    def _of_end(self, ran: _QueryRun) -> list[str]:
        expected, failure = self._step.fails, ran.failure
        if failure is None and not ran.is_done:
            state = "" if ran.last is None else f": {ran.last.state}. {ran.last.message}"
            said = "".join(f" {it.reason}: {it.message}" for it in [*ran.retried.values()][-1:])
            return [f"not done within {self._case.timeout_seconds} s (timeoutSeconds){state}{said}"]
        if ran.unread:
            return [f"the stream does not read {', '.join(ran.unread)}, which got records"]
        if failure is None:
            return (
                [] if expected is None else [f"fails: expected {expected.reason}, nothing failed"]
            )
        if expected is None:
            return [f"the stream failed: {failure.reason}: {failure.message}"]
        if failure.reason != expected.reason:
            came = f"{failure.reason}: {failure.message}"
            return [f"fails.reason: expected {expected.reason}, came {came}"]
        if expected.message_includes not in failure.message:
            return [
                f"fails.messageIncludes: expected {expected.message_includes!r} in the message: "
                f"{failure.message}"
            ]
        return []

    def _of_output(self, came: Sequence[KafkaRecord], ran: _QueryRun) -> Sequence[str]:
        left = self._left
        if self._run.dead_letters is None and ran.failure is None:
            reasons = dict.fromkeys(it.reason for it in ran.retried.values())
            left.notes += [f"was started again after {it}" for it in reasons]
        if self._step.out is None:
            return ()
        match = compare(
            self._runner.expected("out", self._step.out),
            came,
            by_key=self._case.order == "ByKey",
            may_come_again=left.may_come_again,
            repeats=bool(ran.retried) and not self._is_once,
        )
        if match.copies:
            why = "a failure" if ran.retried else "the kill"
            left.notes.append(f"{match.copies} came again after {why}")
        return match.differences

    def _out_topics(self) -> list[str]:
        """That of the sink; if a column names topics, all that the stream does not read."""
        if self._run.sink_topic is not None:
            return [self._run.sink_topic]
        source = {topic for topic, _ in self._left.ends} | {self._run.dead_letters}
        return sorted(self._runner.topics.names() - source)

    def _of_dead_letters(self) -> list[str]:
        topic, letters = self._run.dead_letters, self._step.dead_letters
        if topic is None:
            return (
                ["deadLetters: the stream has none (source.kafka.deadLetters)"] if letters else []
            )
        came = self._runner.topics.new_records([topic])
        if letters is None:
            return [f"a dead letter, and nobody expected it: {it}" for it in came]
        expected = self._runner.expected("deadLetters", list(map(_with_reason, letters)))
        return list(compare(expected, came).differences)


def _with_reason(letter: DeadLetter) -> OutputRecord:
    if letter.reason is None:
        return letter
    headers = {**letter.headers, REASON_HEADER: letter.reason}
    return letter.model_copy(update={"headers": headers})


def _encoded(value: object) -> bytes | None:
    """A text as it is, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json_of(value, separators=(",", ":")).encode()
