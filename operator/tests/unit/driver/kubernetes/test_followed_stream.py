"""What a driver takes from its stream while it runs: live fields, and edits to judge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, cast
from unittest.mock import Mock

import pytest

from penstock.api.v1alpha1.restart import Restart
from penstock.api.v1alpha1.restarts_by_field import Change, change_of
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream
from penstock.controller.children import revision
from penstock.driver.failures import Failure
from penstock.driver.kubernetes import followed_stream
from penstock.driver.kubernetes.api import OwnStream
from penstock.driver.kubernetes.followed_stream import (
    FollowedStream,
    Judge,
    LiveFields,
    StreamDocument,
)
from testkit.streams.crd_schema import nodes, schema
from testkit.streams.streams import RATE_TO_CONSOLE, manifest
from testkit.wait import wait_for

MISSING = Failure("TableOrViewNotFound", "no table", permanent=True)
EDITED: dict[str, Any] = {
    "observability": {"logLevel": "DEBUG"},
    "restart": {"maxAttempts": 3, "stableAfter": "5m"},
}
LIVE = LiveFields("DEBUG", Restart.model_validate(EDITED["restart"]))
FOLLOWED = [
    path.removeprefix("spec.")
    for path, node in nodes(schema()["properties"]["spec"], "spec")
    if "properties" not in node
    and change_of(path.removeprefix("spec.")) is Change.LIVE
    and not path.startswith(
        ("spec.checkpoint.volume", "spec.rollout", "spec.ttlSecondsAfterFinished")
    )
]


def stream(generation: int = 1, **spec: Any) -> Stream:
    found = manifest("numbers", {**RATE_TO_CONSOLE, **spec})
    found["metadata"]["generation"] = generation
    return Stream(found)


def following(judge: Judge = lambda _: None, live: LiveFields | None = None) -> FollowedStream:
    followed = FollowedStream(live or LiveFields())
    followed.begin(document(), judge)
    return followed


def document(**spec: Any) -> StreamDocument:
    """What the operator makes of a stream."""
    return StreamDocument(
        revision.document("numbers", "default", {**RATE_TO_CONSOLE, **spec}, "image")
    )


def own(text: str | ApiError | None, of: Stream | None = None) -> OwnStream:
    """What the API server answers."""
    answer = Mock(side_effect=[text])
    return cast(OwnStream, Mock(document=answer, stream=Mock(side_effect=[of])))


UNASKED = cast(OwnStream, None)
"""Nothing is asked: the stream says what the document does."""


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
    followed = following(answers(None))
    seen = []
    for spec in (EDITED, EDITED, {}):
        followed.refresh(stream(**spec), UNASKED)
        seen.append((followed.live.log_level, followed.live.restart.max_attempts))
    assert seen == [("DEBUG", 3), ("DEBUG", 3), (None, None)]


def test_the_first_look_is_over_before_the_driver_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its document has no live fields: without it, a driver that may not try again would."""
    monkeypatch.setattr(followed_stream, "threading", Mock())  # no thread runs
    followed = FollowedStream()
    edited = document(queryName="edited")
    followed.follow(own(edited.text, stream(**EDITED)))
    assert followed.live == LIVE
    assert followed.next_document == edited  # the volume may have an earlier one


def test_an_invalid_spec_changes_nothing() -> None:
    """Such as one of a newer version, with a word that this image does not know."""
    followed = following(answers(ValueError("no spec")), LIVE)
    followed.refresh(stream(observability={"logLevel": "TRACE"}), UNASKED)
    assert followed.live == LIVE


def test_a_field_of_a_newer_version_hides_no_other() -> None:
    followed = FollowedStream()
    followed.look(lambda: stream(**EDITED, fieldOfTheFuture={"any": "thing"}))
    assert followed.live == LIVE


@pytest.mark.parametrize("path", FOLLOWED)
def test_a_driver_follows_each_live_field(path: str) -> None:
    """Except those that only the operator uses."""
    *parents, field = path.split(".")
    spec: dict[str, Any] = {parents[0]: {field: EDITED[parents[0]][field]}}
    followed = FollowedStream()
    followed.look(lambda: stream(**spec))
    assert followed.live != LiveFields()


def test_without_an_answer_all_stays() -> None:
    def ask() -> Stream:
        raise ApiError(403, "Forbidden")

    followed = FollowedStream(LIVE)
    followed.look(ask)
    assert followed.live == LIVE


def test_each_generation_is_judged_once() -> None:
    followed = following(answers(None, MISSING))
    for generation in (1, 1, 2, 2):
        followed.refresh(stream(generation), UNASKED)
    assert followed.verdict is not None
    assert followed.verdict.generation == 2
    assert followed.verdict.refusal is not None
    assert followed.verdict.refusal.reason == "TableOrViewNotFound"


def test_what_cannot_be_judged_now_is_judged_later() -> None:
    """The operator does not take the verdict on another generation for an answer."""
    followed = following(answers(None, RuntimeError("Spark does not run"), None))
    seen = []
    for generation in (1, 2, 2):
        followed.refresh(stream(generation), UNASKED)
        assert followed.verdict is not None
        seen.append(followed.verdict.generation)
    assert seen == [1, 1, 2]


def test_an_edit_about_which_spark_cannot_tell_is_asked_about_once() -> None:
    """Each question would run the same job for nothing; the operator applies it in time."""
    followed = following(answers(None, TimeoutError("no core"), None))
    seen = []
    for generation in (1, 2, 2, 3):
        followed.refresh(stream(generation), UNASKED)
        assert followed.verdict is not None
        seen.append(followed.verdict.generation)
    assert seen == [1, 1, 1, 3]


def test_while_an_edit_is_planned_the_rest_is_heard() -> None:
    """Its plan may run for an hour: live fields, and an edit that takes its place."""
    planning, go_on = threading.Event(), threading.Event()
    asked = []

    def judge(of: Stream) -> None:
        asked.append(of.generation)
        planning.set()
        assert go_on.wait(60)

    changes: SimpleQueue[Stream] = SimpleQueue()
    # Not another one: the thread of `follow` never ends.
    api = Mock(document=Mock(return_value=document().text), stream=Mock(return_value=stream()))
    api.changes.side_effect = lambda seconds: iter(changes.get, None)
    followed = FollowedStream(LiveFields())
    followed.begin(document(), judge)
    followed.follow(cast(OwnStream, api))
    changes.put(stream(2, queryName="slow"))
    assert planning.wait(60)
    for generation, level in ((3, "INFO"), (4, "DEBUG")):
        changes.put(stream(generation, observability={"logLevel": level}))
    wait_for("the live fields", lambda: followed.live.log_level == "DEBUG", 60)
    go_on.set()
    wait_for("the newest edit", lambda: followed.verdict and followed.verdict.generation == 4, 60)
    assert asked == [2, 4]


def test_a_refused_edit_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs may be created. The same refusal is not reported with another time."""
    monkeypatch.setattr(followed_stream, "_JUDGE_RETRY_SECONDS", 0.0)
    followed = following(answers(MISSING, MISSING, None))
    seen = []
    for _ in range(3):
        followed.refresh(stream(), UNASKED)
        seen.append(followed.verdict)
    assert seen[0] is seen[1]
    assert seen[2] is not None
    assert seen[2].refusal is None
    followed.refresh(stream(), UNASKED)  # what is taken is taken


def test_an_edit_that_the_operator_has_applied_is_the_next_document() -> None:
    followed, edited = following(), document(queryName="edited")
    followed.refresh(stream(2, queryName="edited"), own(document().text))
    assert followed.next_document is None  # not applied yet
    followed.refresh(stream(2, queryName="edited"), own(edited.text))
    assert followed.next_document == edited
    followed.refresh(stream(2, queryName="edited"), UNASKED)
    followed.begin(edited, answers())
    assert followed.next_document is None


def test_an_earlier_spec_that_is_to_run_again_is_the_next_document() -> None:
    """The stream still has the edit, and the status says that it is given up."""
    before, edited = document(), document(queryName="edited")
    followed = FollowedStream()
    followed.begin(edited, lambda _: None)
    failed = stream(2, queryName="edited")
    failure = {"reason": "Boom", "message": "", "permanent": True, "time": "2026-11-21T00:00:00Z"}
    failed.manifest["status"] = {
        "rollout": {
            "revision": edited.spec_hash,
            "lastReadyRevision": before.spec_hash,
            "failure": failure,
        }
    }
    followed.refresh(failed, own(edited.text))
    assert followed.next_document is None  # not applied yet
    followed.refresh(failed, own(before.text))
    assert followed.next_document == before
    followed.begin(before, answers())
    followed.refresh(failed, UNASKED)  # there is nothing to wait for
    assert followed.next_document is None


def test_an_edit_that_is_taken_back_is_not_the_next_document() -> None:
    followed = following()
    followed.refresh(stream(2, queryName="edited"), own(document(queryName="edited").text))
    followed.refresh(stream(3), own(document().text))
    assert followed.next_document is None


@pytest.mark.parametrize(
    "text", ["spec: [", "spec: {}", None, ApiError(403, "Forbidden")],
    ids=["no-yaml", "no-spec", "none", "forbidden"],
)  # fmt: skip
def test_a_document_that_cannot_be_read_changes_nothing(text: str | ApiError | None) -> None:
    followed = following()
    followed.refresh(stream(2, queryName="edited"), own(text))
    assert followed.next_document is None
