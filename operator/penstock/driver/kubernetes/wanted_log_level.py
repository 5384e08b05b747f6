"""The log level that the stream's spec asks for while the stream runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.cluster.rest import ApiError
from penstock.driver.logs import log_event

_ASK_SECONDS = 15.0


class WantedLogLevel:
    """`spec.observability.logLevel` as it is now; None without one.

    The operator keeps it out of the driver's document: another level is no other revision, which
    would restart the driver.
    """

    def __init__(self, value: str | None = None) -> None:
        self.value = value

    def follow(self, ask: Callable[[], str | None]) -> None:
        """Asks for the level now and every 15 s, in a thread."""

        def run() -> None:
            while True:
                self.refresh(ask)
                time.sleep(_ASK_SECONDS)

        threading.Thread(target=run, name="log-level", daemon=True).start()

    def refresh(self, ask: Callable[[], str | None]) -> None:
        """Asks once. Without an answer the level stays.

        The driver's role may be that of an operator that knew no log level, and forbid the request.
        """
        try:
            wanted = ask()
        except ApiError:
            return
        if wanted != self.value:
            log_event("another log level is asked for", logLevel=wanted)
        self.value = wanted
