"""Ordinary days: promtool judges all rules over what the real exporters show, and none fires.

A day is played moment by moment (`testkit.operations.played_stream`), so its series have the names,
labels and rhythm of the product. That each alert fires in its fault is in rules/NAME.yaml.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.kinds import Key
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.work_queue import WorkQueue
from testkit.operations.alert_rules import ALERTS, rules, words
from testkit.operations.exported_series import LABELS, unknown
from testkit.operations.played_stream import PlayedStream, Query, Run, Topic
from testkit.operations.recorded_series import STEP_SECONDS, RecordedSeries
from testkit.tools.debian import promtool

MINUTE, HOUR = 60, 3600
# A weekend is 64 hours, minute by minute: more than five minutes beside a lot else (measured).
_HANGS_SECONDS = 3000
ASKED = frozenset().union(*(words(rule.expression) for rule in rules(ALERTS.read_text())))
# How much memory this machine has left is no part of the day.
NAMES = {name for name in ASKED & LABELS.keys() if not name.startswith("penstock_operator_memory")}
OPERATOR = {"job": "penstock-operator", "namespace": "penstock"}


@dataclass(frozen=True)
class Played:
    """One stream of a day."""

    query: Query
    topic: Topic
    runs: Sequence[Run] = (Run(-HOUR, 10**9),)
    committed: int = 0
    numbers_interval: float = 30.0


@dataclass(frozen=True)
class Day:
    what: str
    hours: float
    streams: Sequence[Played]
    every: int = 5
    """Seconds from one played moment to the next; a batch takes at least as long."""
    warns: frozenset[tuple[str, str, str]] = frozenset()
    """What fires nevertheless."""
    handover: int | None = None
    """When another replica of the operator takes over, after half a minute without one."""
    waiting: Callable[[int], int] = lambda _: 0
    """Streams that wait for the default image."""


@dataclass(frozen=True)
class _Images:
    waiting: int

    def count_waiting(self) -> int:
        return self.waiting

    def failures(self) -> tuple[Sequence[Key], bool]:
        return (), False


def _recorded(day: Day) -> RecordedSeries:
    """What a Prometheus has scraped by the end of the day."""
    record = RecordedSeries(NAMES)
    operator = OperatorMetrics()
    operator.take_over(WorkQueue())
    operator.show_watches(lambda: {"continuousstreams": 0.0})
    pod = "one"
    streams = [
        PlayedStream(
            it.query,
            it.topic,
            it.runs,
            operator,
            every=day.every,
            numbers_interval=it.numbers_interval,
            committed=it.committed,
        )
        for it in day.streams
    ]
    begin = min(0, *(it.runs[0].start for it in day.streams if it.runs), 0)
    for now in range(begin, int(day.hours * HOUR), day.every):
        for stream in streams:
            stream.at(now)
        if now < 0 or now % STEP_SECONDS:
            continue
        if day.handover is not None and now == day.handover:
            operator.step_back()
        if day.handover is not None and now == day.handover + STEP_SECONDS:
            operator, pod = OperatorMetrics(), "two"
            operator.take_over(WorkQueue())
            operator.show_watches(lambda: {"continuousstreams": 0.0})
            for stream in streams:
                stream.lead_by(operator)
                stream.again()
        number = now // STEP_SECONDS
        operator.show_images(_Images(day.waiting(now)))
        record.scrape(number, operator.registry, {**OPERATOR, "pod": pod}, honor_labels=True)
        for stream in streams:
            stream.scrape(record, number, now)
    return record


def _fired(record: RecordedSeries, hours: float, folder: Path) -> set[tuple[str, str, str]]:
    """The alerts that fired at any time, with their severity and stream, by promtool."""
    ever = f'max_over_time(ALERTS{{alertstate="firing"}}[{int(hours + 1)}h])'
    case = {
        "interval": f"{STEP_SECONDS}s",
        "input_series": record.input_series(),
        "promql_expr_test": [{"expr": ever, "eval_time": f"{int(hours * 60)}m", "exp_samples": []}],
    }
    file = folder / "day.yaml"
    file.write_text(
        json.dumps(
            {
                "rule_files": [str(ALERTS)],
                "evaluation_interval": f"{STEP_SECONDS}s",
                "tests": [case],
            }
        )
    )
    command = [str(promtool()), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_HANGS_SECONDS)
    if done.returncode == 0:
        return set()
    (got,) = re.findall(r"^\s+got:(.*)$", done.stdout + done.stderr, re.MULTILINE)
    found = set()
    for labels in re.findall(r"\{([^}]*)\}", got):
        of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found.add((of["alertname"], of["severity"], of.get("name", "")))
    return found


def _micro(name: str, interval: int, **more: Any) -> Query:
    return Query(name, "MicroBatch", interval, **more)


def _continuous(name: str, interval: int = 1, **more: Any) -> Query:
    return Query(name, "Continuous", interval, **more)


WEEK = 7 * 24 * HOUR
ALL_DAY = (Run(-HOUR, 10**9),)
NEW = (Run(5 * MINUTE, 10**9),)
NIGHT = (Run(-HOUR, HOUR // 2), Run(8 * HOUR, 10**9))
INTERVALS = (0, MINUTE, 5 * MINUTE)

DAYS = {
    "idle": Day(
        "A batch query without a record all day.",
        5,
        [
            Played(_micro(f"idle-{i}", i), Topic((-2 * HOUR, -HOUR + 60, 1)), ALL_DAY)
            for i in INTERVALS
        ],
    ),
    "single-records": Day(
        "One record after each quiet half hour, after a trigger; some are old by their own time.",
        5,
        [
            Played(
                _micro(f"single-{i}-{int(age)}", i),
                Topic(one_at=range(-HOUR // 2 + 63, 5 * HOUR, HOUR // 2), age=age),
            )
            for i in INTERVALS
            for age in (0.0, 5.0 * HOUR)
        ],
    ),
    "resume": Day(
        "Suspended over night; in the morning it catches up eight hours, in one batch or in many.",
        10,
        [
            Played(query, Topic((-HOUR, 10 * HOUR, 40)), NIGHT)
            for query in (
                _continuous("resumed"),
                _micro("resumed-at-once", 10),
                _micro("resumed-in-parts", 10, max_batch=60_000),
                Query("resumed-real-time", "RealTime", 300),
            )
        ],
    ),
    "first-backlog": Day(
        "A new stream reads a topic of a week from its beginning.",
        3,
        [
            Played(query, Topic((-WEEK, 3 * HOUR, 5)), NEW)
            for query in (
                _continuous("new"),
                _micro("new-at-once", 10),
                _micro("new-each-five-minutes", 5 * MINUTE, capacity=2000),
                _micro("new-in-parts", 10, max_batch=100_000),
                Query("new-nightly", "AvailableNow", 0),
            )
        ],
    ),
    "rewind": Day(
        "Another generation of the checkpoint begins a day earlier.",
        5,
        [
            Played(
                query,
                Topic((-24 * HOUR, 5 * HOUR, 20)),
                (
                    Run(-HOUR, 2 * HOUR),
                    Run(2 * HOUR + 10, 10**9, begins_at=2 * HOUR * 20, node="b"),
                ),
                committed=23 * HOUR * 20,
            )
            for query in (_continuous("rewound"), _micro("rewound-batch", 10))
        ],
    ),
    "rare-numbers": Day(
        "Statuses have new numbers every half hour, or as for 3,000 streams every 90 s.",
        3,
        [
            Played(_continuous("busy"), Topic((-HOUR, 5 * HOUR, 100)), numbers_interval=1800),
            Played(_micro("busy-batch", 0), Topic((-HOUR, 5 * HOUR, 100)), numbers_interval=1800),
            Played(
                _micro("trickle", 0),
                Topic(one_at=range(-HOUR, 5 * HOUR, 17 * MINUTE)),
                numbers_interval=90,
            ),
        ],
        every=1,
    ),
    "old-by-their-own-time": Day(
        "Devices send what they have gathered: each record is hours old when it comes.",
        5,
        [
            Played(query, Topic((-HOUR, 5 * HOUR, 20), age=6.0 * HOUR))
            for query in (_continuous("devices"), _micro("devices-batch", MINUTE))
        ],
        # Nobody can tell how much of the age is the query's: docs/metrics.md names the remedy.
        warns=frozenset(
            ("PenstockStreamLatencyHigh", "warning", name) for name in ("devices", "devices-batch")
        ),
    ),
    "drains-and-a-handover": Day(
        "Two nodes are drained, and the operator gets a new version, which moves the lead.",
        4,
        [
            Played(
                query,
                Topic((-HOUR, 4 * HOUR, 50)),
                (
                    Run(-HOUR, HOUR),
                    Run(HOUR + 40, 2 * HOUR, node="b"),
                    Run(2 * HOUR + 40, 10**9, node="c"),
                ),
            )
            for query in (_continuous("moved"), _micro("moved-batch", MINUTE))
        ],
        handover=90 * MINUTE,
    ),
    "new-image": Day(
        "3,000 streams get a new default image, three every four minutes.",
        8,
        [Played(_continuous("one-of-them", 10), Topic((-HOUR, 8 * HOUR, 5)))],
        waiting=lambda now: 0 if now < HOUR else 3000 - 3 * (now - HOUR) // (4 * MINUTE),
    ),
    "weekend": Day(
        "Suspended from Friday to Monday.",
        64,
        [
            Played(
                _continuous("weekend", 10, capacity=2000),
                Topic((-HOUR, 64 * HOUR, 10)),
                (Run(-HOUR, HOUR), Run(62 * HOUR, 10**9)),
            )
        ],
    ),
    "nightly": Day(
        "An availableNow stream reads each night what the day has brought, for forty minutes.",
        27,
        [
            Played(
                Query("nightly", "AvailableNow", 0, capacity=360),
                Topic((-24 * HOUR, 27 * HOUR, 10)),
                (Run(HOUR, 2 * HOUR), Run(25 * HOUR, 26 * HOUR)),
            )
        ],
    ),
}


# Each takes ten seconds of processor time.
_IN_EACH_RUN = {"single-records", "resume", "first-backlog", "rewind", "rare-numbers"}


@pytest.mark.proves(35)
@pytest.mark.timeout(_HANGS_SECONDS + 600)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in _IN_EACH_RUN else pytest.mark.full) for name in DAYS],
)
def test_on_an_ordinary_day_no_alert_fires(name: str, tmp_path: Path) -> None:
    """Its series have names and labels that exist, and are those by which alerts are judged."""
    day = DAYS[name]
    record = _recorded(day)
    assert [unknown(series) for series in record.series if unknown(series)] == []
    assert _fired(record, day.hours, tmp_path) == day.warns
