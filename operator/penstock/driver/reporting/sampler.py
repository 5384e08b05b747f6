"""Measures at a slow beat what the loop should not wait for: record latency, executors' figures."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.driver.checkpoint.progress import OffsetRange
from penstock.driver.java_exceptions import classify_exception
from penstock.driver.jvm import Jvm
from penstock.driver.logs import log_event
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.record_latency import LatencyProbe
from penstock.driver.spark import executor_metrics
from penstock.driver.spark.batch_metrics import BatchMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT = 10.0


class Sampled(Protocol):
    """The query that is sampled, as far as the sampler looks at it."""

    @property
    def session(self) -> SparkSession | None:
        """Spark, while it is up."""

    @property
    def offset_range(self) -> OffsetRange | None:
        """The records of the newest commit, where they are known."""

    def last_batch(self) -> BatchMetrics | None:
        """Spark's own figures of the last batch, in the modes that have batches."""


class Sampler:
    """A thread of its own, until its event is set; what fails is told once and tried again."""

    def __init__(
        self,
        runtime: Sampled,
        jvm: Jvm,
        spec: StreamSpec,
        secrets: Path,
        metrics: Metrics,
        beat: float = BEAT,
    ) -> None:
        self._runtime = runtime
        self._jvm = jvm
        self._source: KafkaSource | None = spec.source.kafka
        self._secrets = secrets
        self._metrics = metrics
        self._beat = beat
        self._probe: LatencyProbe | None = None
        self._sampled: OffsetRange | None = None
        self._rng = random.Random()  # noqa: S311
        self._failing: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_measuring, name="measurer", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """No more calls into the JVM after this, or after a moment at most."""
        self._over.set()
        self._thread.join(2.0)

    def _keep_measuring(self) -> None:
        while not self._over.wait(self._beat) and self._jvm.exit_code is None:
            self._try("the executors' figures", self._look_at_executors)
            self._try("Spark's figures of the last batch", self._look_at_batch)
            self._try("the latency of records", self._sample_latency)
        self._close()

    def _try(self, what: str, measure: Callable[[], None]) -> None:
        try:
            measure()
        except Exception as error:  # whatever it is, the query runs on
            self._close()
            if what not in self._failing and self._jvm.exit_code is None:
                cause = classify_exception(error).message
                log_event(f"{what} could not be measured", logging.WARNING, cause=cause)
            self._failing.add(what)
        else:
            self._failing.discard(what)

    def _look_at_executors(self) -> None:
        session = self._runtime.session
        known = [] if session is None else executor_metrics.collect(session.sparkContext)
        self._metrics.set_executors(known)

    def _look_at_batch(self) -> None:
        self._metrics.set_batch(self._runtime.last_batch())

    def _sample_latency(self) -> None:
        offset_range = self._runtime.offset_range
        if self._source is None or offset_range is None or offset_range is self._sampled:
            return
        self._sampled = offset_range
        if self._probe is None:
            self._probe = LatencyProbe(self._jvm.gateway, self._source, self._secrets)
        for seconds in self._probe.sample(offset_range, self._rng):
            self._metrics.observe_latency(seconds)

    def _close(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None and self._jvm.exit_code is None:
            try:
                probe.close()
            except Exception as error:
                log_event("the latency probe did not close", logging.WARNING, cause=str(error))
