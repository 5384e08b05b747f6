"""Any text at all gets a verdict: no exception, and bounded work."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.refusals import NOT_JUDGED, judge_sql
from penstock.validation.texts.python_text import judge_python
from testkit.streams.compositions import STAGES
from testkit.streams.streams import KAFKA_TO_KAFKA, MICRO_BATCH

WORDS = (
    *("SELECT", "FROM", "source", "WHERE", "key", ",", "(", ")", "count", "window", "over", "any"),
    *("UNION", "ALL", "JOIN", "ON", "a", "b", "1", "GROUP", "BY", "LATERAL", "VIEW", "explode"),
    *("PIVOT", "LIMIT", "ORDER", "WITH", "AS", "DISTINCT", "*", "|>", ";", "STREAM", "IDENTIFIER"),
    *("'source'", "`", "/*+", "*/", "--", "CASE", "END", "x ->", "current_date", "[", "]", "."),
    *("INTERVAL", "'1 hour'", "TABLE", "HAVING", "EXCEPT", "ROLLUP", "\\", "$$", "\x00", "\ud7ff"),
)
# Expressions and relations that fit into each other, also where Spark would refuse it.
EXPRESSIONS = st.recursive(
    st.sampled_from(
        ("key", "s.value", "1", "'a'", "nothing", "current_date", "now()", "*", "NULL")
    ),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds(
            "{}({})".format, st.sampled_from(("any", "max", "explode", "f", "window")), inner
        ),
        st.builds("CASE WHEN {} THEN {} END".format, inner, inner),
        st.builds("CAST({} AS STRUCT<a: INT>).a".format, inner),
        st.builds("transform(array({}), x -> {})".format, inner, inner),
        st.builds("({} IN (SELECT {} FROM source))".format, inner, inner),
        st.builds("window({}, {}, {})".format, inner, inner, inner),
        st.builds("{} OVER (PARTITION BY {})".format, inner, inner),
    ),
    max_leaves=12,
)
QUERIES = st.recursive(
    st.sampled_from(("SELECT * FROM source s", "TABLE source", "SELECT 1", "VALUES (1), (2)")),
    lambda inner: st.one_of(
        st.builds("SELECT {}, {} AS value FROM ({}) s".format, EXPRESSIONS, EXPRESSIONS, inner),
        st.builds("SELECT {} FROM ({}) GROUP BY {}".format, EXPRESSIONS, inner, EXPRESSIONS),
        st.builds("{} UNION {}".format, inner, inner),
        st.builds("WITH c(a) AS ({}) {}".format, inner, inner),
        st.builds("SELECT * FROM ({}) l LEFT JOIN ({}) r ON {}".format, inner, inner, EXPRESSIONS),
        st.sampled_from(STAGES).flatmap(lambda stage: inner.map(lambda q: stage.format(q=q))),
    ),
    max_leaves=5,
)
TEXTS = st.one_of(
    st.text(min_size=1, max_size=300),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join),
    QUERIES,
    st.builds(
        lambda word, times, query: (word * times + query)[:65_536],
        st.sampled_from(("(", "NOT ", "CASE WHEN ", "a.", "[", "- ", "/*", "SELECT (", "f(")),
        st.integers(1, 5_000),
        QUERIES,
    ),
)


def verdict(sql: str, **transform: Any) -> None:
    """Judges a query in two modes."""
    for trigger in (KAFKA_TO_KAFKA["trigger"], MICRO_BATCH):
        fields = {**KAFKA_TO_KAFKA, "trigger": trigger, "transform": {"sql": sql, **transform}}
        try:
            spec = StreamSpec.model_validate(fields)
        except ValidationError:
            return  # not valid Unicode
        found = judge_sql(spec)
        assert all(each.reason == NOT_JUDGED for each in found.not_judged)


@settings(deadline=None, max_examples=250)
@given(TEXTS)
def test_any_sql_gets_a_verdict(sql: str) -> None:
    """An exception would make the stream NotJudged, and its traceback fill the operator's log."""
    verdict(sql)


@settings(deadline=None, max_examples=60)
@given(EXPRESSIONS, EXPRESSIONS)
def test_any_bodies_of_functions_get_a_verdict(one: str, other: str) -> None:
    """Also of functions that call each other."""
    functions = [
        {"name": "f", "returns": "INT", "expression": f"g() + {one}"},
        {"name": "g", "returns": "STRING", "expression": f"f({other})"},
    ]
    verdict("SELECT f() AS value FROM source", functions=functions)


@settings(deadline=None, max_examples=100)
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
