"""The contents of the report annotation, and the termination message."""

from __future__ import annotations

import itertools
import logging
from datetime import datetime
from pathlib import Path

from penstock.api.v1alpha1.status import (
    MAX_COMMITTED_OFFSETS,
    CommittedOffset,
    LastFailure,
    LastRepair,
)
from penstock.contract.checkpoint_repairs import most_severe, summarize
from penstock.contract.driver_report import NUMBERS, NUMBERS_INTERVAL_SECONDS, DriverReport
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.logs import log_event

# The kubelet keeps 4096 bytes of a termination message.
_MAX_TERMINATION_MESSAGE_CHARACTERS = 3000


def as_annotation(report: DriverReport) -> str:
    """The report as JSON, without unknown values."""
    return report.model_dump_json(by_alias=True, exclude_none=True)


def is_due(report: DriverReport, last: DriverReport | None, seconds_since_last: float) -> bool:
    """Whether to publish: a change of state at once, changed numbers after an interval."""
    if last is None:
        return True
    if report == last:
        return False
    return (
        _transition(report) != _transition(last) or seconds_since_last >= NUMBERS_INTERVAL_SECONDS
    )


def _transition(report: DriverReport) -> DriverReport:
    return report.model_copy(update=dict.fromkeys(NUMBERS))


def committed_offsets(committed: Offsets) -> tuple[list[CommittedOffset], int | None]:
    """The first partitions by topic and number, and how many are left out (None: none)."""
    partitions = (
        CommittedOffset(topic=topic, partition=partition, offset=committed[topic][partition])
        for topic in sorted(committed)
        for partition in sorted(committed[topic])
    )
    omitted = sum(map(len, committed.values())) - MAX_COMMITTED_OFFSETS
    return list(itertools.islice(partitions, MAX_COMMITTED_OFFSETS)), max(0, omitted) or None


def last_repair(repair: RepairPlan, now: datetime) -> LastRepair:
    """The report of a repair: its most severe kind, and all kinds in the message."""
    first = most_severe(repair.repairs)
    onward = (
        "the stream starts without a commit"
        if repair.epoch is None
        else f"the stream continues from epoch {repair.epoch}"
    )
    return LastRepair(
        reason=first.kind,
        cause=first.cause,
        message=f"{summarize(repair.repairs)}; {onward}",
        time=now,
    )


def write_termination_message(path: Path | None, failure: LastFailure) -> None:
    """Writes the failure where the kubelet reads it; does nothing without a path."""
    if path is None:
        return
    short = failure.model_copy(
        update={"message": failure.message[:_MAX_TERMINATION_MESSAGE_CHARACTERS]}
    )
    try:
        path.write_text(short.model_dump_json(by_alias=True))
    except OSError as error:
        log_event("the termination message was not written", logging.WARNING, error=str(error))
