"""Ends a driver whose loop is blocked: calls into a JVM that hangs never return.

Py4J calls have no timeout, so a thread that makes no such calls watches the loop. In a pod the
kubelet would find the same at /livez, but later and without a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.driver.failures import Failure
from penstock.driver.reporting.http_server import Health

_CHECK_INTERVAL_SECONDS = 1.0


def watch(health: Health, on_hang: Callable[[Failure], None]) -> threading.Event:
    """Calls `on_hang` once if the loop is blocked. Set the returned event to stop watching."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(_CHECK_INTERVAL_SECONDS):
            if not health.is_alive():
                on_hang(
                    Failure(
                        "DriverHung",
                        f"A step of the driver took longer than {health.iteration_timeout:.0f} s "
                        "because the JVM does not answer. The process restarts.",
                    )
                )
                return

    threading.Thread(target=run, name="hang-guard", daemon=True).start()
    return stopped
