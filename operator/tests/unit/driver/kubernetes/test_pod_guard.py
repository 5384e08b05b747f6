"""A driver whose pod is gone ends; one that only lost the API server does not."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from penstock.cluster.rest import ApiError
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.pod_guard import Answer, OwnPod, PodGuard

QUICK = PodGuard(ask_interval=0.001, gone_after=0.02)


class ApiOf(Api):
    """Gives one answer after another: a UID, or an error."""

    def __init__(self, *answers: str | Exception) -> None:
        super().__init__("http://127.0.0.1:1", "default")
        self._answers: Iterator[str | Exception] = iter(answers)

    def uid(self, pod: str) -> str:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(code: int) -> ApiError:
    """An answer of the API server with this status code; none at all with 0."""
    return ApiError(code, "Refused")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["a"], Answer.EXISTS),
        (["a", "a"], Answer.EXISTS),
        (["a", "b"], Answer.GONE),
        ([refused(401)], Answer.GONE),
        (["a", refused(404)], Answer.GONE),
        ([refused(403)], Answer.UNKNOWN),
        (["a", refused(503)], Answer.UNKNOWN),
        ([refused(0)], Answer.UNKNOWN),
        (["a", ""], Answer.UNKNOWN),
    ],
)
def test_what_an_answer_says_about_the_pod(
    answers: list[str | Exception], expected: Answer
) -> None:
    pod = OwnPod(ApiOf(*answers), "numbers-driver-0")
    assert [pod.ask() for _ in answers][-1] is expected


def ends(answers: Iterable[Answer]) -> bool:
    """Whether the guard ends the driver before it has heard all of these answers."""
    heard, all_heard, ended = iter(answers), threading.Event(), threading.Event()

    def ask() -> Answer:
        answer = next(heard, None)
        if answer is None:
            all_heard.set()
            return Answer.EXISTS
        return answer

    def end() -> None:
        ended.set()
        all_heard.set()

    stopped = QUICK.watch(ask, end)
    assert all_heard.wait(30)
    stopped.set()
    return ended.is_set()


def test_a_driver_whose_pod_is_gone_ends() -> None:
    assert ends([Answer.EXISTS] + [Answer.GONE] * 100_000)


def test_an_api_server_that_is_away_ends_no_driver() -> None:
    assert not ends([Answer.EXISTS] + [Answer.UNKNOWN] * 100)


def test_a_token_that_is_refused_for_a_moment_ends_no_driver() -> None:
    assert not ends([Answer.GONE, Answer.EXISTS] * 50)


def test_an_api_server_that_starts_again_and_again_ends_no_driver() -> None:
    """While it starts it refuses valid tokens, and then it is away again."""
    assert not ends([Answer.EXISTS] + [Answer.GONE, *[Answer.UNKNOWN] * 40] * 5)
