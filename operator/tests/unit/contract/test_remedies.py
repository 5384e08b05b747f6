"""Every reason that operator or driver can write has a remedy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from penstock.api.v1alpha1.status import StreamState
from penstock.contract.checkpoint_repairs import RepairKind
from penstock.contract.reason_table import ROWS
from penstock.contract.remedies import BY_STATE, REMEDIES, remedy_for
from testkit.paths import CHECKOUT

PACKAGE = CHECKOUT / "operator" / "penstock"
# What is created with a reason, and the place of the reason among the arguments.
_WITH_REASON = {
    "Assessment": 1,
    "Failure": 0,
    "LastFailure": None,
    "NotApplied": 0,
    "Problem": 0,
    "Rule": 1,
    "StreamEvent": 1,
}


@cache
def _trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]


@cache
def _constants() -> dict[str, str]:
    """The texts that modules name, by their names."""
    return {
        target.id: node.value.value
        for tree in _trees()
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }


def _reasons_in(call: ast.Call) -> Iterator[str]:
    place = _WITH_REASON.get(getattr(call.func, "id", ""), -1)
    named = [each.value for each in call.keywords if each.arg == "reason"]
    positional = call.args[place : place + 1] if place is not None and place >= 0 else []
    if place == -1:
        return
    for argument in named or positional:
        for node in ast.walk(argument):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.Name) and node.id in _constants():
                yield _constants()[node.id]


def written_reasons() -> set[str]:
    """The reasons that the code spells out."""
    calls = (node for tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {reason for call in calls for reason in _reasons_in(call)}


def test_every_reason_in_the_code_has_a_row() -> None:
    """A new reason without one fails here."""
    found = written_reasons()
    assert {"TopicMissing", "DriverNodeUnreachable", "NoProgress", "ApplyRefused"} <= found
    assert found - set(REMEDIES) == set()


def test_no_reason_has_two_rows() -> None:
    named = [reason for row in ROWS for reason in row.reasons.split()]
    assert sorted(named) == sorted(set(named))


@pytest.mark.parametrize("state", StreamState)
def test_every_state_has_a_remedy_for_every_reason(state: StreamState) -> None:
    """Also for Spark's error conditions, which no table lists; with a whole command."""
    assert set(BY_STATE) == set(StreamState)
    for reason in (*REMEDIES, *map(str, RepairKind), "DivideByZero", ""):
        remedy = remedy_for(reason, state)
        assert remedy.meaning.endswith("."), reason
        assert remedy.action.endswith("."), reason
        command = remedy.command_for("payments", "flags")
        assert "{name}" not in command
        assert "{namespace}" not in command


@pytest.mark.parametrize(
    "reason",
    [
        "TopicMissing",
        "KafkaAuthentication",
        "ForeignObject",
        "BucketNotFound",
        "ObjectStoreDenied",
        "ObjectStoreUnsafe",
        "ModuleMissing",
        "ImageNotUsable",
        "ImagePullBackOff",
    ],
)
def test_what_lies_outside_the_spec_is_looked_at_before_the_spec_is_edited(reason: str) -> None:
    """At night a person runs the command that is offered."""
    command = REMEDIES[reason].command_for("payments", "flags")
    assert command.startswith(("kubectl get ", "kubectl describe "))


def test_a_state_of_a_later_version_has_a_remedy() -> None:
    assert remedy_for("DivideByZero", "Hibernating").action
    assert remedy_for("DivideByZero", None).action
