"""Texts as Hypothesis makes them: SQL that is nearly right, and anything else."""

from __future__ import annotations

from hypothesis import strategies as st

from testkit.streams.compositions import STAGES

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
        st.builds("named_struct('a', {}, 'b', {}).a.b".format, inner, inner),
        st.builds("{}['a'].*".format, inner),
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
