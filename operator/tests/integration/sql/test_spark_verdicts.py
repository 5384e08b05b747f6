"""Our verdict on every query of the table is Spark's own, in every mode."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from penstock.sql import operations
from penstock.sql.spark_functions import operation_of
from testkit.driver.spark_verdicts import ENGINES
from testkit.paths import CHECKOUT
from testkit.streams.queries import QUERIES, WATERMARKED

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Spark says, from one session for all queries, in a process of its own."""
    target = tmp_path_factory.mktemp("verdicts") / "verdicts.json"
    done = subprocess.run(
        [sys.executable, "-m", "testkit.driver.spark_verdicts", str(target)],
        cwd=CHECKOUT / "operator",
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(target.read_text())
    return result


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def test_the_table_is_what_spark_says(spark: dict[str, Any]) -> None:
    """For each query and each engine: taken, or refused."""
    wrong = []
    rows = [("", query) for query in QUERIES] + [("watermark: ", query) for query in WATERMARKED]
    for prefix, query in rows:
        for engine in ENGINES:
            if prefix and engine in "CS":
                continue
            refusal = spark["takes"][prefix + query.sql][engine]
            if (refusal is None) != (engine in query.takes):
                wrong.append((engine, prefix + query.sql, refusal))
    assert wrong == []
    assert len(rows) >= 80


def test_what_the_check_says_is_what_a_start_says(spark: dict[str, Any]) -> None:
    """Enough were really started, in each engine, that ran and that did not."""
    ran = dict.fromkeys(ENGINES, 0)
    failed = 0
    for key, engine in spark["started"]:
        if spark["takes"][key][engine] is None:
            ran[engine] += 1
        else:
            failed += 1
    assert min(ran[engine] for engine in "CAUSR") >= 3
    assert ran["M"] >= 1
    assert failed >= 40


# Where Spark's own grouping says something else than what the function is; and functions that are
# nothing without OVER.
_GROUPS = {"json_tuple": "generator_funcs", "schema_of_variant_agg": "agg_funcs", "measure": ""}


def test_every_function_of_spark_is_known_for_what_it_is(spark: dict[str, Any]) -> None:
    """Each aggregate and each generator of Spark's registry, and nothing else."""
    wrong = []
    for name, group in spark["groups"].items():
        try:
            (node,) = sqlglot.parse_one(f"SELECT {name}(a) FROM source", read="spark").expressions
        except Exception:
            continue  # a function that takes no single argument
        ours = operation_of(node, frozenset()) if isinstance(node, exp.Expr) else None
        group = _GROUPS.get(name, group)
        if group == "window_funcs":
            continue
        if (ours is operations.AGGREGATE) != (group == "agg_funcs"):
            wrong.append((name, group, type(node).__name__))
        if (ours is operations.GENERATE) != (group == "generator_funcs"):
            wrong.append((name, group, type(node).__name__))
    assert wrong == []
