"""Any text at all gets a verdict: no exception, and bounded work."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.judge import judge_sql
from penstock.validation.python_functions import judge_python
from testkit.streams.streams import KAFKA_TO_KAFKA, MICRO_BATCH
from testkit.streams.texts import EXPRESSIONS, TEXTS


def verdict(sql: str, **transform: Any) -> None:
    """Judges a query in two modes."""
    for trigger in (KAFKA_TO_KAFKA["trigger"], MICRO_BATCH):
        fields = {**KAFKA_TO_KAFKA, "trigger": trigger, "transform": {"sql": sql, **transform}}
        try:
            spec = StreamSpec.model_validate(fields)
        except ValidationError:
            return  # not valid Unicode
        judge_sql(spec)


@settings(max_examples=250)
@given(TEXTS)
def test_any_sql_gets_a_verdict(sql: str) -> None:
    """An exception would make the stream NotJudged, and its traceback fill the operator's log."""
    verdict(sql)


def test_a_name_that_the_select_gives_itself_has_an_end() -> None:
    verdict("SELECT timestamp AS a, c AS d, d.a AS c, a.d AS timestamp FROM source GROUP BY d.c")


@settings(max_examples=60)
@given(EXPRESSIONS, EXPRESSIONS)
def test_any_bodies_of_functions_get_a_verdict(one: str, other: str) -> None:
    """Also of functions that call each other."""
    functions = [
        {"name": "f", "returns": "INT", "expression": f"g() + {one}"},
        {"name": "g", "returns": "STRING", "expression": f"f({other})"},
    ]
    verdict("SELECT f() AS value FROM source", functions=functions)


@settings(max_examples=100)
@given(
    st.one_of(
        st.text(min_size=1, max_size=300),
        st.lists(
            st.sampled_from(
                ("def f(a):", "\n", "  ", "return a", "(", "[", "import x", "@", "9" * 99)
            ),
            min_size=1,
            max_size=40,
        ).map("".join),
        st.builds(
            lambda word, n: word * n, st.sampled_from(("(", "-", "a.", "a+")), st.integers(1, 9000)
        ),
    )
)
def test_any_python_gets_a_verdict(text: str) -> None:
    transform = {"python": {"function": "m:f", "inline": text}}
    try:
        spec = StreamSpec.model_validate({**KAFKA_TO_KAFKA, "transform": transform})
    except ValidationError:
        return
    judge_python(spec)
