"""Stops the driver on SIGTERM and SIGINT, within the kubelet's grace period."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from penstock.contract import naming
from penstock.driver.jvm import Jvm
from penstock.driver.logs import log_event

# Within the pod's grace period. A commit, the query, its tasks and Spark itself may take their time
# on a busy node (loop.py, session.py, executors.py).
_STOP_SECONDS = naming.GRACE_SECONDS - 10.0
# How long a step may run after the signal while no query runs: there is nothing to lose.
_STEP_SECONDS = 3.0
_EXIT_SECONDS = 3.0
_LAST_SECONDS = 2.0


class Shutdown:
    """Sets `stop` on a signal, and ends the process if that takes too long.

    A handler runs in the main thread, between any two of its instructions: also while it holds the
    lock of the very event that it waits for. So the handler only writes to a pipe, and a thread
    does the rest. The checkpoint survives an end at any moment, and the kubelet would do the same
    after its grace period. A second Ctrl-C ends the process at once.
    """

    def __init__(self, stop: threading.Event, jvm: Jvm) -> None:
        self._stop = stop
        self._jvm = jvm
        self._closed = threading.Event()
        self._signals, self._write_end = os.pipe()
        self.may_end_at_once: Callable[[], bool] = lambda: True
        """Whether the driver is in a step before a query runs."""
        self.before_end: Callable[[], None] = lambda: None
        """Called before the JVM is ended in such a step; it has little time."""
        self.ended_at_once = False
        """The JVM was ended during such a step: this is a clean stop."""
        threading.Thread(target=self._run, name="shutdown", daemon=True).start()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def close(self) -> None:
        """The driver has stopped by itself."""
        self._closed.set()

    def request(self) -> None:
        """Stops the driver as a SIGTERM does."""
        os.write(self._write_end, bytes([signal.SIGTERM]))

    def _on_signal(self, number: int, frame: object) -> None:
        os.write(self._write_end, bytes([number]))

    def _run(self) -> None:
        os.read(self._signals, 1)
        threading.Thread(target=self._end_in_time, name="shutdown-timer", daemon=True).start()
        self._stop.set()
        while os.read(self._signals, 1) != bytes([signal.SIGINT]):
            pass
        self._kill()

    def _end_in_time(self) -> None:
        if self._closed.wait(_STEP_SECONDS):
            return
        if not self.may_end_at_once():
            if not self._closed.wait(_STOP_SECONDS - _STEP_SECONDS):
                self._kill()
            return
        log_event("stopped before a query ran")
        self.ended_at_once = True
        last = threading.Thread(target=self.before_end, name="before-end", daemon=True)
        last.start()
        last.join(_LAST_SECONDS)
        self._jvm.kill()
        if not self._closed.wait(_EXIT_SECONDS):
            os._exit(0)

    def _kill(self) -> None:
        log_event("the stop took too long; the process is killed", level=40)
        self._jvm.kill()
        os._exit(1)
