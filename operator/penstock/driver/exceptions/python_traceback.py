"""What a traceback of a Python worker says without its message, which may quote a record.

>>> raised = read_traceback('''Thrown: Traceback (most recent call last):
...   File "/code/flags.py", line 12, in score
...     import no_such_module
... ModuleNotFoundError: No module named 'no_such_module'
... ''')
>>> raised.place
'ModuleNotFoundError in flags.py, line 12, score.'
>>> raised.is_import_error
True
>>> raised.shown_message
"No module named 'no_such_module'"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "([^"]+)", line (\d+), in (\S+)')
_CLASS = re.compile(r"[A-Za-z_][\w.]*")
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
_IMPORT_STATEMENT = re.compile(r"(import|from) ")
# What pyspark's workers do before they give a record to the user's code (4.2): they load the
# functions, and ask a stateful processor for its variables.
_LOADING = "read_command"
# Methods of a reader in pyspark.sql.datasource; one may ask for records to find out an offset.
_READS = frozenset({"read", "readBetweenOffsets", "latestOffset"})
ERRORS_OF_CODE = _IMPORT_ERRORS | {
    "AttributeError", "NameError", "NotImplementedError", "PySparkNotImplementedError",
    "SyntaxError", "TypeError",
}  # fmt: skip
_INITIALIZING = "self._stateful_processor.init(handle)"


@dataclass(frozen=True)
class Frame:
    """One call of a traceback."""

    file: str
    line: str
    function: str
    code: str
    """The line of code; empty if its file is not at hand."""


@dataclass(frozen=True)
class RaisedInPython:
    """The exception at the end of a traceback."""

    name: str
    """Its class; empty if the traceback does not say."""
    message: str
    """It may quote a record."""
    frames: tuple[Frame, ...]
    """Outermost first."""

    @property
    def place(self) -> str:
        """Its class, and where it was raised, as a sentence."""
        last = self.frames[-1] if self.frames else None
        where = f" in {place_of(last.file, last.line, last.function)}" if last else ""
        return f"{self.name or 'An exception'}{where}."

    @property
    def is_before_records(self) -> bool:
        """Whether no record had been given to the code."""
        return any(
            frame.function == _LOADING or frame.code == _INITIALIZING for frame in self.frames
        )

    @property
    def reads_records(self) -> bool:
        """Whether a data source was asked for records."""
        return any(frame.function in _READS for frame in self.frames)

    @property
    def is_error_of_code(self) -> bool:
        """Whether the same code would raise it again, whatever becomes of the world outside."""
        return self.name.rpartition(".")[2] in ERRORS_OF_CODE

    @property
    def is_import_error(self) -> bool:
        """Whether the image lacks a module, as far as can be told.

        A function may also import what a record names, with import_module() or pickle. That line
        is no import statement.
        """
        if self.name not in _IMPORT_ERRORS:
            return False
        return self.is_before_records or self._imports or not (self.frames and self.frames[-1].code)

    @property
    def shown_message(self) -> str:
        """Its message; empty if a record may be quoted there."""
        imports = self.name in _IMPORT_ERRORS and self._imports
        return self.message if imports or self.is_before_records else ""

    @property
    def _imports(self) -> bool:
        return bool(self.frames) and _IMPORT_STATEMENT.match(self.frames[-1].code) is not None


def place_of(file: str, line: object, function: str) -> str:
    """Where a call of Python's is, in words."""
    return f"{PurePath(file).name}, line {line}, {function}"


def read_telling_traceback(text: str) -> RaisedInPython | None:
    """Of the exceptions that were raised one after the other, the last that pyspark did not raise.

    Its runner of data sources (4.3) begins with NotImplementedError, where a source has the simple
    reader, and ends with UnboundLocalError, where that cannot be made.
    """
    parts = text.split(_HEADER)[1:]
    raised = [it for part in parts if (it := read_traceback(f"{_HEADER}{part}")) is not None]
    of_user = [it for it in raised if not (it.frames and "/pyspark/" in it.frames[-1].file)]
    return next(reversed(of_user or raised), None)


def read_traceback(text: str) -> RaisedInPython | None:
    """The exception of the first traceback in a text; None if there is none.

    The line after the frames begins with the class; what follows it may quote a record.
    """
    lines = iter(text.splitlines())
    if not any(line.endswith(_HEADER) for line in lines):
        return None
    frames: list[Frame] = []
    for line in lines:
        if not line.startswith("  "):
            raised = _CLASS.match(line)
            message = line.partition(": ")[2]
            return RaisedInPython(raised[0] if raised else "", message, tuple(frames))
        if match := _FRAME.match(line):
            frames.append(Frame(match[1], match[2], match[3], code=""))
        elif frames and not frames[-1].code:
            last = frames.pop()
            frames.append(Frame(last.file, last.line, last.function, code=line.strip()))
    return None
