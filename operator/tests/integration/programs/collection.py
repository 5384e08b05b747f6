"""All programs, and those that run for every change."""

from __future__ import annotations

from tests.integration.programs.program import Program
from tests.integration.programs.python import PYTHON
from tests.integration.programs.record_by_record import RECORD_BY_RECORD
from tests.integration.programs.sources_and_sinks import SOURCES_AND_SINKS
from tests.integration.programs.stateful import STATEFUL

PROGRAMS: dict[str, Program] = {
    program.name: program for program in (*RECORD_BY_RECORD, *STATEFUL, *PYTHON, *SOURCES_AND_SINKS)
}
# Each way of keeping state or of choosing records, and each mode at least once.
EVERY_CHANGE = {
    ("corrupt-records-to-another-topic", "C"),
    ("variant", "R"),
    ("headers-kept-and-added", "C"),
    ("topic-of-each-record", "S"),
    ("starts-of-partitions", "R"),
    ("committed-transactions-only", "C"),
    ("late-records-dropped-after-a-restart", "A"),
    ("sessions", "A"),
    ("word-count", "M"),
    ("word-count", "R"),
    ("watermark-of-the-spec", "R"),
    ("sliding-windows-of-python", "R"),
    ("impressions-without-a-click", "A"),
    ("lookup-in-parquet", "R"),
    ("transform-with-state-in-pandas", "U"),
    ("what-is-there-now", "N"),
    ("names-in-capitals", "C"),
    ("value-replaced", "A"),
    ("files-in-folders", "A"),
}
