"""Classifies exceptions: a reason, transient or permanent, and what to do about it.

An exception arrives wrapped (StreamingQueryException around SparkException around the root cause),
so its causes are read from the root outward, and the first one that a rule matches decides
(rules.py). An exception without a rule is transient: a needless retry costs little, a
missing retry stops the stream.

A message is shown only if it cannot quote a record: the exception was not thrown in a task, or its
class is known to quote none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from penstock.driver.exceptions.chain import ExceptionInfo, python_classes, read_python_chain
from penstock.driver.exceptions.rules import GENERAL, SPECIFIC, Rule
from penstock.driver.failures import DriverError, Failure

_MAX_MESSAGE_CHARACTERS = 600
_RECORD_ERROR = "A record could not be processed. Its contents are not shown here."
_NOT_SHOWN = "A task failed. The message is not shown here, because it may quote a record."
_PYTHON_FRAME = re.compile(r'  File "([^"]+)", line (\d+), in (\S+)')
_PYTHON_CLASS = re.compile(r"[A-Za-z_][\w.]*")


def classify_exception(error: BaseException) -> Failure:
    """The failure behind any Python exception, from the JVM or not. Never raises.

    The JVM may exit while its exception is read: then the class of the Python exception decides.
    """
    if isinstance(error, DriverError):
        return error.failure
    try:
        return classify(read_python_chain(error))
    except Exception:
        # Its text may contain the JVM's stack trace, and with it a record.
        return classify([ExceptionInfo(python_classes(error), "")])


def classify(chain: Sequence[ExceptionInfo]) -> Failure:
    """The failure behind a chain of causes, outermost exception first."""
    if not chain:
        return Failure("Unknown", "The query failed without an exception.")
    in_task = any(exception.in_task for exception in chain)
    for rules in (SPECIFIC, GENERAL):
        for exception in reversed(chain):
            for rule in rules:
                if _matches(rule, exception, in_task):
                    return _failure(rule, exception, in_task)
    root = chain[-1]
    return _failure(Rule(root.classes[0]), root, in_task)


def _matches(rule: Rule, exception: ExceptionInfo, in_task: bool) -> bool:
    return (
        (rule.name in exception.classes or (exception.condition or "").startswith(rule.name))
        and (not rule.thrown_by or exception.thrown_by == rule.thrown_by)
        and (rule.in_task is None or rule.in_task == in_task)
    )


def _failure(rule: Rule, exception: ExceptionInfo, in_task: bool) -> Failure:
    condition = None if _is_legacy(exception.condition) else exception.condition
    named_after = (condition or exception.classes[0].rsplit(".", 1)[-1]).split(".", 1)[0]
    return Failure(
        reason=rule.reason or _camel(named_after),
        message=f"{_message(rule, exception, in_task)} {rule.advice}".strip(),
        permanent=rule.permanent,
        recoverable=rule.recoverable or rule.is_record_error,
        maybe_poison=rule.is_record_error,
    )


def _message(rule: Rule, exception: ExceptionInfo, in_task: bool) -> str:
    if not rule.is_record_error and (rule.shows_message or not in_task):
        return _headline(exception)
    name = exception.condition or exception.classes[0]
    words = _RECORD_ERROR if rule.is_record_error else _NOT_SHOWN
    return " ".join(part for part in (f"[{name}]", _in_python(exception.message), words) if part)


def _is_legacy(condition: str | None) -> bool:
    return condition is None or condition.startswith("_LEGACY_ERROR_TEMP_")


def _headline(exception: ExceptionInfo) -> str:
    """The message's first line, without the plans and stack traces that follow."""
    lines = [line.strip() for line in exception.message.splitlines() if line.strip()]
    headline = lines[0] if lines else exception.classes[0]
    return (
        headline
        if len(headline) <= _MAX_MESSAGE_CHARACTERS
        else f"{headline[:_MAX_MESSAGE_CHARACTERS]}..."
    )


def _in_python(message: str) -> str:
    """The class and place of an exception of Python, from its traceback; else empty.

    The line after the frames begins with the class; what follows it may quote a record.
    """
    lines = iter(message.splitlines())
    if not any(line.endswith("Traceback (most recent call last):") for line in lines):
        return ""
    place = None
    for line in lines:
        if not line.startswith("  "):
            raised = _PYTHON_CLASS.match(line)
            where = f" in {PurePath(place[1]).name}, line {place[2]}, {place[3]}" if place else ""
            return f"{raised[0] if raised else 'An exception'}{where}."
        place = _PYTHON_FRAME.match(line) or place
    return ""


def _camel(name: str) -> str:
    """UNRESOLVED_COLUMN -> UnresolvedColumn; FileNotFoundException -> FileNotFound."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    if len(words) == 1 and not name.isupper():
        return re.sub(r"(Exception|Error)$", "", words[0].lstrip("0123456789")) or "Unknown"
    return "".join(word.capitalize() for word in words).lstrip("0123456789") or "Unknown"
