"""Exactly once: the names of transactions, the producers' options, and the brokers' log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.notes import Notes
from penstock.driver.kafka.admin import TransactionLog
from penstock.driver.kafka.offsets import EARLIEST, latest
from penstock.driver.kafka.transactions import (
    TransactionNames,
    epoch_problem,
    log_problem,
    sink_options,
    timeout_problem,
)
from testkit.driver.checkpoints import folder_at
from testkit.streams.streams import kafka_sink, kafka_source, stream

NAMES = TransactionNames.of("payments", "flags", "0a1b", 3)


def test_no_streams_names_begin_with_those_of_another() -> None:
    assert NAMES.granted_prefix == "penstock/payments/flags/"
    assert NAMES.group.startswith(NAMES.granted_prefix)
    ids = NAMES.transactional_ids({"in": [0, 2], "more": [1]})
    assert ids == [f"penstock/payments/flags/0a1b/{name}" for name in ("in-0", "in-2", "more-1")]


def test_tasks_that_write_batches_have_ids_of_their_own() -> None:
    """No topic has a slash in its name, so none of them is a partition's."""
    names = replace(NAMES, batch_tasks=2)
    ids = names.transactional_ids({"in": [0, 2]})
    assert ids == [f"{NAMES.id_prefix}/batches/{task}" for task in (0, 1)]
    sink = kafka_sink(delivery="ExactlyOnce")
    spec = stream(kafka_source(), sink, trigger={"microBatch": {}}).spec
    told = sink_options(spec, names, batch_tasks=2, partitions={"b-1": [0], "a-2": [3, 1]})
    assert (told["transactionBatchesAt"], told["transactionBatchTasks"]) == ("a-2-1", "2")
    assert "transactionBatchesAt" not in sink_options(spec, NAMES, partitions={"a": [0]})


def test_the_names_last_as_long_as_the_checkpoint(tmp_path: Path) -> None:
    """After lost records the offsets of earlier transactions no longer hold; their ids do."""
    folder, other = (
        folder_at(tmp_path / "a"),
        folder_at(tmp_path / "b"),
    )
    folder.notes.update(Notes.without_transactions)
    assert folder.notes.read().transactions is None
    names = folder.transaction_names("payments", "flags")
    assert folder_at(tmp_path / "a").transaction_names("payments", "flags") == names
    assert other.transaction_names("payments", "flags").id_prefix != names.id_prefix
    folder.notes.update(Notes.without_transactions)
    renewed = folder.transaction_names("payments", "flags")
    assert renewed.id_prefix == names.id_prefix
    assert renewed.group != names.group


def test_the_names_of_batches_are_those_of_one_query(tmp_path: Path) -> None:
    """Once nothing of it is committed; and of a stream that has not written otherwise since."""
    folder = folder_at(tmp_path)
    before = folder.transaction_names("payments", "flags")
    spec = stream(kafka_source(), kafka_sink(), transform={"sql": "SELECT a"}).spec
    other = stream(kafka_source(), kafka_sink(), transform={"sql": "SELECT b"}).spec
    folder.forget_whole_batches()
    assert folder.transaction_names("payments", "flags") == before
    folder.note_whole_batches(spec, 8)
    folder.note_whole_batches(spec, 4)
    assert folder.transaction_names("payments", "flags") == replace(before, batch_tasks=8)
    assert folder.knows_ids()
    assert not folder.holds_batches_of_another_query(spec)
    assert folder.holds_batches_of_another_query(other)
    folder.forget_whole_batches()
    assert not folder.knows_ids()
    after = folder.transaction_names("payments", "flags")
    assert after.batch_tasks is None
    assert after.id_prefix != before.id_prefix


@pytest.mark.parametrize(
    ("interval", "of_sink", "expected", "timeout"),
    [
        ("1s", {}, "100", "61000"),
        ("5m", {"transactionInterval": "50ms"}, "50", "360000"),
        ("1h", {}, "100", "900000"),
    ],
)
def test_a_transaction_may_last_as_long_as_an_epoch(
    interval: str, of_sink: dict[str, Any], expected: str, timeout: str
) -> None:
    """Where a function in Python is committed only with its epoch; brokers allow 15 minutes."""
    trigger = {"continuous": {"checkpointInterval": interval}}
    sink = kafka_sink(delivery="ExactlyOnce", **of_sink)
    options = sink_options(stream(kafka_source(), sink, trigger=trigger).spec, NAMES)
    assert options["transactionIntervalMs"] == expected
    assert options["kafka.transaction.timeout.ms"] == timeout
    assert options["transactionalIdPrefix"] == NAMES.id_prefix
    assert options["transactionGroup"] == NAMES.group


def test_a_batch_may_take_as_long_as_brokers_allow() -> None:
    sink = kafka_sink(delivery="ExactlyOnce")
    spec = stream(kafka_source(), sink, trigger={"microBatch": {}}).spec
    assert sink_options(spec, NAMES)["kafka.transaction.timeout.ms"] == "900000"
    assert epoch_problem(spec) is None


@pytest.mark.parametrize(
    ("interval", "options", "found"),
    [
        ("14m", {}, False),
        ("15m", {}, True),
        ("15m", {"kafka.transaction.timeout.ms": "1800000"}, False),
        ("1m", {"kafka.transaction.timeout.ms": "60000"}, True),
    ],
)
def test_an_epoch_longer_than_its_transaction_may_be_is_named(
    interval: str, options: dict[str, str], found: bool
) -> None:
    trigger = {"continuous": {"checkpointInterval": interval}}
    sink = kafka_sink(delivery="ExactlyOnce", options=options)
    problem = epoch_problem(stream(kafka_source(), sink, trigger=trigger).spec)
    assert (problem is not None) == found
    if problem is not None:
        assert interval in problem


def test_a_small_heap_has_small_buffers_in_which_the_largest_record_fits() -> None:
    for own, expected in (
        ({}, "8388608"),
        ({"kafka.max.request.size": "4194304"}, "8388608"),
        ({"kafka.max.request.size": "9000000"}, None),
        ({"kafka.batch.size": "16777216"}, None),
    ):
        sink = kafka_sink(delivery="ExactlyOnce", options=own)
        spec = stream(kafka_source(), sink, trigger={"microBatch": {}}).spec
        assert sink_options(spec, NAMES, buffer=8 << 20).get("kafka.buffer.memory") == expected


def test_brokers_may_allow_less() -> None:
    """Where an administrator has lowered transaction.max.timeout.ms."""
    sink = kafka_sink(delivery="ExactlyOnce")
    for trigger, expected in (
        ({"microBatch": {}}, "300000"),
        ({"continuous": {"checkpointInterval": "1h"}}, "300000"),
        ({"continuous": {"checkpointInterval": "1s"}}, "61000"),
    ):
        spec = stream(kafka_source(), sink, trigger=trigger).spec
        options = sink_options(spec, NAMES, longest_ms=300_000)
        assert options["kafka.transaction.timeout.ms"] == expected
    six = {"continuous": {"checkpointInterval": "6m"}}
    ahead = stream(kafka_source(), sink, trigger=six).spec
    assert epoch_problem(ahead) is None
    assert "aborts it after 300 s" in (epoch_problem(ahead, longest_ms=300_000) or "")
    assert timeout_problem(None, 300_000) is None
    assert timeout_problem(300_000, 300_000) is None
    assert "is 300001, and the brokers allow 300000" in (timeout_problem(300_001, 300_000) or "")


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (TransactionLog(exists=True, replicas=2, needed=2), None),
        (TransactionLog(exists=True, replicas=1, needed=2), "min.insync.replicas=1"),
        (TransactionLog(exists=False, replicas=3, needed=3), None),
        (TransactionLog(exists=False, replicas=1, needed=3), "to at most 1"),
    ],
)
def test_a_log_of_transactions_that_takes_none(log: TransactionLog, says: str | None) -> None:
    problem = log_problem(log, "kafka:9092")
    assert (problem is None) if says is None else (says in (problem or ""))


def test_the_later_of_two_offsets() -> None:
    """Those in a checkpoint may be words of Spark, and a transaction may know more partitions."""
    in_log = {"in": {0: 5, 1: 7, 2: EARLIEST}}
    written = {"in": {0: 8, 1: 6, 2: 1, 3: 9}, "other": {0: 1}}
    assert latest(in_log, written) == {"in": {0: 8, 1: 7, 2: 1}}
    assert latest(in_log, {}) == in_log
