"""What is done before a query starts: its checkpoint is prepared, and Spark plans it.

Each step takes what the one before has made, and returns a value. Nothing is kept in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.api.modes import Mode
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint import generations, start_position
from penstock.driver.checkpoint.batch_ids import LogShape
from penstock.driver.checkpoint.data_loss_check import check_for_data_loss
from penstock.driver.checkpoint.folder import CheckpointContents
from penstock.driver.checkpoint.generations import Generations
from penstock.driver.checkpoint.left_out import LeftOut
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.context import DriverContext
from penstock.driver.environment import PodEnvironment
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.exceptions.malformed_records import SchemaField
from penstock.driver.failures import Failure
from penstock.driver.jdbc.sink_table import OwnTable, SinkTable
from penstock.driver.jdbc.table_columns import WrittenRows
from penstock.driver.jvm import check_connector
from penstock.driver.kafka.dead_letters import DeadLetterTopic
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.partition_choice import ChosenPartitions
from penstock.driver.kafka.security import check_secrets
from penstock.driver.kafka.sink_topic import SinkTopic
from penstock.driver.kafka.source_monitor import SourceMonitor
from penstock.driver.kafka.transactions import (
    DEFAULT_LONGEST_MS,
    TransactionCheck,
    TransactionNames,
)
from penstock.driver.spark import json_schemas, query, session, state_partitions, user_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class PreparedCheckpoint:
    """A checkpoint from which a query can start, and what the start has to know of it."""

    repair: RepairPlan
    left_out: LeftOut
    """The records that the query leaves out."""
    starting_offsets: str | None
    """Spark's startingOffsets, if they are not the spec's."""
    names: TransactionNames | None = None
    """Of the transactions; None if the stream writes at least once."""
    longest_transaction_ms: int = DEFAULT_LONGEST_MS
    table: OwnTable | None = None
    """Of sink.jdbc."""
    warning: Failure | None = None
    """Lost records, or that the generation has begun elsewhere than the spec says."""


@dataclass(frozen=True)
class PlannedQuery:
    """A query that Spark accepts and can continue from the checkpoint."""

    frame: DataFrame
    partitions: Mapping[str, Sequence[int]] | None
    """Those of the source that it was planned with."""
    partition_count: int
    state_tasks: int
    """The tasks behind a shuffle that run all the time, when its state is divided."""
    state_partitions: int
    """Of its state: 0 if it keeps none."""
    repartition_to: int | None
    """The number of partitions that the state gets before the query starts."""
    runs_one_batch: bool
    """Whether it runs only the batch that must come before such a change."""
    batch_tasks: int | None
    """How many tasks write their part of a batch in a transaction; None if it has none of these."""
    rows: WrittenRows | None
    """How the table of sink.jdbc gets them."""
    function: Callable[..., Any] | None
    """That of sink.python; None with another sink."""
    reads_ahead: bool
    fields: frozenset[SchemaField]
    """Of the schemas with which it reads records."""
    warning: Failure | None


class Preparation:
    """The steps, for one stream."""

    def __init__(
        self,
        stream: ContinuousStream,
        context: DriverContext,
        checkpoints: Generations,
        source: SourceMonitor,
        sink: SinkTopic,
        table: SinkTable | None,
        dead_letters: DeadLetterTopic,
    ) -> None:
        self._stream = stream
        self._mode = stream.spec.trigger.mode
        self._environment = context.environment
        self._jvm = context.jvm
        self._api = context.api
        self._generations = checkpoints
        self._checkpoint = checkpoints.current
        self._source = source
        self._sink = sink
        self._table = table
        self._dead_letters = dead_letters
        self._transactions = TransactionCheck(context.jvm, stream.spec, context.environment.secrets)

    def discover_partitions(self) -> None:
        """Asks the source for its partitions, and starts to monitor it."""
        spec, environment = self._stream.spec, self._environment
        # On a laptop only a stream that needs it has connector/.
        if isinstance(environment, PodEnvironment) or spec.needs_connector:
            check_connector(self._jvm.gateway)
        check_secrets(spec, environment.secrets)
        for function in spec.python_functions:
            user_python.check_text(function, environment.python)
        with self._noting_first_look():
            self._source.poll()
            self._sink.check()
            if self._table is not None:
                self._table.check()
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

    def prepare_checkpoint(self, chosen: ChosenPartitions) -> PreparedCheckpoint:
        """Repairs the checkpoint, looks for lost records and for the sink's topic. Needs no Spark.

        Only while no query runs. Raises the reason why no query may start.
        """
        with self._noting_first_look():
            return self._prepared(chosen)

    def _prepared(self, chosen: ChosenPartitions) -> PreparedCheckpoint:
        spec, folder, source = self._stream.spec, self._checkpoint, self._source
        metadata, partitions = self._stream.metadata, chosen.by_topic or {}
        self._sink.check_before_start()
        self._dead_letters.check_before_start()
        repair = folder.repair(spec)
        if not spec.sink.exactly_once:
            folder.forget_whole_batches()  # another batch may have such a number from now on
        if repair.first_start and self._api is not None:
            status = self._api.stream(metadata.name).status
            known = generations.known_commit(status, spec.checkpoint.generation)
            self._generations.check_first_start(known)

        def written_by(names: TransactionNames) -> Offsets:
            """The offsets that the transactions of another generation have reached."""
            if spec.sink.exactly_once:  # so none of it can follow
                return self._transactions.take_over(names, partitions).offsets
            return source.fetch_group_offsets(names.group)

        began = self._generations.begin(
            source, repair, metadata.namespace, metadata.name, written_by
        )
        left_out, written, longest = LeftOut(folder.notes.read().dead_letters), None, None
        if spec.sink.exactly_once:
            names = folder.transaction_names(metadata.namespace, metadata.name)
            # Nothing is committed: another query begins, and its batches are others.
            anew = repair.epoch is None and folder.holds_batches_of_another_query(spec)
            planned = None if anew else folder.progress.planned_epoch
            taken = self._transactions.take_over(names, partitions, planned)
            written, longest = taken.offsets, taken.longest_ms
            if anew:
                folder.forget_whole_batches()
        table, in_table = None, None
        if self._table is not None:
            table = self._own_table(self._table)
            if table.newest == folder.progress.planned_epoch() != repair.epoch:
                in_table = folder.planned_ends()
        lost = check_for_data_loss(spec, folder, source, repair, written, in_table)
        starting = start_position.first_starting_offsets(spec, folder, source, repair)
        prepared = PreparedCheckpoint(
            repair, left_out, starting, table=table, warning=lost or began
        )
        if longest is None:
            return prepared
        names = folder.transaction_names(metadata.namespace, metadata.name)  # others after a loss
        return replace(prepared, names=names, longest_transaction_ms=longest)

    def _own_table(self, table: SinkTable) -> OwnTable:
        """The table, which no earlier driver of this checkpoint writes any more."""
        folder, metadata = self._checkpoint, self._stream.metadata
        ledger = folder.ledger()
        return table.take_over(
            f"penstock/{metadata.namespace}/{metadata.name}/{ledger.checkpoint}",
            folder.progress.planned_epoch,
            ledger.rows,
            folder.note_row,
        )

    def plan_query(
        self,
        spark: SparkSession,
        prepared: PreparedCheckpoint,
        chosen: ChosenPartitions,
        state_tasks: int = 0,
    ) -> PlannedQuery:
        """Plans the query; raises if Spark refuses it, or cannot continue with it.

        `state_tasks` are those that `chosen` makes room for.
        """
        spec = self._stream.spec
        session.set_shuffle_partitions(spark, spec, chosen.size)
        # The continuous engine must not find new partitions by itself (sources.py), and another
        # engine must not find those that there are no cores for: Spark runs no batch of real-time
        # mode whose stages have too few.
        fixed = self._mode is Mode.CONTINUOUS or chosen.left_out > 0 or state_tasks > 0
        frame = query.plan(
            spark,
            spec,
            self._environment,
            prepared.starting_offsets,
            chosen.by_topic if fixed else None,
            prepared.left_out.positions(self._source.view.topic_ids),
        )
        query.check(frame, spec, prepared.longest_transaction_ms)
        function = query.sink_function(spec, self._environment.python)
        rows = None
        if spec.sink.jdbc is not None and prepared.table is not None:
            rows = query.rows_for_table(frame, spec.sink.jdbc, prepared.table.table)
        contents = self._continued(spark, frame)
        keeps_state = query.keeps_state(frame)
        if keeps_state and session.ADAPTIVE not in spec.spark_conf:
            spark.conf.set(session.ADAPTIVE, "false")
        of_state = (contents and contents.partitions) or session.shuffle_partitions(spark)
        repartition_to = state_partitions.new_partition_count(
            spec, contents, self._checkpoint.has_undivided_state
        )
        runs_one_batch = keeps_state and state_partitions.needs_batch_first(spec, contents)
        of_run = of_state if runs_one_batch else repartition_to or of_state
        return PlannedQuery(
            frame=frame,
            partitions=chosen.by_topic,
            partition_count=chosen.size.partitions,
            state_tasks=query.state_tasks(frame, spec, of_run),
            state_partitions=of_state if keeps_state else 0,
            repartition_to=repartition_to,
            runs_one_batch=runs_one_batch,
            batch_tasks=query.batch_tasks(frame, of_run)
            if keeps_state and prepared.names is not None
            else None,
            rows=rows,
            function=function,
            reads_ahead=query.reads_ahead(frame, spec.sink),
            fields=json_schemas.fields_of(frame),
            warning=query.column_warning(frame, spec),
        )

    def _continued(self, spark: SparkSession, frame: DataFrame) -> CheckpointContents | None:
        """What the checkpoint holds, once this query can continue from it."""
        used, contents = self._generations.batch_known_elsewhere(), self._checkpoint.contents()
        query.check_continues(frame, contents, used)
        if used is not None:
            shape = LogShape(
                query.number_of_reads(frame),
                session.shuffle_partitions(spark),
                self._mode.has_long_running_tasks,
            )
            self._checkpoint.continue_after(used, shape)
            contents = self._checkpoint.contents()
        if contents is not None and contents.lacks_settings and self._mode is not Mode.CONTINUOUS:
            self._checkpoint.note_settings(session.settings_line(self._jvm.gateway, spark))
        return contents
