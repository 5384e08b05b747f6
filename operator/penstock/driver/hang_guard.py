"""Ends a driver whose JVM is frozen, or whose loop is blocked: such calls never return.

A step that the user's code can prolong may take an hour, as long as the JVM answers (loop.py).

Py4J calls have no timeout, so a thread that makes no such calls watches. In a pod the kubelet would
find a blocked loop at /livez, but later and without a reason. While the driver's JVM is frozen,
executors keep writing records that will be written a second time (8,282 in 100 s, measured), so the
thread asks often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.driver.failures import Failure
from penstock.driver.reporting.http_server import Health

# Threads of an idle JVM itself, such as the one that counts its ticks, use less than this.
_IDLE_SHARE = 0.01


@dataclass(frozen=True)
class HangGuard:
    """Seconds of the guard."""

    ask_interval: float = 2.0
    answer_timeout: float = 4.0
    """How long the JVM may take to answer before the driver is not ready."""
    frozen_after: float = 15.0
    """How long a JVM that does nothing may be without an answer."""
    overloaded_after: float = 60.0
    """How long a JVM that works may be without one: it collects garbage, or its node has too little
    processor time. A restart of each such driver would need more of it than the node has."""

    def watch(
        self,
        health: Health,
        answers: Callable[[float], bool],
        cpu_seconds: Callable[[], float],
        on_hang: Callable[[Failure], None],
    ) -> threading.Event:
        """Calls `on_hang` once if the loop or the JVM hangs. Set the returned event to stop.

        `answers` asks the JVM; it takes the seconds to wait and must return by then. `cpu_seconds`
        is the processor time that the JVM has used.
        """
        stopped = threading.Event()

        def run() -> None:
            failure = None
            answered_at, used = time.monotonic(), cpu_seconds()
            while failure is None and not stopped.wait(self.ask_interval):
                health.jvm_answers = answers(self.answer_timeout)
                if health.jvm_answers:
                    answered_at, used = time.monotonic(), cpu_seconds()
                silent, worked = time.monotonic() - answered_at, cpu_seconds() - used
                failure = self._failure(health, silent, worked)
            if failure is not None and not stopped.is_set():
                on_hang(failure)

        threading.Thread(target=run, name="hang-guard", daemon=True).start()
        return stopped

    def _failure(self, health: Health, silent: float, worked: float) -> Failure | None:
        if silent > self.overloaded_after:
            return Failure(
                "DriverHung",
                f"The JVM has not answered for {silent:.0f} s, in which it used {worked:.1f} s of "
                "processor time. The process restarts. Give the driver more CPU or memory "
                "(spec.driver.resources).",
            )
        if silent > self.frozen_after and worked < _IDLE_SHARE * silent:
            return Failure(
                "DriverHung",
                f"The JVM has not answered for {silent:.0f} s and does nothing. The process "
                "restarts.",
            )
        if not health.is_alive():
            return Failure(
                "DriverHung",
                f"The driver took longer than {health.iteration_timeout:.0f} s for one step"
                f"{f' ({health.step})' if health.step else ''}. The JVM "
                f"answered {silent:.0f} s ago. The process restarts.",
            )
        return None
