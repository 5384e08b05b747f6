"""Reads docs/runbooks/: the pages that a person on call follows, and their commands."""

from __future__ import annotations

import re

HEADINGS = ("Meaning", "Impact", "Diagnosis", "Mitigation")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def sections(text: str) -> dict[str, str]:
    return {heading: body.strip() for heading, body in _SECTION.findall(text)}


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language.

    `sh` holds commands, with the alert's labels as variables of the shell; `promql` one query each,
    with the same variables.
    """
    return [body.strip() for found, body in _BLOCK.findall(text) if found == language]


def languages(text: str) -> set[str]:
    return {found for found, _ in _BLOCK.findall(text)}
