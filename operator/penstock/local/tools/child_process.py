"""Child processes that end with their parent, even if the parent is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# The shell ends its child when its stdin closes, and the kernel closes that when the parent dies.
# `read` instead of `cat`: a builtin leaves no process behind when the child ends by itself.
# Of its output, in a message.
_LAST_LINES = 30
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


class ChildProcess:
    """A background process that writes its output to a file; `folder` is its working directory."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.log = log
        self.name = Path(command[0]).name
        with log.open("ab") as output:
            self._shell = subprocess.Popen(
                ["sh", "-c", _WATCH, "child-process", *(str(word) for word in command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **env} if env else None,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the shell whose child it is."""
        return self._shell.pid

    @property
    def running(self) -> bool:
        return self._shell.poll() is None

    def last_lines(self) -> str:
        """The end of its output, which usually says why it failed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])

    def stop(self, grace_seconds: float = 10) -> None:
        """Ends it with SIGTERM, and kills it if it still runs after the grace period."""
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        try:
            self._shell.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()
