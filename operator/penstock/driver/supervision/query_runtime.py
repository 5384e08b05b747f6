"""The query's session, source and checkpoint: one method for each action, each bounded in time."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size, producer_buffer
from penstock.driver.checkpoint.generations import Generations
from penstock.driver.checkpoint.left_out import DeadLetter, LeftOut
from penstock.driver.checkpoint.progress import OffsetRange, ProgressReader
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.source_changes import SourceChanges
from penstock.driver.context import DriverContext
from penstock.driver.exceptions.chain import read_chain
from penstock.driver.exceptions.classify import classify
from penstock.driver.failures import (
    DEAD_LETTER,
    Failure,
)
from penstock.driver.jdbc.sink_table import SinkTable
from penstock.driver.kafka import held_records, transactions
from penstock.driver.kafka.consumer_group import ConsumerGroup
from penstock.driver.kafka.dead_letters import DeadLetterTopic
from penstock.driver.kafka.held_records import Holds
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.partition_choice import ChosenPartitions, choose
from penstock.driver.kafka.sink_topic import SinkTopic
from penstock.driver.kafka.source_monitor import SourceView, source_monitor
from penstock.driver.logs import log_event
from penstock.driver.record_position import Position
from penstock.driver.spark import (
    planning_wait,
    query,
    session,
    state_partitions,
)
from penstock.driver.spark.batch_function import BatchFunction
from penstock.driver.spark.batch_metrics import BatchReader, NewBatches
from penstock.driver.spark.planning_wait import PlanningWait
from penstock.driver.spark.query_activity import NO_ACTIVITY, Activity, observe_activity
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.preparation import PlannedQuery, Preparation, PreparedCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# One closes windows, and perhaps one more does.
_EMPTY_BATCHES = 10
# The wall clock is known this exactly.
_READ_SECONDS = 0.5


class QueryRuntime:
    """One stream's session and query in a given JVM."""

    def __init__(self, stream: ContinuousStream, context: DriverContext) -> None:
        environment, jvm = context.environment, context.jvm
        stream = environment.adapted(stream)
        self._stream = stream
        self._mode = stream.spec.trigger.mode
        self.context = context
        self._application = context.application
        generations = Generations(stream.spec, context.checkpoints)
        self._checkpoint = generations.current
        self._source = source_monitor(jvm, stream.spec, environment.secrets)
        self._sink = SinkTopic(
            jvm,
            stream.spec.sink,
            environment.secrets,
            lambda: self.progress.committed_epoch() is not None,
        )
        self._group = ConsumerGroup(jvm, stream, environment.secrets, self.offsets)
        self._dead_letters = DeadLetterTopic(jvm, stream.spec.source.kafka, environment.secrets)
        jdbc = stream.spec.sink.jdbc
        self._table = None if jdbc is None else SinkTable(jvm.gateway, jdbc, environment.secrets)
        self._preparation = Preparation(
            stream, context, generations, self._source, self._sink, self._table, self._dead_letters
        )
        self._left_out = LeftOut()
        self._copying: DeadLetter | None = None
        """What is to be copied, from the first try until it is noted."""
        self._is_copied = False
        """It only has to be noted."""
        self._warning: Failure | None = None
        self._changes = SourceChanges(stream.spec.source.kafka, self._checkpoint)
        self._prepared: PreparedCheckpoint | None = None
        """For the next start."""
        self._plan: PlannedQuery | None = None
        """The newest; it runs, or has run, once there was a query."""
        self._is_planned = False
        """The plan holds for the next start, or for the query that runs."""
        self._query: StreamingQuery | None = None
        self._function: BatchFunction | None = None
        """That of sink.python, as the newest query calls it."""
        self._completed = False
        self._read: tuple[Offsets, int] | None = None
        """What an availableNow query has committed, and the first batch that had."""
        self._repair_plans: list[RepairPlan] = []
        self._batches = BatchReader()

    # Observe.

    def observe(self, positions_behind: frozenset[Position]) -> Observation:
        """The query and everything that it depends on, now.

        `positions_behind` are the committed offsets after which the sampler has seen a record.
        Raises TooFewExecutorsAllowed if the partitions need more executors than the spec allows.
        """
        source = self._source.view
        failure = self._find_failure(source)
        if self.has_query:
            self._changes.store_new_topics(source)
        chosen = self._partitions(source)
        desired = None if chosen is None else chosen.size
        executors_ready, cores = self._application.registered(query_runs=self.has_query)
        self._application.set_log_level(self.context.followed.live.log_level, executors_ready)
        # Before the commits, so that an epoch between two looks does not count as uncommitted.
        planned_epoch = self.progress.planned_epoch()
        epoch, offsets = self.progress.committed_epoch(), self.progress.committed_offsets()
        self._completed = self._completed or self._only_looks_at_timers(epoch, offsets)
        return Observation(
            now=time.monotonic(),
            failure=failure,
            partitions=None if desired is None else desired.partitions,
            slots=desired.slots if desired else 0,
            desired_cores=desired.cores if desired else 0,
            requested_cores=self.requested_size.cores if self.requested_size else 0,
            registered_executors=executors_ready,
            registered_cores=cores,
            state_partitions=(self._plan and self._plan.state_partitions) or None,
            repartitions_state=self._plan is not None and self._plan.repartition_to is not None,
            runs_one_batch=self._plan is not None and self._plan.runs_one_batch,
            has_session=self.has_session,
            has_query=self.has_query,
            epoch=epoch,
            offsets=offsets,
            positions_behind=positions_behind,
            planned_epoch=planned_epoch,
            activity=self._activity(),
            completed=self._completed,
            source_outage=source.outage if self.has_query else None,
            source_answered_at=source.answered_at,
            partitions_added=self._are_partitions_added(chosen),
            warning=(chosen and chosen.warning) or self._held_warning() or self._group.warning,
            dead_letters=self._left_out.count_for_limit(
                failure.record if failure else None,
                source.topic_ids,
                offsets,
                time.time(),
            ),
            wall_clock=_wall_clock(),
        )

    @property
    def progress(self) -> ProgressReader:
        """The commits and offsets in the checkpoint."""
        return self._checkpoint.progress

    @property
    def session(self) -> SparkSession | None:
        """The Spark session, if one runs."""
        return self._application.session

    @property
    def has_session(self) -> bool:
        """Whether Spark runs."""
        return self.session is not None

    @property
    def requested_size(self) -> Size | None:
        """The size that Spark was last asked for; None if it was asked for no executors."""
        return self._application.requested if self.has_session else None

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

    def _held_warning(self) -> Failure | None:
        source, holds = self._stream.spec.source.kafka, self.held
        if source is None or not holds:
            return None
        return held_records.warning(holds, time.monotonic(), source.bootstrap_servers)

    def take_warning(self) -> Failure | None:
        """What has happened to the running stream, once: lost records, or why executors ended."""
        warning, self._warning = self._warning, None
        if warning is None and self.has_query:
            warning = self._changes.new_losses(self._source.view, self.progress.newest)
        return warning or self._application.killed_for_memory() or self._different_replay()

    def _different_replay(self) -> Failure | None:
        """A warning if a batch that ran again has made other rows than those in the sink."""
        if self._plan is None or (self._plan.batch_tasks is None and self._plan.rows is None):
            return None
        return transactions.different_replay(self.context.jvm.gateway)

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
            self._plan.partitions
            if self._query is not None and self._plan is not None
            else self.progress.committed_offsets()
        )
        # Of the query before, until this one is planned: an edit keeps the executors.
        state_tasks = self._application.state_tasks
        count, by_topic = source.partition_count, source.partitions_by_topic
        return choose(self._stream.spec, count, by_topic, read or {}, state_tasks)

    def _only_looks_at_timers(self, epoch: int | None, offsets: Offsets | None) -> bool:
        """Whether an availableNow query has read all and goes on with batches without records.

        Spark plans them for ever for a query with timers of processing time, whether one is set or
        not (FlatMapGroupsWithStateExec and TransformWithStateExec, shouldRunAnotherBatch, 4.3).
        """
        if self._mode is not Mode.AVAILABLE_NOW or self._query is None:
            return False
        if offsets is None or epoch is None:
            return False
        if self._read is None or self._read[0] != offsets:
            self._read = offsets, epoch
        return epoch - self._read[1] >= _EMPTY_BATCHES

    def _find_failure(self, source: SourceView) -> Failure | None:
        """Why the session or the query has ended by itself."""
        if self._application.has_stopped():
            self._batches.keep(self._query)
            self._close_function()
            self._query, self._is_planned = None, False
            return Failure("SessionStopped", "Spark stopped the application by itself.")
        if self._query is None:
            # A query that waits for its cores was planned with the topics of that moment.
            return source.failure if self._is_planned else None
        if self._query.isActive:
            return self._failed_write() or source.failure
        self._batches.keep(self._query)
        ended, self._query, plan = self._query, None, self._plan
        assert plan is not None
        self._close_function()
        exception = ended._jsq.exception()
        if exception.isEmpty():
            if plan.runs_one_batch:
                return None
            if self._mode is Mode.AVAILABLE_NOW:
                self._completed = True
                return None
            return Failure("QueryEnded", "The query ended by itself, without an exception.")
        return (
            self._checkpoint.write_probe.failure()
            or (self._function and self._function.failure)
            or classify(
                read_chain(exception.get()), reads_ahead=plan.reads_ahead, fields=plan.fields
            )
        )

    def _failed_write(self) -> Failure | None:
        """Why a file of the checkpoint could not be written: the continuous engine does not say.

        A batch engine fails with the cause. There a state store of a task that has failed also
        writes to a file that it has given up (StateStoreChangelogWriter.abort, Spark 4.2).
        """
        path = self._application.failed_write() if self._mode is Mode.CONTINUOUS else None
        if path is None:
            return None
        return self._checkpoint.write_probe.failure() or stall_detection.failed_write(path)

    def _activity(self) -> Activity:
        if self._query is None or self.session is None or self._plan is None:
            return NO_ACTIVITY
        context = self.session.sparkContext
        counted = self._plan.partition_count
        function, outside = self._function, 0
        if self._table is not None:
            outside = self._table.signs_of_life()
        if function is not None:
            outside = function.steps()
        activity = observe_activity(self._query, context, self._mode, counted, outside)
        return activity if function is None else replace(activity, stands_at=function.stands_at())

    def _are_partitions_added(self, chosen: ChosenPartitions | None) -> bool:
        """Whether a query that cannot find new partitions by itself does not read all of them."""
        if self._query is None or self._plan is None or chosen is None:
            return False
        is_fixed = self._mode is Mode.CONTINUOUS or self._plan.state_tasks > 0
        return is_fixed and chosen.by_topic not in (None, self._plan.partitions)

    # Act.

    def discover_partitions(self) -> None:
        """Asks the source for its partitions, and starts to monitor it."""
        self._preparation.discover_partitions()

    def start_session(self) -> None:
        """Starts Spark, with the desired executors if it is known whether the query keeps state."""
        size, keeps_state = self._chosen().size, self._may_keep_state()
        self._application.start(self._stream, size, keeps_state=keeps_state)

    def _may_keep_state(self) -> bool | None:
        """Whether the query keeps state, if that is known before it is planned.

        It does as the query before: no other one can continue (`query.check_continues`).
        """
        if self._plan is not None or not execution_of(self._stream.spec).may_keep_state:
            return self._plan is not None and self._plan.state_partitions > 0
        contents = self._checkpoint.contents()
        return None if contents is None else contents.state

    def check_checkpoint(self) -> None:
        """Repairs the checkpoint, looks for lost records and for the sink's topic. Needs no Spark.

        Only while no query runs, and before each start of one.
        """
        assert self._query is None
        prepared = self._preparation.prepare_checkpoint(self._chosen())
        repair = prepared.repair
        if repair.repairs:
            self._repair_plans.append(repair)
            log_event(
                "the checkpoint was repaired",
                repairs=[f"{it.kind} {it.path}" for it in repair.repairs],
                deleted=list(repair.delete),
                written=list(repair.write),
                epoch=repair.epoch,
            )
        self._left_out = prepared.left_out.in_row_of(self._left_out)
        self._prepared, self._warning = prepared, prepared.warning
        self._changes.begin(self._source.view, self.progress.newest)

    @property
    def checkpoint_generation(self) -> int | None:
        """The generation of the checkpoint that the query has, once that was looked at."""
        return None if self._prepared is None else self._stream.spec.checkpoint.generation

    def _chosen(self) -> ChosenPartitions:
        chosen = self._partitions(self._source.view)
        assert chosen is not None
        return chosen

    def look_at_plan(self, thread: int) -> PlanningWait:
        """What `check_query` waits for, which runs in this thread."""
        return planning_wait.look(self._application, thread)

    def check_query(self) -> None:
        """Plans the query; raises if Spark refuses it."""
        assert self.session is not None
        assert self._prepared is not None
        # With the dead letter that was copied since.
        prepared = replace(self._prepared, left_out=self._left_out)
        for _ in range(2):  # the plan shows how many cores are left for the source's partitions
            chosen, state_tasks = self._chosen(), self._application.state_tasks
            plan = self._preparation.plan_query(self.session, prepared, chosen, state_tasks)
            keeps_state = plan.state_partitions > 0
            self._application.planned(keeps_state=keeps_state, state_tasks=plan.state_tasks)
            if plan.state_tasks == state_tasks:
                break
        self._warning = self._warning or plan.warning
        self._plan, self._is_planned = plan, True

    def request_executors(self) -> None:
        """Asks for more executors, or stops a session that must start anew to have them."""
        state = self._plan is not None and self._plan.state_partitions > 0
        if not self._application.request(self._chosen().size, keeps_state=state):
            self.stop_session()

    def repartition_state(self) -> None:
        """Gives the state the partitions that the spec asks for."""
        plan = self._plan
        assert self.session is not None
        assert plan is not None
        assert plan.repartition_to is not None
        number = plan.repartition_to
        self._checkpoint.drop_plan()
        state_partitions.repartition(self.session, self._checkpoint.files.location, number)
        log_event("the state was repartitioned", before=plan.state_partitions, now=number)
        self._plan = replace(plan, state_partitions=number, repartition_to=None)

    def start_query(self) -> None:
        """Starts the query that `check_query` has planned.

        Raises QueryNotStopped if a task of the one before would write beside it.
        """
        self._application.check_tasks_have_ended()
        plan, prepared = self._plan, self._prepared
        assert self._is_planned
        assert plan is not None
        assert prepared is not None
        self._failed_write()  # of the query before, which is over
        spec, names, told = self._stream.spec, prepared.names, dict[str, str]()
        if names is not None and plan.batch_tasks is not None:
            self._checkpoint.note_whole_batches(spec, plan.batch_tasks)
        if names is not None:
            told = transactions.sink_options(
                spec,
                names,
                prepared.longest_transaction_ms,
                producer_buffer(spec, self._chosen().size),
                plan.batch_tasks,
                plan.partitions,
            )
        if self._table is None:
            self._checkpoint.forget_ledger()
        elif prepared.table is not None and plan.rows is not None:
            told = self._table.options(prepared.table, plan.rows)
        self._function = None
        if plan.function is not None:
            keeps_state = plan.state_partitions > 0
            self._function = BatchFunction(
                plan.function,
                self._stream,
                self.context.environment,
                keeps_state=keeps_state,
                fields=plan.fields,
            )
        self._query = query.start(
            plan.frame,
            spec,
            self.context.environment,
            self._stream.metadata.name,
            self._checkpoint.files.location,
            told,
            function=self._function,
            one_batch=plan.runs_one_batch,
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
        self._checkpoint.notes.update(lambda notes: replace(notes, dead_letters=noted.letters))
        self._left_out, self._copying = noted, None
        self._warning = Failure(
            DEAD_LETTER,
            f"The record {record} is in the dead-letter topic {topic}, and the stream goes on "
            f"without it. {failure.message}",
            record=record,
        )

    def stop_query(self) -> None:
        """Stops the query if one runs. Raises QueryNotStopped if it does not end."""
        running, self._query, self._is_planned = self._query, None, False
        if running is not None:
            query.stop(running)
            self._close_function()
            self._batches.keep(running)

    def _close_function(self) -> None:
        if self._function is not None:
            self._function.close()

    def end_query(self) -> None:
        """Stops the query for another one: its tasks have ended then, without a warning."""
        if self._query is None:
            self.stop_query()
        else:
            self._application.end_query(self.stop_query)

    def wait_for_commit(self, seconds: float) -> None:
        """Waits for the query's next commit: records written after it are written again later. A
        batch of real-time mode ends for it.

        Does not wait for a query that is idle or between two batches: it commits nothing.
        """
        epoch = self.progress.committed_epoch
        before, deadline = epoch(), time.monotonic() + seconds
        planned_at_once = not self._mode.has_long_running_tasks
        if self._activity().idle or (planned_at_once and self.progress.planned_epoch() == before):
            return
        if self._mode is Mode.REAL_TIME:
            session.end_batch(self.context.jvm.gateway)
        while self._query is not None and self._query.isActive and epoch() == before:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def stop_session(self) -> None:
        """Stops the query and the session, which releases the executors."""
        running = self._query is not None

        def end_query() -> bool:
            self.stop_query()
            return running

        self._application.stop(end_query)
        self._query, self._is_planned = None, False

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
