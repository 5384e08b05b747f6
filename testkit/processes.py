"""Waits until background processes are ready for clients."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

from penstock.local.tools.child_process import ChildProcess
from testkit.errors import ClusterError
from testkit.wait import PATIENCE_SECONDS, wait_for


def wait_until_ready(
    what: str,
    processes: Sequence[ChildProcess],
    is_ready: Callable[[], bool],
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Waits until `is_ready`; ClusterError, with the end of each log, if a process ends before."""

    def last_lines() -> str:
        return "\n".join(f"Last lines of {p.log.name}:\n{p.last_lines()}" for p in processes)

    def ready() -> bool:
        if not all(process.running for process in processes):
            raise ClusterError(f"{what} did not start.\n{last_lines()}")
        return is_ready()

    wait_for(f"{what} ready", ready, seconds, last_lines)


def listens(port: int) -> bool:
    """Whether a process takes connections at this port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False
