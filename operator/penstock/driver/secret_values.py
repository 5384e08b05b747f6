"""The values of secretOptions and secretSparkConf, which are cut out of all that the driver says.

What is read from Secrets by Kafka's and the database's own clients is not in here: no text of
theirs repeats it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote_plus

from penstock.api.v1alpha1.base import KeyRef

_REDACTED = "***"
# Shorter ones are parts of too many words. As in SecretFiles.java.
_SHORTEST = 4
# Ports and the like: a line of JSON would not be one any more.
_NO_SECRET = re.compile("true|false|null|[0-9]{1,7}")
_read_at: dict[Path, int] = {}
"""By file, when what is known of it was written."""
_forms: set[str] = set()
_known = [re.compile("(?!)")]


def file_of(ref: KeyRef, secrets: Path) -> Path:
    """Where a Secret's key is mounted."""
    return (secrets / ref.name / ref.key).absolute()


def read(file: Path) -> str:
    """The value in a file, without the line break that an editor leaves at the end.

    Raises OSError if the file is missing, UnicodeDecodeError if it is not text in UTF-8.
    """
    return re.sub(r"[\r\n]+\Z", "", file.read_bytes().decode())


def redact_from_now_on(files: Iterable[Path]) -> None:
    """Makes the values in these files known, as they are and as they will be.

    One that was known stays so when the Secret has another: it may still be used.
    """
    for file in files:
        _read_at.setdefault(file, -1)


def values_of(refs: Mapping[str, KeyRef], secrets: Path) -> dict[str, str]:
    """The values by name, cut out from now on; without those whose files are missing, which
    check_secrets says.
    """
    files = {name: file_of(ref, secrets) for name, ref in refs.items()}
    redact_from_now_on(files.values())
    return {name: read(file) for name, file in files.items() if file.is_file()}


def redact(text: str) -> str:
    """The text with asterisks in place of each known value.

    >>> redact("no value is known")
    'no value is known'
    """
    for file, read_at in list(_read_at.items()):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # the driver says it: check_secrets
            written_at = file.stat().st_mtime_ns
            if written_at != read_at:
                _learn(read(file))
                _read_at[file] = written_at
    # Most texts have none; an expression of many values is slow to say so.
    return _known[0].sub(_REDACTED, text) if any(form in text for form in _forms) else text


def _learn(value: str) -> None:
    # A key of several lines is shown line by line.
    for part in (line.strip() for line in value.splitlines()):
        if len(part) >= _SHORTEST and not _NO_SECRET.fullmatch(part):
            escaped = repr(part)[1:-1]
            _forms.update(
                (part, escaped, json.dumps(part)[1:-1], json.dumps(escaped)[1:-1], quote_plus(part))
            )
    if _forms:
        any_form = "|".join(map(re.escape, sorted(_forms, key=len, reverse=True)))
        # Not the name of a field in a line of JSON.
        _known[0] = re.compile(f'(?<!")(?:{any_form})|(?:{any_form})(?!":)')
