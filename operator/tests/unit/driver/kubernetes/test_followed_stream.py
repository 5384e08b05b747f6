"""What a driver takes from its stream while it runs: the log level, and edits to judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.cluster.rest import ApiError
from penstock.cluster.stream import Stream
from penstock.driver.failures import Failure
from penstock.driver.kubernetes import followed_stream
from penstock.driver.kubernetes.followed_stream import FollowedStream

MISSING = Failure("TableOrViewNotFound", "no table", permanent=True)


def stream(generation: int = 1, level: str | None = None) -> Stream:
    spec: dict[str, Any] = {} if level is None else {"observability": {"logLevel": level}}
    return Stream({"metadata": {"generation": generation}, "spec": spec})


def answers(*made: Failure | Exception | None) -> Callable[[Stream], Failure | None]:
    """A judge that answers so, one call after another, and no more often."""
    left = iter(made)

    def judge(_: Stream) -> Failure | None:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return judge


def test_a_log_level_is_followed_also_to_no_level() -> None:
    followed, judge = FollowedStream(), answers(None)
    seen = []
    for level in ("DEBUG", "DEBUG", None):
        followed.refresh(lambda: stream(level=level), judge)  # noqa: B023
        seen.append(followed.log_level)
    assert seen == ["DEBUG", "DEBUG", None]


def test_without_an_answer_all_stays() -> None:
    def ask() -> Stream:
        raise ApiError(403, "Forbidden")

    followed = FollowedStream("INFO")
    followed.refresh(ask, answers())
    assert followed.log_level == "INFO"
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
