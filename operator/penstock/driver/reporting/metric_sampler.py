"""Samples what the loop should not wait for: Spark's own metrics, and records' timestamps.

In two threads: the questions to Kafka may take seconds, and Spark keeps its metrics of a batch only
for a while.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.jvm import Jvm, jvm_metrics
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.records import KafkaRecords
from penstock.driver.logs import log_event
from penstock.driver.record_position import Position
from penstock.driver.reporting.commit_latency import sample_latency
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.record_age import RecordAges
from penstock.driver.reporting.sink_latency import SinkLatency
from penstock.driver.spark import executor_metrics
from penstock.driver.spark.batch_metrics import NewBatches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_SECONDS = 10.0
# Spark keeps 99 batches, which is more than can end within this time: each has a Spark job, and
# writes two files. It takes 0.5 ms if there is none (measured).
BATCHES_SECONDS = 1.0
# After a sink could not be read, most often for lack of rights.
SINK_RETRY_SECONDS = 300.0


class SampledQuery(Protocol):
    """What the sampler needs to know of the runtime."""

    @property
    def session(self) -> SparkSession | None:
        """The Spark session, if one runs."""

    @property
    def offset_range(self) -> OffsetRange | None:
        """The records of the newest commit; None where they are unknown."""

    def offsets(self) -> tuple[Offsets, Offsets] | None:
        """The committed and the newest offsets; None if the source has no offsets."""

    def new_batches(self) -> NewBatches:
        """Spark's metrics of the batches since the last call; none in continuous mode."""


class Sampler:
    """Samples in two threads until `stop`. Logs a failing measurement once, and retries it."""

    def __init__(
        self,
        runtime: SampledQuery,
        jvm: Jvm,
        spec: StreamSpec,
        secrets: Path,
        metrics: Metrics,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._runtime = runtime
        self._jvm = jvm
        self._metrics = metrics
        self._interval = interval
        self._source = _Reader(
            jvm, spec.source.kafka, secrets, partial(metrics.observe_fetch, "source")
        )
        self._ages = RecordAges()
        self.positions_behind: frozenset[Position] = frozenset()
        """Committed offsets after which there is a record, at the last measurement of the lag."""
        self._sampled: OffsetRange | None = None
        self._sink = _Reader(jvm, spec.sink.kafka, secrets, partial(metrics.observe_fetch, "sink"))
        self._sink_latency = _sink_latency(spec)
        self._sink_sampled: OffsetRange | None = None
        self._sink_due = 0.0
        self._rng = random.Random()  # noqa: S311
        self._failing: set[str] = set()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=ask, name=name, daemon=True)
            for name, ask in (("spark-sampler", self._ask_spark), ("sampler", self._ask_kafka))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the calls into the JVM; waits up to 2 s for those that are under way."""
        self._stopped.set()
        deadline = time.monotonic() + 2.0
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _ask_spark(self) -> None:
        due = time.monotonic() + self._interval
        while not self._stopped.wait(min(BATCHES_SECONDS, self._interval)):
            if self._jvm.exit_code is not None:
                return
            self._try("Spark's metrics of the batches", self._sample_batches)
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval
                self._try("the executors' metrics", self._sample_executors)
                self._try("the JVM's metrics", self._sample_jvm)

    def _ask_kafka(self) -> None:
        while not self._stopped.wait(self._interval) and self._jvm.exit_code is None:
            self._try("the record latency", self._sample_latency, self._source.close)
            if not self._try("the lag in seconds", self._sample_age, self._source.close):
                self._set_age(None)
            if time.monotonic() >= self._sink_due:
                self._try("the latency to the sink", self._sample_sink, self._close_both)
        self._close_both()

    def _try(
        self,
        what: str,
        measure: Callable[[], None],
        after_failure: Callable[[], None] = lambda: None,
    ) -> bool:
        """Whether it was measured."""
        session = self._runtime.session
        try:
            measure()
        except Exception as error:  # a failed measurement must not stop the query
            after_failure()
            if self._stopped.is_set() or self._runtime.session is not session:
                return False  # what was measured has been stopped meanwhile
            if what not in self._failing and not self._jvm.is_gone_after(error):
                cause = classify_exception(error).message
                log_event(f"{what} could not be measured", logging.WARNING, cause=cause)
            self._failing.add(what)
            return False
        self._failing.discard(what)
        return True

    def _sample_executors(self) -> None:
        session = self._runtime.session
        executors = [] if session is None else executor_metrics.collect(session.sparkContext)
        self._metrics.set_executors(executors)

    def _sample_batches(self) -> None:
        new = self._runtime.new_batches()
        for batch in new.batches:
            self._metrics.observe_batch(batch)
        self._metrics.count_missed_batches(new.missed)

    def _sample_jvm(self) -> None:
        if self._runtime.session is not None:  # else this might wait for the JVM's start
            self._metrics.set_jvm(jvm_metrics(self._jvm.gateway))

    def _sample_latency(self) -> None:
        offset_range = self._runtime.offset_range
        if offset_range is None or offset_range is self._sampled:
            return
        self._sampled, reader = offset_range, self._source.get()
        if reader is None:
            return
        for seconds in sample_latency(reader, offset_range, self._rng):
            self._metrics.observe_latency(seconds)

    def _sample_age(self) -> None:
        """A commit since the last poll of the newest offsets makes it too low, never too high."""
        offsets = self._runtime.offsets()
        reader = None if offsets is None else self._source.get()
        if offsets is None or reader is None:
            self._set_age(None)
            return
        self._set_age(self._ages.measure(*offsets, reader.first_from, time.time()))

    def _set_age(self, seconds: float | None) -> None:
        self._metrics.set_lag_seconds(seconds)
        self.positions_behind = frozenset() if seconds is None else self._ages.positions_behind

    def _sample_sink(self) -> None:
        offset_range, latency = self._runtime.offset_range, self._sink_latency
        if latency is None or offset_range is None or offset_range is self._sink_sampled:
            return
        self._sink_sampled = offset_range
        self._sink_due = time.monotonic() + SINK_RETRY_SECONDS
        source, sink = self._source.get(), self._sink.get()
        assert source is not None
        assert sink is not None
        sample = latency.sample(source, sink, offset_range, self._rng)
        self._sink_due = 0.0
        for seconds in sample.exact:
            self._metrics.observe_sink_latency(seconds)
        for seconds in sample.bounds:
            self._metrics.observe_sink_latency_bound(seconds)

    def _close_both(self) -> None:
        self._source.close()
        self._sink.close()


class _Reader:
    """The reader of a source or sink, made when it is asked for; none if that is not Kafka."""

    def __init__(
        self,
        jvm: Jvm,
        client: KafkaClient | None,
        secrets: Path,
        on_fetch: Callable[[float], None],
    ) -> None:
        self._jvm = jvm
        self._on_fetch = on_fetch
        self._client = client
        self._secrets = secrets
        self._open: KafkaRecords | None = None

    def get(self) -> KafkaRecords | None:
        """The reader; waits for the JVM."""
        if self._open is None and self._client is not None:
            self._open = KafkaRecords(
                self._jvm.gateway, self._client, self._secrets, self._on_fetch
            )
        return self._open

    def close(self) -> None:
        """Closes it. The next question gets another one."""
        reader, self._open = self._open, None
        if reader is not None and self._jvm.exit_code is None:
            try:
                reader.close()
            except Exception as error:
                if self._jvm.is_gone_after(error):  # which closed it
                    return
                cause = classify_exception(error).message
                log_event("the reader of timestamps did not close", logging.WARNING, cause=cause)


def _sink_latency(spec: StreamSpec) -> SinkLatency | None:
    """None unless the query copies from Kafka to one topic: then nothing is asked."""
    sink = spec.sink.kafka
    if spec.source.kafka is None or sink is None or sink.topic is None:
        return None
    return SinkLatency(sink.topic, writes_at_once=spec.trigger.mode.has_long_running_tasks)
