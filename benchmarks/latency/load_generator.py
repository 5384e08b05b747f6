"""The process that sends payments and receives the flagged ones: load/Load.java."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from testkit.kafka.stream_programs import StreamPrograms

# More than a variant needs to start, and than the longest phase.
_PATIENCE_SECONDS = 300.0


class LoadError(RuntimeError):
    """The load generator said nothing, or something unexpected."""


class LoadGenerator:
    """One JVM for all variants, so that its code is compiled when it measures."""

    def __init__(self, programs: StreamPrograms, bootstrap: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-XX:+UseSerialGC",
             "-cp", programs.load, "Load", bootstrap],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[str] = self._process.stdin
        self._said: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._requests.close()

    def start(
        self,
        source: str,
        sink: str,
        folder: Path,
        query: str,
        phases: Sequence[tuple[int, int]],
    ) -> None:
        """Begins to send; the first phase lasts until the first record arrives.

        `query`: flags or counts. `phases` are records a second, and seconds.
        """
        shown = " ".join(f"{rate}:{seconds}" for rate, seconds in phases)
        self._requests.write(f"{source} {sink} {folder} {query} {shown}\n")
        self._requests.flush()
        self.expect("phase 0")

    def expect(self, line: str) -> None:
        """Waits for its next line; raises LoadError if that is another one."""
        try:
            said = self._said.get(timeout=_PATIENCE_SECONDS)
        except queue.Empty:
            raise LoadError(f"no {line!r} within {_PATIENCE_SECONDS:.0f} s") from None
        if said != line:
            raise LoadError(f"said {said!r} instead of {line!r}")

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._said.put(line.strip())
        self._said.put(None)
