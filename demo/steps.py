"""The steps of both demos: payments in, flags out, a line every two seconds, a kill, the count."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from demo.payments import (
    AT_MOST,
    PER_SECOND,
    SINK,
    SOURCE,
    Count,
    count,
    describe_latency,
    payment,
    to_flag,
)
from testkit.errors import WaitTimeout
from testkit.kafka.traffic import Receiver, Sender
from testkit.wait import PATIENCE_SECONDS

_LINE_SECONDS = 2.0
_ARRIVAL_SECONDS = 60.0


def kill_and_count(
    bootstrap: str,
    watch_seconds: float,
    kill_and_wait: Callable[[], None],
    before_kill: Callable[[], None] = lambda: None,
) -> Count:
    """Sends payments throughout: watches the flags, kills the driver, watches half as long, counts.

    `kill_and_wait` returns when the stream runs again. A flag that has not arrived a minute after
    the last payment counts as lost. Raises WaitTimeout if not even the first one arrives.
    """
    with (
        Receiver(bootstrap, SINK) as flags,
        Sender(bootstrap, SOURCE, PER_SECOND, AT_MOST, payment) as payments,
        _ProgressPrinter(payments, flags),
    ):
        flags.wait_for_all(to_flag(PER_SECOND)[:1], PATIENCE_SECONDS)
        time.sleep(watch_seconds)
        before_kill()
        before = len(flags.arrivals.counts)
        kill_and_wait()
        time.sleep(watch_seconds / 2)
        sent = payments.finish()
        with contextlib.suppress(WaitTimeout):
            flags.wait_for_all(to_flag(sent), _ARRIVAL_SECONDS)
        time.sleep(2)  # a wrong flag or another duplicate would arrive now
        return count(sent, flags.arrivals.counts, before)


def print_line(text: str) -> None:
    """Prints a line at once, also into a pipe."""
    print(text, flush=True)


class _ProgressPrinter:
    """Prints every two seconds the records in, the flags out and their latency."""

    def __init__(self, payments: Sender, flags: Receiver) -> None:
        self._payments, self._flags = payments, flags
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._seen = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(_LINE_SECONDS):
            latencies = self._flags.arrivals.latencies_ms[self._seen :]
            self._seen += len(latencies)
            print_line(
                f"  payments in {self._payments.sent:6d}   "
                f"flags out {len(self._flags.arrivals.counts):5d}   {describe_latency(latencies)}"
            )
