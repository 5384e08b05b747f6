"""Judges a Java regular expression without Java: certainly wrong, certainly right, or not judged.

Python's own parser serves for what both languages spell alike. What is refused here,
java.util.regex.Pattern refuses too (integration/validation/test_java_regex.py compares them).
"""

from __future__ import annotations

import re
import warnings
from typing import Literal

# A character or a class of them, in both languages.
_ESCAPE = re.compile(r"\\([dDwWsS]|[^A-Za-z0-9])")
_CLASS = re.compile(r"\[[^\[\]]+\]")
# Classes that Java reads otherwise, and ranges with an escape.
_OTHERWISE = re.compile(r"\[\^?\]|\[[^\]]*\[|&&|-\\|\\.-")
_NO_COUNT = re.compile(r"\{(?!\d+(,\d*)?\})")
_ERRORS = (
    "missing )",
    "unbalanced parenthesis",
    "unterminated character set",
    "min repeat greater",
)


def judge(pattern: str) -> str | Literal[True] | None:
    """Why Java refuses the expression; True if Java takes it; None if neither is certain."""
    if _OTHERWISE.search(pattern) is not None:
        return None
    text = _ESCAPE.sub("a", pattern).replace("(?:", "(")
    if "(?" in text or "\\" in text[:-1]:
        return None
    if text.endswith("\\"):
        return "it ends with a backslash"
    outside = _CLASS.sub("a", text)
    if "[" not in outside and _NO_COUNT.search(outside) is not None:
        return "a { begins no count such as {1,3}: write \\{ for the character itself"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except re.error as error:
        at = error.pos or 0
        if error.msg == "nothing to repeat" and text[at : at + 1] in ("*", "+", "?"):
            repeated = text[:at].endswith(("^", "$"))  # Java repeats these
            return None if repeated else f"nothing stands before {text[at]} to repeat: write .*"
        return error.msg if error.msg.startswith(_ERRORS) else None
    except (FutureWarning, DeprecationWarning, OverflowError, RecursionError):
        return None
    return True
