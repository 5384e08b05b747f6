"""The query's session, source and checkpoint: one method for each action, each bounded in time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size
from penstock.driver.checkpoint import generations, start_position
from penstock.driver.checkpoint.batch_ids import PlannedQuery
from penstock.driver.checkpoint.generations import Generations
from penstock.driver.checkpoint.left_out import DeadLetter, LeftOut
from penstock.driver.checkpoint.progress import OffsetRange, ProgressReader
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.source_changes import SourceChanges
from penstock.driver.checkpoint.storage.access import checkpoints_of
from penstock.driver.checkpoint.storage.files import Checkpoints
from penstock.driver.environment import Environment, PodEnvironment
from penstock.driver.exceptions.chain import read_chain
from penstock.driver.exceptions.classify import classify, classify_exception
from penstock.driver.exceptions.malformed_records import SchemaField
from penstock.driver.failures import (
    DEAD_LETTER,
    Failure,
    StreamWarning,
)
from penstock.driver.jvm import Jvm, check_connector
from penstock.driver.kafka import held_records
from penstock.driver.kafka.consumer_group import ConsumerGroup
from penstock.driver.kafka.dead_letters import DeadLetterTopic
from penstock.driver.kafka.held_records import Holds
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.partition_choice import ChosenPartitions, choose
from penstock.driver.kafka.security import check_secrets
from penstock.driver.kafka.sink_topic import SinkTopic
from penstock.driver.kafka.source_monitor import SourceView, source_monitor
from penstock.driver.kafka.transactions import TransactionCheck, TransactionNames
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.followed_stream import FollowedStream
from penstock.driver.logs import log_event
from penstock.driver.record_position import Position
from penstock.driver.spark import (
    executors,
    json_schemas,
    planning,
    query,
    session,
    state_partitions,
    user_python,
)
from penstock.driver.spark.batch_metrics import BatchReader, NewBatches
from penstock.driver.spark.planning import PlanningWait
from penstock.driver.spark.query_activity import NO_ACTIVITY, Activity, observe_activity
from penstock.driver.spark.session import LOG_LEVEL, LogLevel
from penstock.driver.spark.session_executors import SessionExecutors
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.observation import Observation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# The wall clock is known this exactly.
_READ_SECONDS = 0.5


class QueryRuntime:
    """One stream's session and query in a given JVM."""

    def __init__(
        self,
        stream: ContinuousStream,
        environment: Environment,
        jvm: Jvm,
        api: Api | None = None,
        followed: FollowedStream | None = None,
        session_executors: SessionExecutors | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._stream = stream
        self._mode = stream.spec.trigger.mode
        self._environment = environment
        self._jvm = jvm
        self._api = api
        self.checkpoints = checkpoints or checkpoints_of(stream, environment, jvm)
        self._generations = Generations(stream.spec, self.checkpoints)
        self._checkpoint = self._generations.current
        self._executors = session_executors or SessionExecutors(stream, environment, api)
        self._followed = followed or FollowedStream()
        self._log_level = LogLevel(stream.spec.spark_conf.get("spark.log.level", LOG_LEVEL))
        self._source = source_monitor(jvm, stream.spec, environment.secrets)
        self._sink = SinkTopic(
            jvm,
            stream.spec.sink,
            environment.secrets,
            lambda: self.progress.committed_epoch() is not None,
        )
        self._transactions = TransactionCheck(jvm, stream.spec, environment.secrets)
        self._names: TransactionNames | None = None
        """Of the transactions; None if the stream writes at least once."""
        self._group = ConsumerGroup(jvm, stream, environment.secrets, self.offsets)
        self._dead_letters = DeadLetterTopic(jvm, stream.spec.source.kafka, environment.secrets)
        self._left_out = LeftOut()
        self._copying: DeadLetter | None = None
        """What is to be copied, from the first try until it is noted."""
        self._is_copied = False
        """It only has to be noted."""
        self._warning: StreamWarning | None = None
        self._changes = SourceChanges(stream.spec.source.kafka, self._checkpoint)
        self._starting: str | None = None
        """Spark's startingOffsets for the next start, if they are not the spec's."""
        self._planned: Mapping[str, Sequence[int]] | None = None
        """The partitions that the query was planned with."""
        self._planned_count = 0
        self.session: SparkSession | None = None
        self._writes: Any | None = None
        """The Java class that knows of failed writes; None on a laptop without Kafka."""
        self.checkpoint_generation: int | None = None
        """The generation of the checkpoint that the query has, once that was looked at."""
        self._state_partitions: int | None = None
        """Of the query's state, by its newest plan: 0 if it keeps none; None before it."""
        self._repartition_to: int | None = None
        """The number of partitions that the state gets before the query starts."""
        self._runs_one_batch = False
        """Whether the query runs only the batch that must come before such a change."""
        self._frame: DataFrame | None = None
        self._reads_ahead = False
        """Of the query that was planned last."""
        self._fields: frozenset[SchemaField] = frozenset()
        """Of the schemas with which that query reads records."""
        self._query: StreamingQuery | None = None
        self._completed = False
        self._repair_plans: list[RepairPlan] = []
        self._batches = BatchReader()

    def successor(self, stream: ContinuousStream) -> QueryRuntime:
        """The runtime of an edited query, in the session of this one, which is over.

        In a child of the session, so that it finds no view and no function of the query before. Its
        checkpoints are where they were (api/v1alpha1/changes.py).
        """
        successor = QueryRuntime(
            stream,
            self._environment,
            self._jvm,
            self._api,
            self._followed,
            self._executors,
            self.checkpoints,
        )
        spark = self.session
        if spark is not None and self._jvm.exit_code is None:
            is_over = executors.is_stopped(spark.sparkContext)  # which the successor finds out
            successor.session = spark if is_over else session.child(spark)
        successor._writes, successor._log_level = self._writes, self._log_level
        return successor

    # Observe.

    def observe(self, unread: frozenset[Position]) -> Observation:
        """The query and everything that it depends on, now.

        `unread` are the committed offsets after which the sampler has seen a record.
        Raises TooFewExecutorsAllowed if the partitions need more executors than the spec allows.
        """
        source = self._source.view
        failure = self._find_failure(source)
        if self.has_query:
            self._changes.store_new_topics(source)
        chosen = self._partitions(source)
        desired = None if chosen is None else chosen.size
        executors_ready, cores = self._executors.registered(self.session, query_runs=self.has_query)
        if self.session is not None:
            self._log_level.set(self.session, self._followed.live.log_level, executors_ready)
        # Before the commits, so that an epoch between two looks does not count as uncommitted.
        planned_epoch = self.progress.planned_epoch()
        return Observation(
            now=time.monotonic(),
            failure=failure,
            partitions=None if desired is None else desired.partitions,
            desired_cores=desired.cores if desired else 0,
            requested_cores=self.requested_size.cores if self.requested_size else 0,
            registered_executors=executors_ready,
            registered_cores=cores,
            state_partitions=self._state_partitions or None,
            repartitions_state=self._repartition_to is not None,
            runs_one_batch=self._runs_one_batch,
            has_session=self.has_session,
            has_query=self.has_query,
            epoch=self.progress.committed_epoch(),
            offsets=self.progress.committed_offsets(),
            unread=unread,
            planned_epoch=planned_epoch,
            activity=self._activity(),
            completed=self._completed,
            source_outage=source.outage if self.has_query else None,
            source_answered_at=source.answered_at,
            partitions_added=self._are_partitions_added(chosen),
            warning=(chosen and chosen.warning) or self._held_back() or self._group.warning,
            dead_letters=self._left_out.before(
                failure.record if failure else None,
                source.topic_ids,
                self.progress.committed_offsets(),
                time.time(),
            ),
            wall_clock=_wall_clock(),
        )

    @property
    def progress(self) -> ProgressReader:
        """The commits and offsets in the checkpoint."""
        return self._checkpoint.progress

    @property
    def has_session(self) -> bool:
        """Whether Spark runs."""
        return self.session is not None

    @property
    def requested_size(self) -> Size | None:
        """The size that Spark was last asked for; None if it was asked for no executors."""
        return self._executors.requested if self.has_session else None

    @property
    def has_query(self) -> bool:
        """Whether a query was started and is not known to have ended."""
        return self._query is not None

    @property
    def offset_range(self) -> OffsetRange | None:
        """The records of the newest commit; None where they are unknown."""
        return self.progress.offset_range

    def new_batches(self) -> NewBatches:
        """Spark's metrics of the batches since the last call; for one thread beside the loop's."""
        return self._batches.new_batches(self._query)

    def offsets(self) -> tuple[Offsets, Offsets] | None:
        """The committed and the newest offsets; None if the source has none, or does not answer."""
        source = self._source.view
        newest = None if source.outage else source.newest_offsets
        commit = self.progress.newest
        if newest is None or commit is None or commit.offsets is None:
            return None
        return commit.offsets, newest

    @property
    def held(self) -> Holds | None:
        """What open transactions hold back in the source; None if they do not, or unknown."""
        source = self._source.view
        return None if source.outage else source.held

    def _held_back(self) -> StreamWarning | None:
        source, holds = self._stream.spec.source.kafka, self.held
        if source is None or not holds:
            return None
        return held_records.warning(holds, time.monotonic(), source.bootstrap_servers)

    def take_warning(self) -> StreamWarning | None:
        """What has happened to the running stream, once: lost records, or why executors ended."""
        warning, self._warning = self._warning, None
        if warning is None and self.has_query:
            warning = self._changes.new_losses(self._source.view, self.progress.newest)
        return warning or self._executors.killed_for_memory(self.session)

    def take_repair_plans(self) -> list[RepairPlan]:
        """The repairs of the checkpoint since the last call."""
        repairs, self._repair_plans = self._repair_plans, []
        return repairs

    def _partitions(self, source: SourceView) -> ChosenPartitions | None:
        """The partitions to read, and the size for them; None before the source's first answer.

        Raises TooFewExecutorsAllowed if the spec forbids the executors that they need.
        """
        if source.partition_count is None:
            return None
        read: Mapping[str, Collection[int]] | None = (
            self._planned if self._query is not None else self.progress.committed_offsets()
        )
        return choose(
            self._stream.spec, source.partition_count, source.partitions_by_topic, read or {}
        )

    def _find_failure(self, source: SourceView) -> Failure | None:
        """Why the session or the query has ended by itself."""
        if self.session is not None and executors.is_stopped(self.session.sparkContext):
            # pyspark would refuse another context as long as it does not know that this one ended.
            self.session.stop()
            self._batches.keep(self._query)
            self._query = self._frame = self.session = None
            self._executors.forget()
            return Failure("SessionStopped", "Spark stopped the application by itself.")
        if self._query is None:
            # A query that waits for its cores was planned with the topics of that moment.
            return source.failure if self._frame is not None else None
        if self._query.isActive:
            return self._failed_write() or source.failure
        self._batches.keep(self._query)
        ended, self._query = self._query, None
        exception = ended._jsq.exception()
        if exception.isEmpty():
            if self._runs_one_batch:
                return None
            if self._mode is Mode.AVAILABLE_NOW:
                self._completed = True
                return None
            return Failure("QueryEnded", "The query ended by itself, without an exception.")
        return self._checkpoint.write_probe.failure() or classify(
            read_chain(exception.get()), reads_ahead=self._reads_ahead, fields=self._fields
        )

    def _failed_write(self) -> Failure | None:
        """Why a file of the checkpoint could not be written: the continuous engine does not say.

        A batch engine fails with the cause. There a state store of a task that has failed also
        writes to a file that it has given up (StateStoreChangelogWriter.abort, Spark 4.2).
        """
        if self._writes is None or self._mode is not Mode.CONTINUOUS:
            return None
        path = self._writes.take()
        if path is None:
            return None
        return self._checkpoint.write_probe.failure() or stall_detection.failed_write(path)

    def _activity(self) -> Activity:
        if self._query is None or self.session is None:
            return NO_ACTIVITY
        context = self.session.sparkContext
        return observe_activity(self._query, context, self._mode, self._planned_count)

    def _are_partitions_added(self, chosen: ChosenPartitions | None) -> bool:
        """Whether a continuous query does not read the source's current partitions."""
        if self._query is None or self._mode is not Mode.CONTINUOUS or chosen is None:
            return False
        return chosen.by_topic not in (None, self._planned)

    # Act.

    def discover_partitions(self) -> None:
        """Asks the source for its partitions, and starts to monitor it."""
        spec, environment = self._stream.spec, self._environment
        # On a laptop only a stream with Kafka has connector/, which needs Spark's connector.
        if isinstance(environment, PodEnvironment) or spec.uses_kafka:
            check_connector(self._jvm.gateway)
        check_secrets(spec, environment.secrets)
        user_python.check_text(spec.transform.python, environment.python)
        with self._noting_first_look():
            self._source.poll()
            self._sink.check()
            self._dead_letters.check()

    @contextlib.contextmanager
    def _noting_first_look(self) -> Iterator[None]:
        """A first start that has to wait for somebody begins with what comes from now on."""
        try:
            yield
        except Exception as error:
            if classify_exception(error).permanent:
                start_position.note_first_look(self._stream.spec, self._checkpoint, self._source)
            raise

    def start_session(self) -> None:
        """Starts Spark, with the desired executors if it is known whether the query keeps state."""
        wanted = self._partitions(self._source.view)
        assert wanted is not None
        conf = session.spark_conf(self._stream, self._environment, wanted.size)
        conf |= self._executors.before_session(wanted.size, keeps_state=self._may_keep_state())
        self.session = session.start(self._jvm.gateway, conf)
        self._writes = session.failed_write(self._jvm.gateway)

    def _may_keep_state(self) -> bool | None:
        """Whether the query keeps state, if that is known before it is planned.

        It does as the query before: no other one can continue (`query.check_continues`).
        """
        if self._state_partitions is not None or not execution_of(self._stream.spec).in_batches:
            return bool(self._state_partitions)
        contents = self._checkpoint.contents()
        return None if contents is None else contents.state

    def check_checkpoint(self) -> None:
        """Repairs the checkpoint, looks for lost records and for the sink's topic. Needs no Spark.

        Only while no query runs, and before each start of one.
        """
        assert self._query is None
        with self._noting_first_look():
            self._check_checkpoint()

    def _check_checkpoint(self) -> None:
        spec, folder, source = self._stream.spec, self._checkpoint, self._source
        self._sink.check_before_start()
        self._dead_letters.check_before_start()
        repair = folder.repair(spec)
        if repair.first_start and self._api is not None:
            status = self._api.stream(self._stream.metadata.name).status
            known = generations.known_commit(status, spec.checkpoint.generation)
            self._generations.check_first_start(known)
        if repair.repairs:
            self._repair_plans.append(repair)
            log_event(
                "the checkpoint was repaired",
                repairs=[f"{made.kind} {made.path}" for made in repair.repairs],
                deleted=list(repair.delete),
                written=list(repair.write),
                epoch=repair.epoch,
            )
        metadata = self._stream.metadata
        began = self._generations.begin(
            source, repair, metadata.namespace, metadata.name, self._written_by
        )
        self._left_out = LeftOut(folder.notes.read().dead_letters).in_row_of(self._left_out)
        names = self._transaction_names()
        written = None if names is None else self._take_over(names)
        lost = start_position.check_for_data_loss(spec, folder, source, repair, written)
        self._warning = lost or began
        self._names = self._transaction_names()  # others after a loss
        self._changes.begin(source.view, self.progress.newest)
        self._starting = start_position.first_starting_offsets(spec, folder, source, repair)
        self.checkpoint_generation = spec.checkpoint.generation

    def _transaction_names(self) -> TransactionNames | None:
        stream = self._stream.metadata
        if not self._stream.spec.sink.exactly_once:
            return None
        return self._checkpoint.transaction_names(stream.namespace, stream.name)

    def _written_by(self, names: TransactionNames) -> Offsets:
        """The offsets that the transactions of another generation have reached."""
        if self._stream.spec.sink.exactly_once:  # so none of it can follow
            return self._take_over(names)
        return self._source.fetch_group_offsets(names.group)

    def _take_over(self, names: TransactionNames) -> Offsets:
        """The offsets that transactions have reached, all of which are over now."""
        wanted = self._partitions(self._source.view)
        assert wanted is not None
        return self._transactions.take_over(names, wanted.by_topic or {})

    def look_at_plan(self, thread: int) -> PlanningWait:
        """What `check_query` waits for, which runs in this thread."""
        assert self.session is not None
        return planning.look(self.session, self._executors, thread)

    def check_query(self) -> None:
        """Plans the query; raises if Spark refuses it."""
        assert self.session is not None
        spec, wanted = self._stream.spec, self._partitions(self._source.view)
        assert wanted is not None
        session.set_shuffle_partitions(self.session, spec, wanted.size)
        # The continuous engine must not find new partitions by itself (sources.py), and another
        # engine must not find those that there are no cores for.
        fixed = self._mode is Mode.CONTINUOUS or wanted.left_out > 0
        partitions = wanted.by_topic if fixed else None
        leave_out = self._left_out.positions(self._source.view.topic_ids)
        frame = query.plan(
            self.session, spec, self._environment, self._starting, partitions, leave_out
        )
        self._planned, self._planned_count = wanted.by_topic, wanted.size.partitions
        query.check(frame, spec, self._transactions.longest_ms)
        used, contents = self._generations.batch_known_elsewhere(), self._checkpoint.contents()
        query.check_continues(frame, contents, used)
        if used is not None:
            planned = PlannedQuery(
                query.number_of_reads(frame),
                session.shuffle_partitions(self.session),
                self._mode.has_long_running_tasks,
            )
            self._checkpoint.continue_after(used, planned)
            contents = self._checkpoint.contents()
        if contents is not None and contents.lacks_settings and self._mode is not Mode.CONTINUOUS:
            line = session.settings_line(self._jvm.gateway, self.session)
            self._checkpoint.note_settings(line)
        keeps_state = query.keeps_state(frame)
        self._warning = self._warning or query.column_warning(frame, spec)
        if keeps_state and session.ADAPTIVE not in spec.spark_conf:
            self.session.conf.set(session.ADAPTIVE, "false")
        self._executors.planned(keeps_state=keeps_state)
        of_state = (contents and contents.partitions) or session.shuffle_partitions(self.session)
        self._repartition_to = state_partitions.change(
            spec, contents, self._checkpoint.has_undivided_state
        )
        awaits = state_partitions.needs_batch_first(spec, contents)
        self._runs_one_batch = keeps_state and awaits
        self._reads_ahead = query.reads_ahead(frame, spec.sink)
        self._fields = json_schemas.fields_of(frame)
        self._frame, self._state_partitions = frame, of_state if keeps_state else 0

    def request_executors(self) -> None:
        """Asks for more executors, or stops a session that must start anew to have them."""
        wanted = self._partitions(self._source.view)
        assert wanted is not None
        assert self.session is not None
        state = bool(self._state_partitions)
        if not self._executors.request(self.session, wanted.size, keeps_state=state):
            self.stop_session()

    def repartition_state(self) -> None:
        """Gives the state the partitions that the spec asks for."""
        number = self._repartition_to
        assert self.session is not None
        assert number is not None
        self._checkpoint.drop_plan()
        state_partitions.repartition(self.session, self._checkpoint.files.location, number)
        log_event("the state was repartitioned", before=self._state_partitions, now=number)
        self._state_partitions, self._repartition_to = number, None

    def start_query(self) -> None:
        """Starts the query that `check_query` has planned."""
        assert self._frame is not None
        self._failed_write()  # of the query before, which is over
        self._query = query.start(
            self._frame,
            self._stream.spec,
            self._environment,
            self._stream.metadata.name,
            self._checkpoint.files.location,
            self._names,
            self._transactions.longest_ms,
            one_batch=self._runs_one_batch,
        )

    def probe_checkpoint(self) -> None:
        """Raises the reason why the running query cannot write its logs, if there is one."""
        self._checkpoint.write_probe.check()

    def copy_dead_letter(self, failure: Failure) -> None:
        """Copies the record of the failure to the dead-letter topic, and then leaves it out."""
        record, topic, now = failure.record, self._dead_letters.name, time.time()
        assert record is not None
        assert topic is not None
        self.stop_query()
        metadata = self._stream.metadata
        ids = self._source.view.topic_ids
        letter = DeadLetter(record, ids.get(record.topic), now)
        if record in self._left_out.positions(ids):  # something else has failed after that
            return
        if self._copying is None or self._copying.position != record:
            self._copying, self._is_copied = letter, False
        if not self._copying.is_of(letter):  # in a topic that was created again it is another one
            self._copying = None
            return
        if not self._is_copied:
            if not self._dead_letters.copy(
                record,
                {
                    "stream": f"{metadata.namespace}/{metadata.name}",
                    "reason": failure.reason,
                    "message": failure.message,
                    "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
                },
            ):
                self._copying = None
                return
            self._is_copied = True
        noted = self._left_out.adding(letter, self.progress.committed_offsets())
        notes = self._checkpoint.notes
        notes.write(replace(notes.read(), dead_letters=noted.letters))
        self._left_out, self._copying = noted, None
        self._warning = StreamWarning(
            DEAD_LETTER,
            f"The record {record} is in the dead-letter topic {topic}, and the stream goes on "
            f"without it. {failure.message}",
            record,
        )

    def stop_query(self) -> None:
        """Stops the query if one runs. Raises QueryNotStopped if it does not end."""
        running, self._query, self._frame = self._query, None, None
        if running is not None:
            query.stop(running)
            self._batches.keep(running)

    def end_query(self) -> None:
        """Stops the query for another one: its tasks have ended then, without a warning."""
        if self._query is None or self.session is None:
            self.stop_query()
            return
        with executors.without_stop_warnings(self.session.sparkContext):
            self.stop_query()
            executors.wait_until_idle(self.session.sparkContext)

    def wait_for_commit(self, seconds: float) -> None:
        """Waits for the query's next commit: records written after it are written again later.

        Does not wait for a query that is idle or between two batches: it commits nothing.
        """
        epoch = self.progress.committed_epoch
        before, deadline = epoch(), time.monotonic() + seconds
        planned_at_once = not self._mode.has_long_running_tasks
        if self._activity().idle or (planned_at_once and self.progress.planned_epoch() == before):
            return
        while self._query is not None and self._query.isActive and epoch() == before:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def stop_session(self) -> None:
        """Stops the query and the session, which releases the executors."""
        running, self._query, self._frame = self._query, None, None
        up, self.session = self.session, None
        self._executors.forget()
        if up is None:
            return
        # Tasks of async progress tracking may end only with the session.
        with executors.without_stop_warnings(up.sparkContext):
            try:
                if running is not None:
                    query.stop(running)
                    self._batches.keep(running)
                    executors.wait_until_idle(up.sparkContext)
            finally:
                up.stop()

    def forget_partitions_and_stop(self) -> None:
        """Stops the session. The next start discovers the partitions again."""
        self._source.reset()
        self.stop_session()

    def close(self) -> None:
        """Ends what runs beside the query."""
        self._group.close()
        self._source.close()


def _wall_clock() -> float:
    """The wall clock's lead over the monotonic clock, in seconds."""
    while True:
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before < _READ_SECONDS:  # else this process was suspended in between
            return wall - before
