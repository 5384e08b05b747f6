"""Calls that may block in the network, made in a thread of their own with a deadline.

A name resolution cannot be interrupted, and takes as long as the resolver's configuration says:
often more than a minute. The caller continues after its deadline, whatever the call does.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

from penstock.driver.failures import BROKER_UNREACHABLE, DriverError, Failure

# One call is up to four requests of Admin, which usually answer within milliseconds. A step of the
# driver makes up to three calls.
CALL_SECONDS = 15.0
# What one partition, topic or transactional id adds to that: the brokers and py4j take a few
# milliseconds for it, on a machine that has better things to do.
SECONDS_FOR_EACH = 0.05
_IDLE_SECONDS = 60.0

_NO_BROKER = Failure(BROKER_UNREACHABLE, "Neither Kafka's brokers nor the name server answered")

T = TypeVar("T")


class CallsWithDeadline:
    """Runs one call after another, in a thread that ends when it is idle for a minute."""

    def __init__(
        self, name: str, seconds: float = CALL_SECONDS, unanswered: Failure = _NO_BROKER
    ) -> None:
        """`unanswered` is the failure after the deadline; its message ends with the seconds."""
        self._name = name
        self._seconds = seconds
        self._unanswered = unanswered
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._runs = False

    def call(self, function: Callable[[], T], asked: int = 0) -> T:
        """The result of `function`, or its exception; `unanswered` after the deadline.

        `asked` is the number of partitions, topics or transactional ids that it asks for, with
        which its deadline grows. A call that still waits for an earlier one at its deadline is
        never made.
        """
        seconds = self._seconds + SECONDS_FOR_EACH * asked
        future: Future[T] = Future()
        with self._lock:
            self._waiting.put(lambda: complete(future, function))
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():  # the function's own
                raise
            future.cancel()
            message = f"{self._unanswered.message} within {seconds:.0f} s."
            raise DriverError(replace(self._unanswered, message=message)) from None

    def _run(self) -> None:
        while True:
            try:
                self._waiting.get(timeout=_IDLE_SECONDS)()
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._runs = False
                        return


def complete(future: Future[T], function: Callable[[], T]) -> None:
    """Gives the future what the function returns or raises; not if the future was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
