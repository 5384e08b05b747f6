"""What of a query's plan lets a batch that runs again make other rows.

Beside test_exactly_once.py, where Spark makes the plans.
"""

from __future__ import annotations

import pytest

from penstock.driver.spark.replays import (
    ExpressionFact,
    Operator,
    Plan,
    find_problem,
    writing_tasks,
)

STATEFUL = frozenset({"Aggregate"})


def _read(name: str, *, streaming: bool) -> list[Operator]:
    return [
        Operator(name=name, isStreaming=streaming, isOfOneGroup=False, expressions={}, children=[])
    ]


SOURCE = _read("StreamingRelationV2", streaming=True)
TABLE = _read("LocalRelation", streaming=False)


def above(
    name: str, *children: Plan, expressions: tuple[str, ...] = (), one_group: bool = False
) -> Plan:
    """An operator of deterministic expressions, but for those whose names begin with R."""
    placed: list[Operator] = []
    places = []
    for child in children:
        moved = len(placed)
        placed += [
            it.model_copy(update={"children": [moved + place for place in it.children]})
            for it in child
        ]
        places.append(len(placed) - 1)
    made = Operator(
        name=name,
        isStreaming=any(child[-1].is_streaming for child in children),
        isOfOneGroup=one_group,
        expressions={
            each: ExpressionFact(text=each.lower(), isDeterministic=not each.startswith("R"))
            for each in expressions
        },
        children=places,
    )
    return [*placed, made]


COUNT = above("Aggregate", SOURCE, expressions=("Count",))


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (COUNT, None),
        (above("Project", above("Filter", COUNT), expressions=("Cast",)), None),
        (above("UpdateEventTimeWatermarkColumn", COUNT), None),
        (above("Join", SOURCE, SOURCE), None),
        (above("Aggregate", above("Union", SOURCE, SOURCE)), None),
        (above("Aggregate", above("Join", SOURCE, above("GlobalLimit", TABLE))), None),
        (above("Aggregate", above("RepartitionByExpression", SOURCE, expressions=("A",))), None),
        (above("Union", COUNT, SOURCE), "Union above it"),
        (above("Sort", COUNT), "Sort above it"),
        (above("Join", COUNT, TABLE), "Join above it"),
        (above("Project", SOURCE), "StreamingRelationV2 above it"),
        (above("Aggregate", above("RepartitionByExpression", SOURCE)), "a repartition"),
        (above("Aggregate", above("GlobalLimit", SOURCE)), "LIMIT"),
        (above("Aggregate", SOURCE, expressions=("Rand",)), "rand gives another"),
        (above("Aggregate", SOURCE, expressions=("CollectSet",)), "collectset goes by"),
        (above("Project", COUNT, expressions=("Now",)), "now is the time of an attempt"),
        (above("Aggregate", SOURCE, expressions=("PythonUDF",)), "(pythonudf)"),
        (above("MapElements", COUNT), "(MapElements)"),
    ],
)
def test_a_batch_may_make_other_rows(plan: Plan, says: str | None) -> None:
    problem = find_problem(plan, STATEFUL, is_promised=False)
    assert (problem is None) if says is None else says in (problem or "")


def test_what_the_user_promises() -> None:
    own = above("Aggregate", SOURCE, expressions=("PythonUDF",))
    assert find_problem(own, STATEFUL, is_promised=True) is None
    random = above("Aggregate", SOURCE, expressions=("PythonUDF", "Rand"))
    assert find_problem(random, STATEFUL, is_promised=True) is not None


def test_how_many_tasks_write() -> None:
    assert writing_tasks(above("Project", COUNT), 4) == 4
    assert writing_tasks(above("Aggregate", COUNT, one_group=True), 4) == 1
