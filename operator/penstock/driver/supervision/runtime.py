"""The query's session, source and checkpoint: one method for each action, each bounded in time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size, TooFewExecutorsAllowed, size
from penstock.driver import kubernetes_api
from penstock.driver.checkpoint import start_position
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.progress import OffsetRange, ProgressReader
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.engine import Engine, engine_of
from penstock.driver.environment import Environment, LocalEnvironment
from penstock.driver.failures import DriverError, Failure, classify
from penstock.driver.java_exceptions import read_chain
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import RunningLosses
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.security import check_secrets
from penstock.driver.kafka.sink_topic import SinkTopic
from penstock.driver.kafka.source_monitor import SourceMonitor, source_monitor
from penstock.driver.logs import log_event
from penstock.driver.spark import activity, batch_metrics, executors, query, session, user_python
from penstock.driver.spark.activity import Activity
from penstock.driver.spark.batch_metrics import BatchMetrics
from penstock.driver.supervision.executor_cleanup import ClusterPreparation
from penstock.driver.supervision.state import Observation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class QueryRuntime:
    """One stream's session and query in a given JVM."""

    def __init__(
        self,
        stream: ContinuousStream,
        environment: Environment,
        jvm: Jvm,
        api: kubernetes_api.Api | None = None,
    ) -> None:
        self._stream = stream
        self._environment = environment
        self._jvm = jvm
        self._checkpoint = CheckpointFolder(environment.checkpoint)
        self._cluster = ClusterPreparation(stream, environment, api)
        self._source: SourceMonitor | None = None
        self._sink = SinkTopic(jvm, stream.spec.sink, environment.secrets)
        self._warning: Failure | None = None
        self._losses = RunningLosses()
        self._earliest: Offsets | None = None
        """The poll that was last searched for losses."""
        self._query_partitions: Mapping[str, Sequence[int]] | None = None
        """The partitions that a continuous query was planned with."""
        self._session: SparkSession | None = None
        self._size: Size | None = None
        self._frame: DataFrame | None = None
        self._query: StreamingQuery | None = None
        self._completed = False
        self._repair_plans: list[RepairPlan] = []

    # Observe.

    def observe(self) -> Observation:
        """The query and everything that it depends on, now.

        Raises TooFewExecutorsAllowed if the partitions need more executors than the spec allows.
        """
        failure = self._find_failure()
        desired = self._desired_size()
        executors_ready, cores = self._registered()
        seen = self._activity()
        source, has_query = self._source, self._query is not None
        return Observation(
            now=time.monotonic(),
            failure=failure,
            partitions=self._partition_count,
            desired_cores=desired.cores if desired else 0,
            requested_cores=self._size.cores if self._size else 0,
            registered_executors=executors_ready,
            registered_cores=cores,
            has_session=self.has_session,
            has_query=has_query,
            epoch=self.progress.committed_epoch(),
            planned_epoch=self.progress.planned_epoch(),
            active_tasks=seen.active_tasks,
            idle=seen.idle,
            batch_running=seen.batch_running,
            confirmed_running=seen.confirmed_running,
            completed=self._completed,
            source_outage=source.outage if source is not None and has_query else None,
            partitions_added=self._are_partitions_added(),
        )

    @property
    def progress(self) -> ProgressReader:
        """The commits and offsets in the checkpoint."""
        return self._checkpoint.progress

    @property
    def requested_size(self) -> Size | None:
        """The size that Spark was last asked for; None without a session."""
        return self._size

    @property
    def has_session(self) -> bool:
        """Whether Spark runs."""
        return self._session is not None

    @property
    def session(self) -> SparkSession | None:
        """The Spark session, if one runs."""
        return self._session

    @property
    def has_query(self) -> bool:
        """Whether a query was started and is not known to have ended."""
        return self._query is not None

    @property
    def offset_range(self) -> OffsetRange | None:
        """The records of the newest commit; None where they are unknown."""
        return self.progress.offset_range

    def last_batch(self) -> BatchMetrics | None:
        """Spark's metrics of the last batch; None in continuous mode."""
        return None if self._query is None else batch_metrics.last_batch(self._query)

    def offsets(self) -> tuple[Offsets, Offsets] | None:
        """The committed and the newest offsets; None if the source has no offsets."""
        newest = None if self._source is None else self._source.newest_offsets
        commit = self.progress.newest
        if newest is None or commit is None or commit.offsets is None:
            return None
        return commit.offsets, newest

    def take_warning(self) -> Failure | None:
        """A failure that does not stop the query, once: records that are lost."""
        warning, self._warning = self._warning or self._lost_while_running(), None
        return warning

    def _lost_while_running(self) -> Failure | None:
        kafka, source, commit = self._stream.spec.source.kafka, self._source, self.progress.newest
        if kafka is None or kafka.fail_on_data_loss or source is None or not self.has_query:
            return None
        earliest = source.earliest_offsets
        if earliest is None or earliest is self._earliest or commit is None:
            return None
        self._earliest = earliest
        losses = self._losses.find(commit.offsets or {}, earliest)
        return data_loss.warning(losses) if losses else None

    def take_repair_plans(self) -> list[RepairPlan]:
        """The repairs of the checkpoint since the last call."""
        repairs, self._repair_plans = self._repair_plans, []
        return repairs

    @property
    def _partition_count(self) -> int | None:
        return None if self._source is None else self._source.partition_count

    def _desired_size(self) -> Size | None:
        partitions = self._partition_count
        if partitions is None:
            return None
        desired = size(partitions, self._stream.spec)
        if isinstance(desired, TooFewExecutorsAllowed):
            raise DriverError(Failure("TooFewExecutorsAllowed", str(desired), permanent=True))
        return desired

    def _find_failure(self) -> Failure | None:
        """Why the session or the query has ended by itself."""
        if self._session is not None and executors.is_stopped(self._session.sparkContext):
            self._query = self._frame = self._session = self._size = None
            return Failure("SessionStopped", "Spark stopped the application by itself.")
        if self._query is None:
            # A query that waits for its cores was planned with the topics of that moment.
            return self._source.failure if self._frame is not None and self._source else None
        if self._query.isActive:
            return None if self._source is None else self._source.failure
        ended, self._query = self._query, None
        exception = ended._jsq.exception()
        if exception.isEmpty():
            if self._stream.spec.trigger.available_now is not None:
                self._completed = True
                return None
            return Failure("QueryEnded", "The query ended by itself, without an exception.")
        return classify(read_chain(exception.get()))

    def _registered(self) -> tuple[int, int]:
        """Executors that are ready for tasks, and their cores."""
        if self._session is None or self._size is None:
            return 0, 0
        if isinstance(self._environment, LocalEnvironment):
            return self._size.executors, self._size.cores
        ready = executors.registered(self._session.sparkContext)
        return ready, ready * self._size.cores_per_executor

    def _activity(self) -> Activity:
        if self._query is None or self._session is None:
            return activity.NONE
        context = self._session.sparkContext
        return activity.observe_activity(
            self._query, context, engine_of(self._stream.spec), self._partition_count or 0
        )

    def _are_partitions_added(self) -> bool:
        """Whether a continuous query does not read the source's current partitions."""
        if self._source is None or self._query is None or self._query_partitions is None:
            return False
        return self._source.partitions_by_topic not in (None, self._query_partitions)

    # Act.

    def discover_partitions(self) -> None:
        """Asks the source for its partitions, and starts to monitor it."""
        spec, environment = self._stream.spec, self._environment
        check_secrets(spec, environment.secrets)
        user_python.check_text(spec.transform.python, environment.python)
        if self._source is None:
            self._source = source_monitor(self._jvm, spec, environment.secrets)
        self._source.poll()
        self._sink.check()

    def start_session(self) -> None:
        """Starts Spark with the desired executors, after those of an earlier process are gone."""
        desired = self._desired_size()
        assert desired is not None
        self._cluster.finish()
        conf = session.spark_conf(self._stream, self._environment, desired)
        self._session = session.start(self._jvm.gateway, conf)
        self._size = desired

    def check_query(self) -> None:
        """Repairs the checkpoint and plans the query; raises if Spark refuses the query."""
        assert self._session is not None
        assert self._source is not None
        spec, folder, source = self._stream.spec, self._checkpoint, self._source
        self._sink.check_before_start()
        repair = folder.repair(spec)
        if repair.repairs:
            self._repair_plans.append(repair)
            log_event(
                "the checkpoint was repaired",
                repairs=[f"{each.kind} {each.path}" for each in repair.repairs],
                deleted=list(repair.delete),
                written=list(repair.write),
                epoch=repair.epoch,
            )
        self._warning = start_position.check_for_data_loss(spec, folder, source, repair)
        self._losses = RunningLosses(source.earliest_offsets)
        starting = start_position.first_starting_offsets(spec, folder, source, repair)
        partitions = source.partitions_by_topic
        frame = query.plan(self._session, spec, self._environment, starting, partitions)
        self._query_partitions = partitions if engine_of(spec) is Engine.CONTINUOUS else None
        query.check(frame, spec)
        self._frame = frame

    def request_executors(self) -> None:
        """Asks for more executors. A local session stops instead and starts with more cores."""
        desired = self._desired_size()
        assert desired is not None
        assert self._session is not None
        if isinstance(self._environment, LocalEnvironment):
            self.stop_session()
            return
        executors.request(self._session.sparkContext, desired.executors)
        self._size = desired

    def start_query(self) -> None:
        """Starts the query that `check_query` has planned."""
        assert self._frame is not None
        self._query = query.start(
            self._frame,
            self._stream.spec,
            self._environment,
            self._stream.metadata.name,
            self._checkpoint.location,
        )

    def stop_query(self) -> None:
        """Stops the query if one runs. Stops the session too if the query does not end."""
        running, self._query, self._frame = self._query, None, None
        if running is None:
            return
        try:
            running.stop()
        except Exception:
            self.stop_session()
            raise

    def wait_for_commit(self, seconds: float) -> None:
        """Waits for the query's next commit: records written after it are written again later.

        Does not wait for an idle query, which commits nothing.
        """
        if self._activity().idle:
            return
        epoch = self.progress.committed_epoch
        before, deadline = epoch(), time.monotonic() + seconds
        while self._query is not None and self._query.isActive and epoch() == before:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def stop_session(self) -> None:
        """Stops the query and the session, which releases the executors."""
        running, self._query, self._frame = self._query, None, None
        up, self._session, self._size = self._session, None, None
        if up is None:
            return
        # Tasks of async progress tracking may end only with the session.
        with executors.without_stop_warnings(up.sparkContext, stops_session=True):
            try:
                if running is not None:
                    running.stop()
                    executors.wait_until_idle(up.sparkContext)
            finally:
                up.stop()

    def reset_partitions(self) -> None:
        """Discards the known partitions, so that the next start discovers them again."""
        if self._source is not None:
            self._source.reset()
