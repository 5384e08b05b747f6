"""Ends a driver that no longer turns: a JVM that hangs would keep its caller waiting for ever.

Calls into the JVM have no time limit of their own, so the loop is watched from a thread that makes
none. In a pod the kubelet would see the same at /livez, later and without a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.driver.failures import Failure
from penstock.driver.reporting.http_server import Health

_BEAT = 1.0


def watch(health: Health, on_hang: Callable[[Failure], None]) -> threading.Event:
    """Calls `on_hang` once, should the loop stop turning; the event ends the watch."""
    over = threading.Event()

    def keep_watching() -> None:
        while not over.wait(_BEAT):
            if not health.is_alive():
                on_hang(
                    Failure(
                        "DriverHung",
                        f"a step of the driver took longer than {health.may_take:.0f} s: its JVM "
                        "no longer answers; the process is started again",
                    )
                )
                return

    threading.Thread(target=keep_watching, name="watchman", daemon=True).start()
    return over
