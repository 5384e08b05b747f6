"""The log level that a running stream follows."""

from __future__ import annotations

import io
import urllib.error
from email.message import Message

import pytest

from penstock.driver.kubernetes.wanted_log_level import WantedLogLevel


def test_an_answer_is_followed_also_to_no_level() -> None:
    answers = iter(["DEBUG", "DEBUG", None])
    level = WantedLogLevel()
    seen = []
    for _ in range(3):
        level.refresh(lambda: next(answers))
        seen.append(level.value)
    assert seen == ["DEBUG", "DEBUG", None]


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.HTTPError("url", 403, "", Message(), io.BytesIO()),
        urllib.error.URLError("refused"),
        TimeoutError(),
        KeyError("spec"),
    ],
)
def test_without_an_answer_the_level_stays(error: Exception) -> None:
    def ask() -> str | None:
        raise error

    level = WantedLogLevel("INFO")
    level.refresh(ask)
    assert level.value == "INFO"
