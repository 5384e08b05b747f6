"""The effects on Spark and Kafka that the supervisor asks for, one method each, bounded in time."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size, TooFewExecutorsAllowed, size
from penstock.driver import kubernetes_api
from penstock.driver.checkpoint import start_position
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.progress import Commit, OffsetRange, ProgressReader
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.engine import Engine, engine_of
from penstock.driver.environment import Environment, Kubernetes, Local
from penstock.driver.failures import DriverError, Failure, classify
from penstock.driver.java_exceptions import read_chain
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.security import check_secrets
from penstock.driver.kafka.sink_topic import SinkTopic
from penstock.driver.kafka.source_watch import SourceWatch, open_source
from penstock.driver.logs import say
from penstock.driver.spark import activity, batch_metrics, executors, query, session, user_python
from penstock.driver.spark.activity import Activity
from penstock.driver.spark.batch_metrics import BatchFigures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class QueryRuntime:
    """One stream's Spark: the JVM it is given, and what is up in it."""

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
        self._api = api
        self._checkpoint = CheckpointFolder(environment.checkpoint)
        self._progress = ProgressReader(environment.checkpoint)
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "cluster")
        # While the JVM starts: it takes about as long.
        self._cluster: concurrent.futures.Future[None] | None = self._pool.submit(
            self._prepare_cluster
        )
        self._source: SourceWatch | None = None
        self._sink = SinkTopic(jvm, stream.spec.sink, environment.secrets)
        self._notice: Failure | None = None
        self._reading: Mapping[str, Sequence[int]] | None = None
        self._session: SparkSession | None = None
        self._size: Size | None = None
        self._frame: DataFrame | None = None
        self._query: StreamingQuery | None = None
        self._completed = False
        self._repair_plans: list[RepairPlan] = []

    # What is seen.

    @property
    def partitions(self) -> int | None:
        """Partitions of the source; None before they were asked for."""
        return None if self._source is None else self._source.partitions

    @property
    def wanted(self) -> Size | None:
        """The size that the partitions call for; raises if the stream's own maximum forbids it."""
        if self.partitions is None:
            return None
        wanted = size(self.partitions, self._stream.spec)
        if isinstance(wanted, TooFewExecutorsAllowed):
            raise DriverError(Failure("TooFewExecutorsAllowed", str(wanted), permanent=True))
        return wanted

    @property
    def requested(self) -> Size | None:
        """The size that was last asked for; None without a session."""
        return self._size

    @property
    def has_session(self) -> bool:
        """Whether Spark is up."""
        return self._session is not None

    @property
    def session(self) -> SparkSession | None:
        """Spark itself, while it is up."""
        return self._session

    @property
    def has_query(self) -> bool:
        """Whether a query was started and has not been seen to end."""
        return self._query is not None

    @property
    def completed(self) -> bool:
        """Whether a query that was to end has ended, with all its work done."""
        return self._completed

    def activity(self) -> Activity:
        """Signs of life beside the commits."""
        if self._query is None or self._session is None:
            return activity.NONE
        context = self._session.sparkContext
        return activity.observe_activity(
            self._query, context, engine_of(self._stream.spec), self.partitions or 0
        )

    def registered(self) -> tuple[int, int]:
        """Executors ready for tasks, and their cores."""
        if self._session is None or self._size is None:
            return 0, 0
        if isinstance(self._environment, Local):
            return self._size.executors, self._size.cores
        ready = executors.registered(self._session.sparkContext)
        return ready, ready * self._size.cores_per_executor

    def epoch(self) -> int | None:
        """The newest committed epoch."""
        return self._checkpoint.epoch()

    def planned(self) -> int | None:
        """The newest epoch whose offsets are in the checkpoint, committed or not."""
        return self._checkpoint.planned()

    def news(self) -> list[tuple[Commit, OffsetRange | None]]:
        """What has been committed since the last look."""
        return self._progress.news()

    @property
    def offset_range(self) -> OffsetRange | None:
        """The records of the newest commit, where they are known."""
        return self._progress.offset_range

    def last_batch(self) -> BatchFigures | None:
        """Spark's own figures of the last batch, in the modes that have batches."""
        return None if self._query is None else batch_metrics.last_batch(self._query)

    def offsets(self) -> tuple[Offsets, Offsets] | None:
        """The committed and the newest offsets, if the source has such."""
        newest = None if self._source is None else self._source.newest
        commit = self._progress.newest
        if newest is None or commit is None or commit.offsets is None:
            return None
        return commit.offsets, newest

    @property
    def away(self) -> Failure | None:
        """Why the source does not answer while a query reads it, which goes on when it does."""
        return None if self._source is None or self._query is None else self._source.away

    @property
    def outgrown(self) -> bool:
        """Whether the query reads other partitions than there are, and will not see it itself."""
        if self._source is None or self._query is None or self._reading is None:
            return False
        return self._source.numbers not in (None, self._reading)

    def take_notice(self) -> Failure | None:
        """What should be told though nothing has failed; once."""
        notice, self._notice = self._notice, None
        return notice

    def look_for_failure(self) -> Failure | None:
        """What has ended by itself since the last look."""
        if self._session is not None and executors.is_stopped(self._session.sparkContext):
            self._query = self._frame = self._session = self._size = None
            return Failure("SessionStopped", "Spark has stopped the application by itself")
        if self._query is None:
            return None
        if self._query.isActive:
            return None if self._source is None else self._source.failure
        ended, self._query = self._query, None
        exception = ended._jsq.exception()
        if exception.isEmpty():
            if self._stream.spec.trigger.available_now is not None:
                self._completed = True
                return None
            return Failure("QueryEnded", "the query has ended by itself, without an exception")
        return classify(read_chain(exception.get()))

    def take_repair_plans(self) -> list[RepairPlan]:
        """What was mended in the checkpoint since the last time this was asked."""
        repairs, self._repair_plans = self._repair_plans, []
        return repairs

    # What is done.

    def discover(self) -> None:
        """Asks the source for its partitions, and keeps watching them."""
        spec, environment = self._stream.spec, self._environment
        check_secrets(spec, environment.secrets)
        user_python.check_text(spec.transform.python, environment.python)
        if self._source is None:
            self._source = open_source(self._jvm, spec, environment.secrets)
        self._source.look()
        self._sink.look()

    def start_session(self) -> None:
        """Starts Spark with the executors that are wanted, once those of earlier times are gone."""
        wanted = self.wanted
        assert wanted is not None
        prepared, self._cluster = self._cluster, None
        (prepared or self._pool.submit(self._prepare_cluster)).result()
        conf = session.spark_conf(self._stream, self._environment, wanted)
        self._session = session.start(self._jvm.gateway, conf)
        self._size = wanted

    def check_query(self) -> None:
        """Mends the checkpoint and plans the query; raises if Spark will refuse it."""
        assert self._session is not None
        assert self._source is not None
        spec, folder, source = self._stream.spec, self._checkpoint, self._source
        self._sink.look_again()
        repair = folder.repair(spec)
        if repair.repairs:
            self._repair_plans.append(repair)
            say(
                "the checkpoint was mended",
                repairs=[f"{each.kind} {each.path}" for each in repair.repairs],
                deleted=list(repair.delete),
                written=list(repair.write),
                epoch=repair.epoch,
            )
        self._notice = start_position.check_for_loss(spec, folder, source, repair.epoch)
        starting = (
            start_position.first_start(spec, folder, source) if repair.epoch is None else None
        )
        reading = source.numbers
        frame = query.plan(self._session, spec, self._environment, starting, reading)
        self._reading = reading if engine_of(spec) is Engine.CONTINUOUS else None
        query.check(frame, spec)
        self._frame = frame

    def request_executors(self) -> None:
        """Asks for more executors. One machine has none to give: there Spark starts anew."""
        wanted = self.wanted
        assert wanted is not None
        assert self._session is not None
        if isinstance(self._environment, Local):
            self.let_go()
            return
        executors.request(self._session.sparkContext, wanted.executors)
        self._size = wanted

    def start_query(self) -> None:
        """Starts the query that was checked."""
        assert self._frame is not None
        self._query = query.start(
            self._frame,
            self._stream.spec,
            self._environment,
            self._stream.metadata.name,
            self._checkpoint.location,
        )

    def stop_query(self) -> None:
        """Stops the query if one runs; the session stays unless the query does not end."""
        running, self._query, self._frame = self._query, None, None
        if running is None:
            return
        try:
            running.stop()
        except Exception:
            self.let_go()
            raise

    def await_commit(self, seconds: float) -> None:
        """Waits, bounded, for the query's next commit: what it writes after that comes twice.

        A query that has nothing to read commits nothing, and is not waited for.
        """
        if self.activity().idle:
            return
        before, deadline = self.epoch(), time.monotonic() + seconds
        while self._query is not None and self._query.isActive and self.epoch() == before:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def let_go(self) -> None:
        """Stops query and session, and with them the executors."""
        running, self._query, self._frame = self._query, None, None
        up, self._session, self._size = self._session, None, None
        if up is None:
            return
        # Async progress tracking's tasks may end as late as with the session.
        with executors.quiet_about_killed_tasks(up.sparkContext, session_too=True):
            try:
                if running is not None:
                    running.stop()
                    executors.wait_until_idle(up.sparkContext)
            finally:
                up.stop()

    def forget_partitions(self) -> None:
        """Makes the next look at a halted stream a fresh one."""
        if self._source is not None:
            self._source.forget()

    def _prepare_cluster(self) -> None:
        if self._api is None or not isinstance(self._environment, Kubernetes):
            return
        pod_name = self._environment.pod_name
        session.write_executor_template(pod_name, self._api.uid(pod_name), self._stream)
        removed = kubernetes_api.remove_executors(self._api, self._stream.metadata.name)
        if removed:
            say("executors of an earlier incarnation were removed", pods=removed)


def ended(jvm: Jvm, error: BaseException) -> bool:
    """Whether an error means that the JVM is gone: Py4J then loses its connection."""
    from py4j.protocol import Py4JError, Py4JJavaError

    lost: tuple[type[BaseException], ...] = (Py4JError, ConnectionError)
    if isinstance(error, Py4JJavaError) or not isinstance(error, lost):
        return jvm.exit_code is not None
    return jvm.wait_a_little_for_exit(5.0) is not None
