"""The stream as the API server has it while the driver runs: live fields, and the next spec."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.restart import Restart
from penstock.api.v1alpha1.status import EditVerdict
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.rest import ApiError
from penstock.cluster.stream import Stream
from penstock.driver.failures import Failure
from penstock.driver.logs import log_event

# The operator waits for the verdict on an edit (controller/edits.py).
_ASK_SECONDS = 5.0
# The cause of a refusal may go away: a table that is created.
_JUDGE_AGAIN_SECONDS = 30.0


@dataclass(frozen=True)
class Live:
    """The part of a spec that a driver follows without a restart (api/v1alpha1/changes.py)."""

    log_level: str | None = None
    restart: Restart = Restart()  # noqa: RUF009

    @classmethod
    def of(cls, spec: StreamSpec) -> Live:
        """That of this spec."""
        return cls(spec.observability.log_level, spec.restart)


class FollowedStream:
    """What the driver takes from its stream while it runs.

    The live fields are not in the driver's document: a change of them is no other revision, which
    would restart the driver. Another spec is judged before the operator replaces the driver.
    """

    def __init__(self, live: Live = Live()) -> None:
        self.live = live
        """As the newest valid spec has them. In a pod the defaults until the first answer, which
        an unreachable API server delays: then there are no executors either."""
        self.verdict: EditVerdict | None = None
        """On the newest spec that could be judged."""
        self._judge_again_at = 0.0

    def follow(self, ask: Callable[[], Stream], judge: Callable[[Stream], Failure | None]) -> None:
        """Asks for the stream now, and then every five seconds in a thread."""
        self.look(ask)

        def run() -> None:
            while True:
                self.refresh(ask, judge)
                time.sleep(_ASK_SECONDS)

        threading.Thread(target=run, name="stream", daemon=True).start()

    def look(self, ask: Callable[[], Stream]) -> Stream | None:
        """Takes the live fields. Without an answer, or with an invalid spec, they stay as they are.

        The driver's role may be that of an older operator, and forbid the request.
        """
        try:
            stream = ask()
        except ApiError:
            return None
        try:
            spec = ContinuousStream.model_validate(stream.manifest, extra="ignore").spec
        except ValidationError:
            return stream
        live = Live.of(spec)
        if live != self.live:
            restart = live.restart.model_dump(by_alias=True)
            log_event("live fields of the stream have changed", logLevel=live.log_level, **restart)
        self.live = live
        return stream

    def refresh(self, ask: Callable[[], Stream], judge: Callable[[Stream], Failure | None]) -> None:
        """Looks once, and has another spec judged.

        `judge` raises where it cannot tell, and is asked again.
        """
        stream = self.look(ask)
        if stream is not None and not self._is_judged(stream):
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
