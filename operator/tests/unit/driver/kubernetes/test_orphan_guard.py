"""A driver whose pod is gone ends; one that only lost the API server, or its token, does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.driver.failures import Failure
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.orphan_guard import Answer, Doubt, Look, OrphanGuard, OwnPod

GUARD = OrphanGuard()
GONE, REJECTED = "DriverPodReplaced", "ApiServerUnauthorized"


class ApiOf(Api):
    """Gives one answer after another: a pod, or an error."""

    def __init__(self, *answers: Object | Exception) -> None:
        super().__init__("http://127.0.0.1:1", "default")
        self._answers: Iterator[Object | Exception] = iter(answers)

    def pod(self, name: str) -> Object:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def pod(uid: str, **metadata: Any) -> Object:
    return Object({"metadata": {"uid": uid, **metadata}})


def refused(code: int) -> ApiError:
    """An answer of the API server with this status code; none at all with 0."""
    return ApiError(code, "Refused")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([pod("a")], Answer.EXISTS),
        ([pod("a"), pod("a")], Answer.EXISTS),
        ([pod("a"), pod("b")], Answer.GONE),
        ([refused(401)], Answer.UNAUTHORIZED),
        ([pod("a"), refused(401)], Answer.UNAUTHORIZED),
        ([pod("a", deletionTimestamp="2026-11-21T00:00:00Z"), refused(401)], Answer.GONE),
        ([pod("a"), refused(404)], Answer.GONE),
        ([refused(403)], Answer.UNKNOWN),
        ([pod("a"), refused(503)], Answer.UNKNOWN),
        ([refused(0)], Answer.UNKNOWN),
        ([pod("a"), pod("")], Answer.UNKNOWN),
    ],
)
def test_what_an_answer_says_about_the_pod(
    answers: list[Object | Exception], expected: Answer
) -> None:
    own_pod = OwnPod(ApiOf(*answers), "numbers-driver-0")
    assert [own_pod.ask() for _ in answers][-1] is expected


def looks(
    answers: Iterable[Answer], seen: Callable[[Look], Look] = lambda look: look
) -> Iterator[Look]:
    """A look every 15 s, at first with every sign that the pod exists."""
    for number, answer in enumerate(answers):
        now = number * GUARD.ask_interval
        yield seen(Look(now, answer, token="token", probed_at=now))


def end(seen: Iterable[Look]) -> tuple[float, str] | None:
    """When the driver ends, in seconds after the first look, and its reason."""
    doubt = Doubt()
    for look in seen:
        doubt, failure = GUARD.judge(doubt, look)
        if failure is not None:
            return look.now, failure.reason
    return None


HOUR = [Answer.UNAUTHORIZED] * 230


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # The pod is gone by every answer, or first so and then the token ends with the pod.
        ([Answer.EXISTS, *[Answer.GONE] * 3], (45, GONE)),
        ([Answer.EXISTS, Answer.GONE, *HOUR], (45, GONE)),
        # The API server is away; it refuses valid tokens for a moment; it starts again and again.
        ([Answer.EXISTS, *[Answer.UNKNOWN] * 1000], None),
        ([Answer.GONE, Answer.EXISTS] * 50, None),
        ([Answer.GONE, Answer.GONE, Answer.UNKNOWN] * 50, None),
        ([Answer.UNAUTHORIZED, Answer.UNAUTHORIZED, Answer.UNKNOWN] * 500, None),
        # It accepts nobody's token, for less than an hour.
        ([Answer.EXISTS, *HOUR, Answer.EXISTS, *HOUR], None),
        ([Answer.EXISTS, *HOUR, *HOUR], (3615, REJECTED)),
    ],
)
def test_when_a_driver_ends_by_the_answers(
    answers: list[Answer], expected: tuple[float, str] | None
) -> None:
    assert end(looks(answers)) == expected


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        # Its kubelet has ended, so nobody ends a force-deleted pod's processes but the driver.
        (lambda look: replace(look, probed_at=0.0), (30, REJECTED)),
        (lambda look: replace(look, probed_at=min(look.now, 300.0)), (330, REJECTED)),
        # The next driver waits for the lock of the checkpoint.
        (lambda look: replace(look, successor_waits=True), (30, REJECTED)),
        (lambda look: replace(look, successor_waits=look.now >= 300), (300, REJECTED)),
        # The query waits for executors that it cannot have.
        (lambda look: replace(look, needs_executors=True), (60, REJECTED)),
        (lambda look: replace(look, needs_executors=look.now >= 300), (360, REJECTED)),
        (lambda look: replace(look, needs_executors=look.now % 60 > 0), None),
    ],
)
def test_when_a_driver_ends_whose_token_is_rejected(
    sign: Callable[[Look], Look], expected: tuple[float, str] | None
) -> None:
    assert end(looks(HOUR, sign)) == expected


def test_a_driver_for_whose_pod_the_kubelet_gets_new_tokens_does_not_end() -> None:
    assert end(looks(HOUR * 4, lambda look: replace(look, token=str(look.now // 2900)))) is None


def test_the_signs_mean_nothing_while_the_pod_exists() -> None:
    def worst(look: Look) -> Look:
        return replace(look, probed_at=0.0, successor_waits=True, needs_executors=True, token="")

    assert end(looks([Answer.EXISTS] * 1000, worst)) is None
    assert end(looks([Answer.UNKNOWN] * 1000, worst)) is None


def test_the_guard_ends_the_driver_once() -> None:
    ended, failures = threading.Event(), list[Failure]()

    def on_end(failure: Failure) -> None:
        failures.append(failure)
        ended.set()

    numbers = count()
    guard = OrphanGuard(ask_interval=0.001)
    stopped = guard.watch(lambda: Look(next(numbers) * 15.0, Answer.GONE), on_end)
    assert ended.wait(30)
    stopped.set()
    assert [failure.reason for failure in failures] == [GONE]
