"""When a report is due, and the termination message."""

from datetime import UTC, datetime
from pathlib import Path

from penstock.api.v1alpha1.status import MAX_COMMITTED_OFFSETS, Cause, LastFailure, LastRepair
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS, DriverReport, QueryState
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import Failure
from penstock.driver.reporting.report import (
    as_annotation,
    committed_offsets,
    is_due,
    last_repair,
    write_termination_message,
)

RUNNING = DriverReport(spec_hash="hash", state=QueryState.RUNNING, epoch=3, lag=10)


def test_transitions_are_published_at_once_and_numbers_after_an_interval() -> None:
    assert is_due(RUNNING, None, 0.0)
    assert not is_due(RUNNING, RUNNING, 1e9)
    restarting = RUNNING.model_copy(update={"state": QueryState.RESTARTING})
    assert is_due(restarting, RUNNING, 0.0)
    further = RUNNING.model_copy(update={"epoch": 4, "lag": 12})
    assert not is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS - 1)
    assert is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS)


def test_committed_offsets_are_numbers_that_wait_for_the_interval() -> None:
    offsets, omitted = committed_offsets({"a": {0: 7}})
    further = RUNNING.model_copy(
        update={"committed_offsets": offsets, "committed_offsets_omitted": omitted}
    )
    assert not is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS - 1)
    assert is_due(further, RUNNING, NUMBERS_INTERVAL_SECONDS)


def test_committed_offsets_are_ordered_and_bounded() -> None:
    offsets, omitted = committed_offsets({"b": {1: 3, 0: 2}, "a": {10: 1, 9: 0}})
    assert [(each.topic, each.partition, each.offset) for each in offsets] == [
        ("a", 9, 0), ("a", 10, 1), ("b", 0, 2), ("b", 1, 3),
    ]  # fmt: skip
    assert omitted is None
    assert committed_offsets({}) == ([], None)
    many = {"a": dict.fromkeys(range(60), 1), "b": dict.fromkeys(range(10), 1)}
    offsets, omitted = committed_offsets(many)
    assert len(offsets) == MAX_COMMITTED_OFFSETS
    assert (offsets[-1].topic, offsets[-1].partition) == ("b", 3)
    assert omitted == 6


def test_the_annotation_has_the_known_values() -> None:
    text = as_annotation(RUNNING)
    assert '"specHash":"hash"' in text
    assert "null" not in text
    assert DriverReport.model_validate_json(text) == RUNNING


def test_the_termination_message_fits_and_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    failure = Failure("DriverKilled", "x" * 10_000).to_status(datetime.now(UTC))
    write_termination_message(path, failure)
    assert path.stat().st_size < 4096
    assert LastFailure.model_validate_json(path.read_text()).reason == "DriverKilled"


def test_no_place_for_a_termination_message_is_no_failure(tmp_path: Path) -> None:
    failure = Failure("DriverKilled", "").to_status(datetime.now(UTC))
    write_termination_message(None, failure)
    write_termination_message(tmp_path / "missing" / "log", failure)


def test_a_repair_is_reported_by_its_most_severe_kind() -> None:
    found = [Repair(RepairKind.UNCOMMITTED_OFFSETS, f"offsets/{n}") for n in range(8, 14)]
    repair = RepairPlan((), 7, {}, (*found, Repair(RepairKind.TORN_COMMIT, "commits/8")))
    now = datetime.now(UTC)
    assert last_repair(repair, now) == LastRepair(
        reason="TornCommit",
        cause=Cause.DAMAGE,
        message="UncommittedOffsets (offsets/8, offsets/9, offsets/10 and 3 more); "
        "TornCommit (commits/8); the stream continues from epoch 7",
        time=now,
    )
