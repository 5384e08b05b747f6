"""What a driver takes from its stream while it runs: live fields, and edits to judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from penstock.api.v1alpha1.changes import Change, change_of
from penstock.api.v1alpha1.restart import Restart
from penstock.cluster.rest import ApiError
from penstock.cluster.stream import Stream
from penstock.driver.failures import Failure
from penstock.driver.kubernetes import followed_stream
from penstock.driver.kubernetes.followed_stream import FollowedStream, Live
from testkit.streams.crd_schema import nodes, schema
from testkit.streams.streams import RATE_TO_CONSOLE, manifest

MISSING = Failure("TableOrViewNotFound", "no table", permanent=True)
EDITED: dict[str, Any] = {
    "observability": {"logLevel": "DEBUG"},
    "restart": {"maxAttempts": 3, "stableAfter": "5m"},
}
LIVE = Live("DEBUG", Restart.model_validate(EDITED["restart"]))
FOLLOWED = [
    path.removeprefix("spec.")
    for path, node in nodes(schema()["properties"]["spec"], "spec")
    if "properties" not in node
    and change_of(path.removeprefix("spec.")) is Change.LIVE
    and not path.startswith("spec.checkpoint.volume")
]


def stream(generation: int = 1, **spec: Any) -> Stream:
    found = manifest("numbers", {**RATE_TO_CONSOLE, **spec})
    found["metadata"]["generation"] = generation
    return Stream(found)


def answers(*made: Failure | Exception | None) -> Callable[[Stream], Failure | None]:
    """A judge that answers so, one call after another, and no more often."""
    left = iter(made)

    def judge(_: Stream) -> Failure | None:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return judge


def test_live_fields_are_followed_also_to_their_defaults() -> None:
    followed, judge = FollowedStream(), answers(None)
    seen = []
    for spec in (EDITED, EDITED, {}):
        followed.refresh(lambda: stream(**spec), judge)  # noqa: B023
        seen.append((followed.live.log_level, followed.live.restart.max_attempts))
    assert seen == [("DEBUG", 3), ("DEBUG", 3), (None, None)]


def test_the_first_look_is_over_before_the_driver_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its document has no live fields: without it, a driver that may not try again would."""
    monkeypatch.setattr(followed_stream, "threading", Mock())  # no thread runs
    followed = FollowedStream()
    followed.follow(lambda: stream(**EDITED), answers())
    assert followed.live == LIVE


def test_an_invalid_spec_changes_nothing() -> None:
    """Such as one of a newer version, with a word that this image does not know."""
    followed, judge = FollowedStream(LIVE), answers(ValueError("no spec"))
    followed.refresh(lambda: stream(observability={"logLevel": "TRACE"}), judge)
    assert followed.live == LIVE


def test_a_field_of_a_newer_version_hides_no_other() -> None:
    followed = FollowedStream()
    followed.look(lambda: stream(**EDITED, fieldOfTheFuture={"any": "thing"}))
    assert followed.live == LIVE


@pytest.mark.parametrize("path", FOLLOWED)
def test_a_driver_follows_each_live_field(path: str) -> None:
    """Except those of the volume, which only the operator uses."""
    *parents, field = path.split(".")
    spec: dict[str, Any] = {parents[0]: {field: EDITED[parents[0]][field]}}
    followed = FollowedStream()
    followed.look(lambda: stream(**spec))
    assert followed.live != Live()


def test_without_an_answer_all_stays() -> None:
    def ask() -> Stream:
        raise ApiError(403, "Forbidden")

    followed = FollowedStream(LIVE)
    followed.refresh(ask, answers())
    assert followed.live == LIVE
    assert followed.verdict is None


def test_each_generation_is_judged_once() -> None:
    followed, judge = FollowedStream(), answers(None, MISSING)
    for generation in (1, 1, 2, 2):
        followed.refresh(lambda: stream(generation), judge)  # noqa: B023
    assert followed.verdict is not None
    assert followed.verdict.generation == 2
    assert followed.verdict.refusal is not None
    assert followed.verdict.refusal.reason == "TableOrViewNotFound"


def test_what_cannot_be_judged_now_is_judged_later() -> None:
    """The operator does not take the verdict on another generation for an answer."""
    followed, judge = FollowedStream(), answers(None, RuntimeError("Spark does not run"), None)
    seen = []
    for generation in (1, 2, 2):
        followed.refresh(lambda: stream(generation), judge)  # noqa: B023
        assert followed.verdict is not None
        seen.append(followed.verdict.generation)
    assert seen == [1, 1, 2]


def test_a_refused_edit_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs may be created. The same refusal is not reported with another time."""
    monkeypatch.setattr(followed_stream, "_JUDGE_AGAIN_SECONDS", 0.0)
    followed, judge = FollowedStream(), answers(MISSING, MISSING, None)
    seen = []
    for _ in range(3):
        followed.refresh(stream, judge)
        seen.append(followed.verdict)
    assert seen[0] is seen[1]
    assert seen[2] is not None
    assert seen[2].refusal is None
    followed.refresh(stream, answers())  # what is taken is taken
