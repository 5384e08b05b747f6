"""The table of queries and the functions of the parser agree with Spark itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.sql import supported_operations as op
from penstock.sql.function_operations import operation_of
from testkit.driver.spark_verdicts import ROWS, compositions, key_of, refused_here
from testkit.paths import CHECKOUT
from testkit.streams.kafka_rows import ASKED, REFUSED_HERE, TAKEN, TAKEN_WITH_TOPIC

pytestmark = [pytest.mark.timeout(900), pytest.mark.proves(20, "modes.md")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of `testkit.driver.spark_verdicts`: one Spark session for all queries.

    PENSTOCK_SEEDS=2,3 composes others, to find what the tables lack.
    """
    target = tmp_path_factory.mktemp("verdicts") / "verdicts.json"
    seeds = [int(seed) for seed in os.environ.get("PENSTOCK_SEEDS", "1").split(",")]
    done = subprocess.run(
        [sys.executable, "-m", "testkit.driver.spark_verdicts", str(target), *map(str, seeds)],
        cwd=CHECKOUT / "operator",
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(target.read_text())
    return {**result, "seeds": seeds}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}


def test_the_table_holds_the_verdicts_of_spark(spark: dict[str, Any]) -> None:
    """For each query and each execution: accepted or refused."""
    wrong = []
    for query, watermark, letters in ROWS:
        key = key_of(query, watermark)
        for letter in letters:
            refusal = spark["refusals"][key][letter]
            accepted = letter in query.accepted_by or letter in query.refused_by_penstock_only
            if (refusal is None) != accepted:
                wrong.append((letter, key, refusal))
    assert wrong == []


def test_random_compositions_are_judged_as_spark_judges_them(spark: dict[str, Any]) -> None:
    """None that it accepts is refused. Of those that it refuses few are left to it: where a value
    that carries the watermark has the name of one that does not.
    """
    print(f"compositions of the seeds {spark['seeds']}")  # pytest shows it if the test fails
    wrong = []
    for query, watermark, letters in compositions(spark["seeds"]):
        for letter in letters:
            refusal = spark["refusals"][key_of(query, watermark)][letter]
            ours = refused_here(query, letter, watermark)
            is_left = refusal is not None and not ours
            if (ours and refusal is None) or (is_left and not watermark):
                wrong.append((letter, watermark, query.sql, refusal, ours))
    assert wrong == []


def test_sparks_kafka_writer_takes_the_columns_that_the_table_says(spark: dict[str, Any]) -> None:
    """KafkaWriter.validateQuery judges the columns of Spark's own plan."""
    taken = {(sql, topic): refusal is None for sql, topic, refusal in spark["kafka"]}
    assert taken == {
        (sql, topic): sql in TAKEN
        or (sql in (*TAKEN_WITH_TOPIC, *REFUSED_HERE) and topic is not None)
        for sql, topic in ASKED
    }


# Functions that Spark puts into a wrong group, or that need OVER.
_GROUPS = {"json_tuple": "generator_funcs", "schema_of_variant_agg": "agg_funcs", "measure": ""}


def test_every_aggregate_and_generator_of_spark_is_known(spark: dict[str, Any]) -> None:
    """No other function of Spark's registry is taken for one."""
    wrong = []
    for name, group in spark["groups"].items():
        node = _call(name)
        if node is None:
            continue
        ours = operation_of(node, frozenset())
        group = _GROUPS.get(name, group)
        if group == "window_funcs":
            continue
        if (ours is op.AGGREGATE) != (group == "agg_funcs"):
            wrong.append((name, group, type(node).__name__))
        if (ours is op.GENERATE) != (group == "generator_funcs"):
            wrong.append((name, group, type(node).__name__))
    assert wrong == []


def _call(name: str) -> exp.Expr | None:
    """A call of the function; None if the parser knows it and it takes no single argument."""
    for arguments in ("a", "a, b", ""):
        try:
            (node,) = sqlglot.parse_one(
                f"SELECT {name}({arguments}) FROM source", read="spark"
            ).expressions
        except (SqlglotError, ValueError, LookupError):  # sqlglot raises more than its own errors
            continue
        return node if isinstance(node, exp.Expr) else None
    return None
