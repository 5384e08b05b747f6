"""Exactly once: the names of a stream's transactions, and what is made sure of before they begin.

A task writes its records and the offset that they reach to in one transaction (connector/). So the
offsets in the consumer group say what is in the sink, and the checkpoint follows them.

Where a query keeps state, a task writes what others have read. There it writes its part of a batch
whole, together with the batch's number: the sink follows the checkpoint, whose plans are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.api.v1alpha1.sinks import KafkaSink
from penstock.contract.remedies import REMEDIES
from penstock.driver.calls_with_deadline import CallsWithDeadline
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import (
    BROKER_UNREACHABLE,
    EXACTLY_ONCE_IMPOSSIBLE,
    KAFKA_AUTHORIZATION,
    REPLAY_DIFFERS,
    DriverError,
    Failure,
    refuse_older_copy,
)
from penstock.driver.jvm import Jvm, java_class
from penstock.driver.kafka.admin import Admin, TransactionLog
from penstock.driver.kafka.offsets import Offsets

DEFAULT_INTERVAL = "100ms"
_BUFFER = "kafka.buffer.memory"
_PARTS_OF_BUFFER = ("kafka.max.request.size", "kafka.batch.size")
_TIMEOUT = "kafka.transaction.timeout.ms"
# Kafka's own, for how long a transaction may be open (transaction.timeout.ms).
_SHORTEST_TIMEOUT_MS = 60_000
# What brokers allow by default, and the longest that is asked for (transaction.max.timeout.ms).
DEFAULT_LONGEST_MS = 900_000


@dataclass(frozen=True)
class TransactionNames:
    """The names that Kafka knows a stream's transactions by. TransactionOptions.java reads them."""

    id_prefix: str
    """Of the transactional ids: each partition of the source has one."""
    group: str
    """The consumer group that keeps the source's offsets."""
    batch_tasks: int | None = None
    """How many tasks at most have written their part of a batch whole, each with an id and a group
    of its own; None if each task writes what it has read of a partition."""

    @classmethod
    def of(cls, namespace: str, name: str, checkpoint: str, offsets: int) -> TransactionNames:
        """Those of a stream and its checkpoint. Another number of `offsets` is another group.

        Neither a namespace nor a name has a slash, so no stream's prefix begins another's.
        """
        prefix = f"penstock/{namespace}/{name}/{checkpoint}"
        return cls(prefix, f"{prefix}/{offsets}")

    @property
    def granted_prefix(self) -> str:
        """What all names of the stream begin with, whichever checkpoint it has."""
        return self.id_prefix[: self.id_prefix.rindex("/") + 1]

    def transactional_ids(self, partitions: Mapping[str, Sequence[int]]) -> list[str]:
        """As the tasks have them (TransactionOptions.java)."""
        if self.batch_tasks is not None:
            return [f"{self.id_prefix}/batches/{task}" for task in range(self.batch_tasks)]
        return [f"{self.id_prefix}/{topic}-{n}" for topic, of in partitions.items() for n in of]


def sink_options(
    spec: StreamSpec,
    names: TransactionNames,
    longest_ms: int = DEFAULT_LONGEST_MS,
    buffer: int = 0,
    batch_tasks: int | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, str]:
    """What the data source and its producers are told; `longest_ms`: TransactionCheck's.

    `buffer`: bytes for each task's producer, or 0 for Kafka's default. The largest record and batch
    that the user allows fit in. `batch_tasks`: how many tasks write their part of a batch whole;
    None if each writes what it has read. `partitions` are the source's, for such tasks: Kafka keeps
    a number only beside a partition that exists.
    """
    assert spec.sink.kafka is not None
    told = (spec.sink.kafka.options.get(name, "") for name in _PARTS_OF_BUFFER)
    if any(size.isdecimal() and int(size) > buffer // 2 for size in told):
        buffer = 0
    interval = milliseconds(spec.sink.kafka.transaction_interval or DEFAULT_INTERVAL)
    timeout = longest_ms  # for a batch, whose length is not known
    if spec.trigger.mode.has_long_running_tasks:
        # What reads ahead is committed with its epoch or its batch only.
        epoch = milliseconds(spec.trigger.interval)
        timeout = min(epoch + _SHORTEST_TIMEOUT_MS, longest_ms)
    return {
        **({_BUFFER: str(buffer)} if buffer else {}),
        _TIMEOUT: str(timeout),
        "transactionalIdPrefix": names.id_prefix,
        "transactionGroup": names.group,
        "transactionIntervalMs": str(interval),
        **_options_of_batches(batch_tasks, partitions or {}),
    }


def _options_of_batches(
    tasks: int | None, partitions: Mapping[str, Sequence[int]]
) -> dict[str, str]:
    if tasks is None:
        return {}
    return {"transactionBatchesAt": _first(partitions), "transactionBatchTasks": str(tasks)}


def _first(partitions: Mapping[str, Sequence[int]]) -> str:
    topic = min(partitions)
    return f"{topic}-{min(partitions[topic])}"


def epoch_problem(spec: StreamSpec, longest_ms: int = DEFAULT_LONGEST_MS) -> str | None:
    """Why what reads ahead cannot be committed at the end of each epoch, or each batch of
    real-time mode; None if it can.
    """
    assert spec.sink.kafka is not None
    if not spec.trigger.mode.has_long_running_tasks:
        return None
    interval = spec.trigger.interval
    told = told_timeout(spec.sink.kafka.options)
    limit_ms = longest_ms if told is None else told
    if milliseconds(interval) < limit_ms:
        return None
    return (
        "A function in Python, or over many records, reads ahead of what it has returned, so its "
        f"transaction is open for {interval}, and Kafka aborts it after {limit_ms // 1000} s: set "
        f"a shorter {_field(spec)}, or {_TIMEOUT} in sink.kafka.options, up "
        "to the brokers' transaction.max.timeout.ms."
    )


def _field(spec: StreamSpec) -> str:
    continuous = spec.trigger.continuous is not None
    return f"{spec.trigger.mode}.{'checkpointInterval' if continuous else 'batchDuration'}"


def told_timeout(options: Mapping[str, str]) -> int | None:
    """The transaction timeout in a sink's options, in ms; None if they name none.

    >>> told_timeout({"Kafka.Transaction.Timeout.ms": "60000"})
    60000
    """
    told = {name.lower(): value for name, value in options.items()}.get(_TIMEOUT, "")
    return int(told) if told.isdecimal() else None  # Kafka refuses another text


def timeout_problem(told: int | None, longest_ms: int) -> str | None:
    """Why the brokers refuse the timeout that the sink's options name; None if they do not."""
    if told is None or told <= longest_ms:
        return None
    return (
        f"{_TIMEOUT} in sink.kafka.options is {told}, and the brokers allow {longest_ms} "
        "(transaction.max.timeout.ms). Remove the option or lower it, or raise theirs in the "
        "server.properties of each broker, which has to be restarted."
    )


def impossible(message: str, *, recoverable: bool) -> DriverError:
    """The error for a stream that cannot write exactly once, and so does not write at all."""
    action = REMEDIES[EXACTLY_ONCE_IMPOSSIBLE].action
    return DriverError(
        Failure(
            EXACTLY_ONCE_IMPOSSIBLE,
            f"sink.kafka.delivery is ExactlyOnce. {message} {action}",
            permanent=True,
            recoverable=recoverable,
        )
    )


@dataclass(frozen=True)
class EndedTransactions:
    """The transactions of earlier drivers, which are over."""

    offsets: Offsets
    """Those that they have reached."""
    longest_ms: int
    """How long a transaction may be open, by the brokers or by default, whichever is less."""


def different_replay(gateway: Any) -> Failure | None:
    """A warning about the newest batch that ran again and made other rows; None without one."""
    found = java_class(gateway, "dev.penstock.spark.DifferentReplay").take()
    if found is None:
        return None
    who = "it" if found.task() < 0 else f"its task {found.task()}"
    return Failure(
        REPLAY_DIFFERS,
        f"Batch {found.batch()} ran again and did not make the same rows: {who} had written "
        f"{found.before()}, which are in the sink, and then made {found.now()}. "
        f"{REMEDIES[REPLAY_DIFFERS].action}",
    )


class TransactionCheck:
    """Asks Kafka before a start, and ends what an earlier driver has left open."""

    def __init__(self, jvm: Jvm, spec: StreamSpec, secrets: Path) -> None:
        self._jvm = jvm
        self._source = spec.source.kafka
        self._sink = spec.sink.kafka
        self._secrets = secrets
        self._calls = CallsWithDeadline("transactions")

    def take_over(
        self,
        names: TransactionNames,
        partitions: Mapping[str, Sequence[int]],
        planned: Callable[[], int | None] | None = None,
    ) -> EndedTransactions:
        """What earlier drivers have committed; none of them commits any more.

        `planned`: the newest batch of the checkpoint, if tasks that write batches may have written
        no later one.
        Raises ExactlyOnceImpossible, KafkaAuthorization, or Kafka's own error.
        """
        assert self._source is not None
        assert self._sink is not None
        source, sink = self._source, self._sink

        def ask() -> EndedTransactions:
            with closing(self._admin(source)) as reader, closing(self._admin(sink)) as writer:
                longest = _longest_ms(writer, sink)
                servers = sink.bootstrap_servers
                reached = _take_over(reader, writer, names, partitions, planned, servers)
                return EndedTransactions(reached, longest)

        return self._calls.call(ask, len(names.transactional_ids(partitions)))

    def _admin(self, client: KafkaClient) -> Admin:
        return Admin(self._jvm.gateway, client, self._secrets)


def _longest_ms(writer: Admin, sink: KafkaSink) -> int:
    """How long a transaction may be open; raises if the sink's options ask for more."""
    try:
        longest = writer.longest_transaction_ms()
    except Exception as error:
        if classify_exception(error).reason == BROKER_UNREACHABLE:
            raise
        longest = None  # most often for lack of rights
    if longest is None:
        return DEFAULT_LONGEST_MS
    problem = timeout_problem(told_timeout(sink.options), longest)
    if problem is not None:
        raise impossible(problem, recoverable=True)
    return min(longest, DEFAULT_LONGEST_MS)


def _take_over(
    reader: Admin,
    writer: Admin,
    names: TransactionNames,
    partitions: Mapping[str, Sequence[int]],
    planned: Callable[[], int | None] | None,
    servers: str,
) -> Offsets:
    read, written = reader.cluster_id(), writer.cluster_id()
    if read != written:
        raise impossible(
            f"The source is in the Kafka cluster {read}, and the sink in {written}: a transaction "
            "holds records and offsets of one cluster.",
            recoverable=False,
        )
    log = _transaction_log(writer)
    if log is not None and (problem := log_problem(log, servers)):
        raise impossible(problem, recoverable=True)
    grant = f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal User:NAME"
    where = f"{names.granted_prefix} --resource-pattern-type prefixed"
    ids = names.transactional_ids(partitions)

    def check_copy(*, stable: bool) -> None:
        if names.batch_tasks is not None and planned is not None:
            # A task's group has the name of its id. A batch is planned before it is written, so it
            # is asked for in this order.
            following = writer.newest_committed(ids, stable=stable)
            refuse_older_copy(None if following is None else following - 1, planned())

    may_not_use_group = (
        f"The stream's principal may not use the consumer groups {names.granted_prefix}*, which "
        f"keep the source's offsets: {grant} --operation Read --group {where}"
    )
    try:
        # Before it takes the ids from the driver with the newer one.
        check_copy(stable=False)
    except DriverError:
        raise
    except Exception as error:
        raise _refused(error, may_not_use_group) from error
    try:
        writer.fence(ids)
    except Exception as error:
        raise _refused(
            error,
            f"The sink's principal may not write with transactional ids {names.granted_prefix}*: "
            f"{grant} --operation Write --operation Describe --transactional-id {where}",
        ) from error
    try:
        if not writer.may_commit(names.group):
            raise DriverError(_not_authorized(may_not_use_group))
        check_copy(stable=True)
        # Those of a query before, which kept no state, are in the checkpoint by now.
        return reader.committed(names.group) if names.batch_tasks is None else {}
    except DriverError:
        raise
    except Exception as error:
        raise _refused(error, may_not_use_group) from error


def _transaction_log(writer: Admin) -> TransactionLog | None:
    """None if it cannot be asked about, most often for lack of rights."""
    try:
        return writer.transaction_log()
    except Exception as error:
        if classify_exception(error).reason == BROKER_UNREACHABLE:
            raise
        return None


def log_problem(log: TransactionLog, servers: str) -> str | None:
    """Why the brokers' log of transactions takes none; None if it does."""
    if log.replicas >= log.needed:
        return None
    if log.exists:
        return (
            f"Kafka's log of transactions (the topic __transaction_state) has {log.replicas} "
            f"replicas in sync and takes nothing with fewer than {log.needed}. Bring the brokers "
            f"back, or lower it: kafka-configs.sh --bootstrap-server {servers} --alter --topic "
            f"__transaction_state --add-config min.insync.replicas={max(log.replicas, 1)}"
        )
    return (
        f"The brokers are to keep their log of transactions in {log.needed} replicas, and there "
        f"are {log.replicas} brokers. Set transaction.state.log.replication.factor and "
        f"transaction.state.log.min.isr to at most {log.replicas} in the brokers' "
        "server.properties, or add brokers."
    )


def _refused(error: Exception, message: str) -> Exception:
    """The error, with what to do about a missing right; Kafka's message names no id."""
    failure = classify_exception(error)
    if failure.reason != KAFKA_AUTHORIZATION:
        return error
    return DriverError(replace(failure, message=message))


def _not_authorized(message: str) -> Failure:
    return Failure(KAFKA_AUTHORIZATION, message, permanent=True, recoverable=True)
