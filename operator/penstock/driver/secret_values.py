"""The values of secretOptions and secretSparkConf, which are cut out of all that the driver says.

What is read from Secrets by Kafka's and the database's own clients is not in here: no text of
theirs repeats it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from penstock.api.v1alpha1.base import KeyRef

_REDACTED = "***"
# Shorter ones are parts of too many words. As in SecretFiles.java.
_SHORTEST = 4
# Ports and the like, and names of fields: a line of the log would not be JSON any more.
_NO_SECRET = re.compile(
    "true|false|null|[0-9]{1,7}|time|level|logger|message|exception|rootCause|trace|line"
    "|reason|cause|error|permanent|record|step|epoch"
)
# A handler of a signal may log too.
_lock = threading.RLock()
_read_at: dict[Path, int] = {}
"""By file, when what is known of it was written."""


@dataclass(frozen=True)
class _Known:
    """What is cut out: replaced as a whole, since each thread that logs reads it."""

    forms: frozenset[str] = frozenset()
    any_form: re.Pattern[str] = re.compile("(?!)")

    def with_value(self, value: str) -> _Known:
        # A key of several lines is shown line by line.
        parts = [line.strip() for line in value.splitlines()]
        secret = [
            part for part in parts if len(part) >= _SHORTEST and not _NO_SECRET.fullmatch(part)
        ]
        forms = self.forms.union(*map(_forms, secret))
        if not forms:
            return self
        longest_first = sorted(forms, key=len, reverse=True)
        return _Known(forms, re.compile("|".join(map(re.escape, longest_first))))


def _forms(part: str) -> set[str]:
    texts = (part, repr(part)[1:-1])
    in_json = [json.dumps(text)[1:-1] for text in texts]
    twice = [json.dumps(text)[1:-1] for text in in_json]
    return {*texts, *in_json, *twice, quote_plus(part), quote(part), quote(part, safe="")}


_known = _Known()


def file_of(ref: KeyRef, secrets: Path) -> Path:
    """Where a Secret's key is mounted."""
    return (secrets / ref.name / ref.key).absolute()


def read(file: Path) -> str:
    """The value in a file, without the line break that an editor leaves at the end.

    Raises OSError if the file is missing, UnicodeDecodeError if it is not text in UTF-8.
    """
    return file.read_bytes().decode().rstrip("\r\n")


def redact_from_now_on(files: Iterable[Path]) -> None:
    """Makes the values in these files known, as they are and as they will be.

    One that was known stays so when the Secret has another: it may still be used.
    """
    with _lock:
        for file in files:
            _read_at.setdefault(file, -1)
    _look_for_new()


def values_of(refs: Mapping[str, KeyRef], secrets: Path) -> dict[str, str]:
    """The values by name, cut out from now on; without those that check_secrets refuses."""
    global _known
    files = {name: file_of(ref, secrets) for name, ref in refs.items()}
    redact_from_now_on(files.values())
    values: dict[str, str] = {}
    for name, file in files.items():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            values[name] = read(file)
    with _lock:  # of a file that is being written the other look may have been too early
        for value in values.values():
            _known = _known.with_value(value)
    return values


def redact(text: str) -> str:
    """The text with asterisks in place of each known value.

    >>> redact("no value is known")
    'no value is known'
    """
    known = _look_for_new()
    # Most texts have none; an expression of many values is slow to say so.
    has_one = any(form in text for form in known.forms)
    return known.any_form.sub(_REDACTED, text) if has_one else text


@contextlib.contextmanager
def redacted_output() -> Iterator[None]:
    """Cuts the known values out of what Python prints in the block, in any thread."""
    out, err = _RedactedStream(sys.stdout), _RedactedStream(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


class _RedactedStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(redact(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _look_for_new() -> _Known:
    global _known
    with _lock:
        for file, read_at in _read_at.items():
            with contextlib.suppress(OSError, UnicodeDecodeError):  # check_secrets says it
                written_at = file.stat().st_mtime_ns
                if written_at != read_at:
                    _known = _known.with_value(read(file))
                    _read_at[file] = written_at
        return _known
