"""The stream as the API server has it while the driver runs: its log level, and its next spec."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from penstock.api.v1alpha1.status import EditVerdict
from penstock.cluster.lenient_fields import at
from penstock.cluster.rest import ApiError
from penstock.cluster.stream import Stream
from penstock.driver.failures import Failure
from penstock.driver.logs import log_event

# The operator waits for the verdict on an edit (controller/edits.py).
_ASK_SECONDS = 5.0
# The cause of a refusal may go away: a table that is created.
_JUDGE_AGAIN_SECONDS = 30.0


class FollowedStream:
    """What the driver takes from its stream while it runs.

    The log level is not in the driver's document: another level is no other revision, which would
    restart the driver. Another spec is judged before the operator replaces the driver.
    """

    def __init__(self, log_level: str | None = None) -> None:
        self.log_level = log_level
        """`spec.observability.logLevel` as it is now; None without one."""
        self.verdict: EditVerdict | None = None
        """On the newest spec that could be judged."""
        self._judge_again_at = 0.0

    def follow(self, ask: Callable[[], Stream], judge: Callable[[Stream], Failure | None]) -> None:
        """Asks for the stream now and every five seconds, in a thread."""

        def run() -> None:
            while True:
                self.refresh(ask, judge)
                time.sleep(_ASK_SECONDS)

        threading.Thread(target=run, name="stream", daemon=True).start()

    def refresh(self, ask: Callable[[], Stream], judge: Callable[[Stream], Failure | None]) -> None:
        """Asks once. Without an answer all stays as it was.

        The driver's role may be that of an operator that knew no log level, and forbid the request.
        `judge` raises where it cannot tell, and is asked again.
        """
        try:
            stream = ask()
        except ApiError:
            return
        level = at(stream.manifest, "spec", "observability", "logLevel")
        if level != self.log_level:
            log_event("another log level is asked for", logLevel=level)
        self.log_level = level
        if not self._is_judged(stream):
            self._judge(stream, judge)

    def _is_judged(self, stream: Stream) -> bool:
        known = self.verdict
        if known is None or known.generation != stream.generation:
            return False
        return known.refusal is None or time.monotonic() < self._judge_again_at

    def _judge(self, stream: Stream, judge: Callable[[Stream], Failure | None]) -> None:
        try:
            failure = judge(stream)
        except (Exception, SystemExit):  # the user's Python may exit
            return
        now = datetime.now(UTC).replace(microsecond=0)
        refusal = None if failure is None else failure.to_status(now)
        verdict, known = EditVerdict(generation=stream.generation, refusal=refusal), self.verdict
        self._judge_again_at = time.monotonic() + _JUDGE_AGAIN_SECONDS
        if known is not None and _says(verdict) == _says(known):
            return  # not again, with another time
        if known is not None or refusal is not None:
            log_event("Spark was asked about an edit", refusal=refusal and refusal.reason)
        self.verdict = verdict


def _says(verdict: EditVerdict) -> tuple[int, str, str]:
    refusal = verdict.refusal
    return verdict.generation, refusal.reason if refusal else "", refusal.message if refusal else ""
