"""Processes that never outlive the one that started them, even when that one is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# The shell ends its child when its stdin closes, and the kernel closes that for a dead parent.
# `read` and not `cat`: a builtin leaves no process behind when the child ends by itself.
_WATCH = """
exec 3<&0
"$@" 3<&- &
child=$!
( read -r _ <&3; kill "$child" 2>/dev/null ) &
watcher=$!
wait "$child"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""


class Leashed:
    """A background process with its output in a file."""

    def __init__(
        self, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self.name = Path(command[0]).name
        with log.open("ab") as output:
            self._shell = subprocess.Popen(
                ["sh", "-c", _WATCH, "leash", *(str(word) for word in command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **env} if env else None,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._shell.poll() is None

    def last_words(self, lines: int = 30) -> str:
        """The end of what it printed: the first place to look when it failed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, grace: float = 10) -> None:
        """Ask it to end; after ``grace`` seconds don't ask."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        try:
            self._shell.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()
