"""Texts of tenants are judged in a process that is bounded in time and memory."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.api.v1alpha1 import StreamSpec
from penstock.validation.text_sandbox import Judge
from penstock.validation.text_sandbox_process import problems_of_texts
from testkit.streams.streams import KAFKA_TO_KAFKA, changed

GOOD = StreamSpec.model_validate(KAFKA_TO_KAFKA)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """A judge with one worker, which all tests share."""
    judge = Judge(workers=1)
    yield judge
    judge.close()


def with_sql(sql: str, **fields: Any) -> StreamSpec:
    return StreamSpec.model_validate({**KAFKA_TO_KAFKA, "transform": {"sql": sql, **fields}})


def with_python(text: str) -> StreamSpec:
    transform = {"python": {"function": "m:f", "inline": text}}
    return StreamSpec.model_validate({**KAFKA_TO_KAFKA, "transform": transform})


def with_near_function(fields: dict[str, Any]) -> StreamSpec:
    """An error, but not where a jar or an extension may bring the function."""
    sql = "SELECT from_jsn(key) AS value FROM source"
    return StreamSpec.model_validate({**KAFKA_TO_KAFKA, "transform": {"sql": sql}, **fields})


def limited(setting: str) -> Judge:
    """A judge with one worker and another limit."""
    start = f"import penstock.validation.text_sandbox_process as w; w.{setting}; w.main()"
    return Judge(1, (sys.executable, "-P", "-c", start))


def pid_of(judge: Judge) -> int | None:
    """The process of its only worker."""
    worker = judge._workers.get()
    judge._workers.put(worker)
    return None if worker._process is None else worker._process.pid


@pytest.mark.parametrize(
    "spec",
    [
        GOOD,
        with_sql("SELECT DISTINCT value FROM source"),
        with_sql("SELECT (( FROM"),
        with_python("def g(): pass"),
        StreamSpec.model_validate(changed(KAFKA_TO_KAFKA, "sink.kafka.topic", ...)),
        with_near_function({}),
        with_near_function({"dependencies": {"jars": ["local:///opt/jars/more.jar"]}}),
        with_near_function({"sparkConf": {"spark.sql.extensions": "a.B"}}),
    ],
)
def test_the_worker_gives_the_same_verdict(judge: Judge, spec: StreamSpec) -> None:
    assert judge.judge(spec) == problems_of_texts(spec)


def test_a_worker_that_ends_before_it_reads_gives_no_verdict() -> None:
    """And the next one is asked again: only an end that the text causes is remembered."""
    judge = Judge(1, ("false",))
    for _ in range(2):
        (verdict,) = judge.judge(GOOD)
        assert (verdict.reason, verdict.severity) == ("NotJudged", "notice")
        assert verdict.transient
    judge.close()


def test_a_verdict_is_remembered(judge: Judge) -> None:
    """An edit of what it does not depend on asks no worker."""
    verdict = judge.judge(GOOD)
    pid = pid_of(judge)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    edited = {**KAFKA_TO_KAFKA, "executor": {"cores": 7}}
    assert judge.judge(StreamSpec.model_validate(edited)) == verdict
    assert pid_of(judge) == pid


def test_the_issues_bomb_is_refused(judge: Judge) -> None:
    """60 kB of a+a+... took 13 s in the operator's event loop, at each look."""
    verdict = judge.judge(with_sql(f"SELECT {'a+' * 29_000}a AS value FROM source"))
    assert [each.reason for each in verdict] == ["QueryTooLarge"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " AS value FROM source",
        "SELECT " + "CASE WHEN true THEN " * 300 + "1" + " END" * 300 + " AS value FROM source",
    ],
)
def test_deep_nesting_is_refused(judge: Judge, sql: str) -> None:
    verdict = judge.judge(with_sql(sql))
    assert [each.reason for each in verdict] == ["QueryTooLarge"]


@pytest.mark.parametrize("word", ["NOT ", "- ", "~ "])
def test_recursion_without_brackets_is_not_judged(judge: Judge, word: str) -> None:
    """Never a RecursionError."""
    verdict = judge.judge(with_sql(f"SELECT {word * 15_000} true AS value FROM source"))
    assert [each.reason for each in verdict] == ["NotJudged"]


def test_the_functions_that_a_query_calls_count_as_well(judge: Judge) -> None:
    functions = [
        {"name": f"f{i}", "returns": "INT", "expression": f"{'1+' * 4_000}f{i + 1}()"}
        for i in range(6)
    ]
    verdict = judge.judge(with_sql("SELECT f0() AS value FROM source", functions=functions))
    assert [each.reason for each in verdict] == ["QueryTooLarge"]
    assert "spec.transform.functions[2].expression" in verdict[0].message


# The limit counts these pages of the kernel, in KiB.
DATA_NOW = "1024 * int(open('/proc/self/status').read().split('VmData:')[1].split()[0])"


def test_a_worker_out_of_memory_ends_and_the_next_text_gets_another() -> None:
    """Enough for the request, and not for its parser."""
    judge = limited(f"MAX_DATA_BYTES = (4 << 20) + {DATA_NOW}")
    try:
        for name in ("offset", "partition"):
            verdict = judge.judge(with_sql(f"SELECT {f'{name} + ' * 5_000} 1 AS value FROM source"))
            assert [each.reason for each in verdict] == ["NotJudged"]
            assert "MiB" in verdict[0].message
    finally:
        judge.close()


def test_deep_python_is_not_judged(judge: Judge) -> None:
    verdict = judge.judge(with_python("x = " + "-" * 60_000 + "1"))
    assert [each.reason for each in verdict] == ["NotJudged"]


@pytest.mark.proves("decisions/bounded-tenants.md")
def test_processor_time_is_bounded_by_the_kernel() -> None:
    """Also in C code; the verdict is remembered, since the text would take as long again."""
    judge = limited("MAX_CPU_SECONDS = 0.01")
    slow = with_sql(f"SELECT {'offset + ' * 5_000} 1 AS value FROM source")
    try:
        verdict = judge.judge(slow)
        assert "of a processor" in verdict[0].message
        assert judge.judge(slow) is verdict
    finally:
        judge.close()


def test_a_worker_that_somebody_killed_is_started_again(judge: Judge) -> None:
    judge.judge(with_sql("SELECT 1 AS value FROM source"))
    pid = pid_of(judge)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    spec = with_sql("SELECT 2 AS value FROM source")
    assert judge.judge(spec) == problems_of_texts(spec)
    assert pid_of(judge) != pid
