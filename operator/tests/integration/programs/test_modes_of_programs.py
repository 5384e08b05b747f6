"""For each program and each mode, `penstock validate` says what Spark says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from pyspark.errors import AnalysisException

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.environment import LocalEnvironment
from penstock.driver.spark import query
from penstock.driver.spark.query import QueryNotPossible
from penstock.validation.spec_check import judge
from testkit.streams.streams import RATE, kafka_source, stream
from tests.integration.programs.collection import PROGRAMS
from tests.integration.programs.program import MODES
from tests.integration.programs.running import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOWHERE = "127.0.0.1:9"


@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_validate_agrees_with_spark(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """What runs is not refused, and SQL that is judged is refused if and only if Spark refuses it.

    Of real-time mode and asynchronous progress only what runs is judged: Spark refuses most of the
    rest after the start, when it plans the first batch.
    """
    program = PROGRAMS[name]
    (tmp_path / "files").mkdir()
    program.prepare(tmp_path)
    for key, value in program.spec.get("sparkConf", {}).items():
        spark.conf.set(key, value)
    runs = {mode: Run(program, mode, _NOWHERE, tmp_path) for mode in MODES}
    frame = query.plan(spark, runs[program.modes[-1]].resource.spec, LocalEnvironment(tmp_path))
    wrong = {}
    for mode, run in runs.items():
        problems, theirs = _problems(run), _refusal_of_spark(frame, mode)
        errors = {problem.reason for problem in problems if problem.severity == "error"}
        needless = "UnsupportedOperation" in errors and not theirs and mode not in "RS"
        late = not errors and bool(theirs) and not _is_left_to_spark(program.python, problems)
        if (errors and mode in program.modes) or needless or late:
            wrong[mode] = (problems, theirs)
    assert wrong == {}


def _problems(run: Run) -> list[Problem]:
    try:
        return judge(run.resource.spec, local=True)
    except ValidationError as error:
        return [Problem("InvalidSpec", str(error))]


def _is_left_to_spark(python: str | None, problems: list[Problem]) -> bool:
    return python is not None or any(problem.reason == "NotJudged" for problem in problems)


def _refusal_of_spark(frame: DataFrame, mode: str) -> str:
    """What it says of the query in this mode, whatever source and sink the program has."""
    source = kafka_source() if mode == "R" else RATE
    any_sql = {"sql": "SELECT count(*) FROM source"}
    spec: StreamSpec = stream(source, {"memory": {}}, transform=any_sql, **MODES[mode]).spec
    try:
        query.check(frame, spec)
    except (AnalysisException, QueryNotPossible) as error:
        return str(error)
    return ""
