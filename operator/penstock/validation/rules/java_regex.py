"""Judges a Java regular expression without Java: certainly wrong, certainly right, or not judged.

What is refused here, java.util.regex.Pattern refuses too (integration/validation/test_java_regex.py
compares them). Python's own parser serves for the other direction.
"""

from __future__ import annotations

import re
import warnings
from typing import Literal

_QUANTIFIERS = "*+?"
# Escapes that take a text in braces.
_BRACED = re.compile(r"[pPxN]\{[^}]*\}")
_COUNT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
# Flags, of which x makes comments of what follows.
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]*)?[:)]")


def judge(pattern: str) -> str | Literal[True] | None:
    """Why Java refuses the expression; True if Java takes it; None if neither is certain."""
    if any("x" in flags[1] for flags in _FLAGS.finditer(pattern)):
        return None
    found = _Scanner(pattern).scan()
    if found is not None:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError):
        return None
    # What Python spells otherwise or Java does not have.
    return (
        None if "(?" in pattern or "[[" in pattern or "\\" in pattern.replace("\\.", "") else True
    )


class _Scanner:
    """Reads an expression once, from the left to the right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._groups = 0
        self._operand = False
        """Whether something to repeat stands before this place."""

    def scan(self) -> str | None:
        """What is wrong; None if nothing is known to be."""
        while self._at < len(self._text):
            found = self._step()
            if found is not None:
                return found
        return "a ( is not closed" if self._groups else None

    def _step(self) -> str | None:
        character = self._text[self._at]
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._character_class()
        if character == "(":
            self._groups += 1
            self._operand = False
            # Group syntax such as (?: and (?<name>, whose question mark repeats nothing.
            self._at += 2 if self._text.startswith("(?", self._at) else 1
            return None
        if character == ")":
            if not self._groups:
                return "a ) has no ("
            self._groups -= 1
        elif character in _QUANTIFIERS and not self._operand:
            return f"nothing stands before {character} to repeat: write .{character} for any text"
        elif character == "{":
            return self._count()
        self._operand = character != "|"
        self._at += 1
        return None

    def _escape(self) -> str | None:
        rest = self._text[self._at + 1 :]
        if not rest:
            return "it ends with a backslash"
        if rest.startswith("Q"):
            end = rest.find("\\E", 1)
            self._at = len(self._text) if end < 0 else self._at + 1 + end + 2
        else:
            braced = _BRACED.match(rest)
            self._at += 1 + (1 if braced is None else braced.end())
        self._operand = True
        return None

    def _count(self) -> str | None:
        found = _COUNT.match(self._text, self._at)
        if found is None:
            return "a { begins no count such as {1,3}: write \\{ for the character itself"
        if found[3] and int(found[3]) < int(found[1]):
            return f"the count {found[0]} ends before it begins"
        self._at = found.end()
        self._operand = True
        return None

    def _character_class(self) -> str | None:
        depth, start = 0, -1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "\\":
                if self._text.startswith("\\Q", self._at):
                    end = self._text.find("\\E", self._at)
                    if end < 0:
                        break
                    self._at = end
                self._at += 1
            elif character == "[":
                depth += 1
                start = self._at + (2 if self._text.startswith("[^", self._at) else 1)
            elif character == "]" and self._at != start:
                depth -= 1
                if not depth:
                    self._at += 1
                    self._operand = True
                    return None
            self._at += 1
        return "a [ is not closed"
