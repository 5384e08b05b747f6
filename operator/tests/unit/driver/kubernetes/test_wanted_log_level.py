"""The log level that a running stream follows."""

from __future__ import annotations

from penstock.cluster.rest import ApiError
from penstock.driver.kubernetes.wanted_log_level import WantedLogLevel


def test_an_answer_is_followed_also_to_no_level() -> None:
    answers = iter(["DEBUG", "DEBUG", None])
    level = WantedLogLevel()
    seen = []
    for _ in range(3):
        level.refresh(lambda: next(answers))
        seen.append(level.value)
    assert seen == ["DEBUG", "DEBUG", None]


def test_without_an_answer_the_level_stays() -> None:
    def ask() -> str | None:
        raise ApiError(403, "Forbidden")

    level = WantedLogLevel("INFO")
    level.refresh(ask)
    assert level.value == "INFO"
