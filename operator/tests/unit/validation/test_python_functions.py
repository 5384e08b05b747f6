"""The Python of a transform is judged from its text: nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.validation.python_functions import judge_python
from testkit.paths import CHECKOUT
from testkit.streams.streams import KAFKA_TO_KAFKA

GOOD = "def f(source):\n    return source.select('value')\n"


def verdict(text: str, name: str = "f", **fields: Any) -> list[Problem]:
    """The verdict on the text of a module; fields of the spec are by default continuous."""
    transform = {"python": {"function": f"m:{name}", "inline": text}}
    return judge_python(
        StreamSpec.model_validate({**KAFKA_TO_KAFKA, "transform": transform, **fields})
    )


REFUSED = [
    ("def f(source)\n    return source", "inline, line 1, column 14: expected ':'"),
    ("  def f(source): return source", "unexpected indent"),
    ("x = 9" + "9" * 5000, "4300 digits"),
    ("x = '\0'", "null bytes"),
    ("def g(source): return source", "the text of inline has no f: it has g"),
    ("def clean(source): return source\nf1 = 2", "has no f"),
    ("def outer():\n    def f(source): return source", "has no f"),
    ("def f(): return 1", "f must take one argument"),
    ("def f(a, b): return a", "f must take one argument"),
    ("def f(*, source): return source", "f must take one argument"),
    ("def f(a, *, b): return a", "f must take one argument"),
    ("def f(source):\n    source.select('value')", "f returns nothing"),
    ("def f(source):\n    yield source", "f returns nothing"),
    ("def f(source):\n    def g(): return 1\n    source.where('a')", "f returns nothing"),
    ("async def f(source): return source", "f must not be async"),
    ("def f(source):\n    return source.writeStream.start()", "so writeStream cannot be used here"),
    (
        "def w(b, n): pass\ndef f(s):\n    q = s.writeStream\n    return q.foreachBatch(w)",
        "name their destination in spec.sink. To write each batch with a function",
    ),
]
ACCEPTED = [
    GOOD,
    "def f(source, limit=3): return source",
    "def f(*frames): return frames[0]",
    "def f(source, /): return source",
    "f = lambda source: source",
    "from mine import f",
    "from mine import *",
    "from mine import clean as f",
    "import mine\nf = mine.make()",
    "if True:\n    def f(source): return source\nelse:\n    def f(): pass",
    "import functools\n@functools.cache\ndef f(): pass",
    "class f:\n    def __new__(cls, source): return source",
    "globals()['f'] = lambda source: source",
    "exec('f = 1')",
    "try:\n    from mine import f\nexcept ImportError:\n    f = None",
    "def f(source): raise ValueError('not yet')",
    "(f := lambda source: source)",
    "f, g = make()",
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_cannot_work_is_refused(text: str, says: str) -> None:
    """A syntax error, a missing function, one that takes or returns the wrong thing."""
    (refusal,) = verdict(text)
    assert refusal.reason == "PythonFailed"
    assert says in refusal.message


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_may_work_is_accepted(text: str) -> None:
    assert all(problem.severity == "warning" for problem in verdict(text))


def test_a_near_miss_is_suggested() -> None:
    (refusal,) = verdict("def clean(source): return source", "claen")
    assert "did you mean clean?" in refusal.message


@pytest.mark.parametrize(
    "text",
    [
        "from pyspark.sql.functions import udf",
        "from pyspark.sql import functions as F\n@F.pandas_udf('int')\ndef g(x): return x",
        "def g(s): return s.mapInPandas(g, 'a INT')",
        "def g(s): s.sparkSession.udf.register('n', len)",
    ],
)
def test_a_udf_is_a_warning_with_its_line(text: str) -> None:
    """In continuous and real-time mode; micro-batches wait anyway."""
    both = f"{GOOD}{text}"
    (slow,) = verdict(both)
    assert slow.reason == "PythonInContinuousMode"
    assert f"inline, line {3 + text.count(chr(10), 0, text.find('udf'))}" in slow.message or (
        "inline, line 3" in slow.message
    )
    (refused,) = verdict(both, trigger={"realTime": {}})
    assert refused.reason == "PythonInRealTimeMode"
    assert verdict(both, trigger={"microBatch": {}}) == []


def test_native_expressions_are_no_warning() -> None:
    """The shipped example, and each that imports nothing but pyspark and Python's own modules."""
    example = yaml.safe_load(Path(CHECKOUT, "examples/python-transform.yaml").read_text())
    assert judge_python(StreamSpec.model_validate(example["spec"])) == []
    assert verdict(f"import json\n{GOOD}") == []


def test_a_module_of_somebody_else_may_bring_a_udf() -> None:
    (warning,) = verdict(f"import mine.udfs\n{GOOD}")
    assert "it imports mine" in warning.message


def test_an_image_of_the_users_own_may_have_a_newer_python() -> None:
    """Its syntax is not judged by ours."""
    found = verdict("def f[T](source: T) -> T: return source!", image="example.com/mine:1")
    assert [each.reason for each in found] == ["NotJudged"]


@pytest.mark.parametrize(
    "text", ["x = " + "(" * 10_000, "x = a" + ".a" * 20_000, "x = " + "a+" * 20_000 + "1"]
)
def test_deep_text_is_refused_or_not_judged(text: str) -> None:
    """Never a RecursionError."""
    found = verdict(text)
    assert found


WRITES = "def f(rows, batch):\n    try:\n        rows.write.save('a')\n    except %s:\n        %s\n"


def of_sink(text: str) -> list[Problem]:
    sink = {"python": {"function": "m:f", "inline": text}}
    fields = {**KAFKA_TO_KAFKA, "transform": {}, "sink": sink, "trigger": {"microBatch": {}}}
    return judge_python(StreamSpec.model_validate(fields))


@pytest.mark.parametrize("caught", ["Exception as e", "BaseException", "(OSError, Exception)"])
def test_a_sink_that_goes_on_after_any_exception_gets_a_warning(caught: str) -> None:
    (problem,) = of_sink(WRITES % (caught, "print(1)"))
    assert (problem.reason, problem.severity) == ("BatchErrorIgnored", "warning")
    assert "f goes on after any exception (line 4). If that is one of" in problem.message
    assert (problem.text_line, problem.text_column) == (4, 5)
    assert of_sink(WRITES % (caught, "raise")) == []


@pytest.mark.parametrize(
    "text",
    [
        WRITES % ("ValueError", "pass"),
        WRITES % ("Exception as e", "error = e\n    if error: raise error"),
        "def f(rows, *more): pass",
        "def f(rows, batch, retries=3): return rows",
        "f = lambda rows, batch: rows.collect()",
        "def f(rows, batch): pass\n\nif __name__ == '__main__':\n"
        "    spark.readStream.load().writeStream.foreachBatch(f).start()",
        "def f(rows, batch): pass\ndef main():\n    frame.writeStream.foreachBatch(f).start()",
        "def f(rows, batch):\n    def g(it):\n        yield from it\n    rows.foreachPartition(g)",
    ],
)
def test_a_sink_that_may_work_is_accepted(text: str) -> None:
    assert of_sink(text) == []


def test_a_sink_that_starts_a_query_is_refused() -> None:
    for text in (
        "def f(rows, batch):\n    rows.writeStream.start()",
        "def f(rows, batch): pass\nframe.writeStream.foreachBatch(f).start()",
    ):
        (problem,) = of_sink(text)
        assert "cannot be used here: write the rows of the batch" in problem.message
