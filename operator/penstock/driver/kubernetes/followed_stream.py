"""The stream as the API server has it while the driver runs: live fields, and edits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import yaml
from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.restart import Restart
from penstock.api.v1alpha1.restarts_by_field import without_live
from penstock.api.v1alpha1.status import EditVerdict
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.lenient_fields import mapping
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream
from penstock.contract import naming
from penstock.contract.stream_defaults import NO_DEFAULTS, StreamDefaults
from penstock.driver.background_threads import newest_in_background
from penstock.driver.failures import Failure
from penstock.driver.kubernetes.api import OwnStream
from penstock.driver.logs import log_event

# So long one watch takes: a connection that is dead without a word is noticed after it. While an
# edit is not taken, each watch is an occasion to look for its document, which no watch shows.
_WATCH_SECONDS = 60
_SHORT_WATCH_SECONDS = 5
# After an error, and after a watch that ended at once.
_PAUSE_SECONDS = 5.0
_SHORT_PAUSE_SECONDS = 0.1
# The cause of a refusal may go away: a table that is created.
_JUDGE_RETRY_SECONDS = 30.0

Judge = Callable[[Stream], Failure | None]


@dataclass(frozen=True)
class LiveFields:
    """The part of a spec that a driver follows without a restart (restarts_by_field.py)."""

    log_level: str | None = None
    restart: Restart = Restart()  # noqa: RUF009

    @classmethod
    def of(cls, spec: StreamSpec) -> LiveFields:
        """That of this spec."""
        return cls(spec.observability.log_level, spec.restart)


@dataclass(frozen=True)
class StreamDocument:
    """What a driver reads: a stream whose spec the operator has applied."""

    text: str
    defaults: StreamDefaults = NO_DEFAULTS
    """The operator's, which are not in it."""

    @cached_property
    def stream(self) -> ContinuousStream:
        """Raises ValueError or YAMLError if it cannot be read.

        Without the fields that are unknown: a newer operator may know more of them than the driver
        of an older image.
        """
        content = self.defaults.under(mapping(yaml.safe_load(self.text)))
        return ContinuousStream.model_validate(content, extra="ignore")

    @property
    def spec_hash(self) -> str:
        return naming.spec_hash(self.text)

    def is_wanted(self, stream: Stream) -> bool:
        """Whether it is what the operator makes of the stream as it is.

        Of a spec that it has given up, it makes the last one with which the stream was Ready.
        """
        rollout = stream.status.rollout
        if rollout is not None and rollout.failure is not None:
            return self.spec_hash == rollout.last_ready_revision
        return {
            "image": self._spec.get("image"),
            **without_live(_spec(stream.manifest)),
        } == self._spec

    @cached_property
    def _spec(self) -> Mapping[str, Any]:
        return _spec(yaml.safe_load(self.text))


def _spec(manifest: object) -> Mapping[str, Any]:
    return mapping(mapping(manifest).get("spec"))


class FollowedStream:
    """What the driver takes from its stream while it runs.

    The live fields are not in the driver's document: a change of them makes no other one. An edit
    is judged before the operator applies it. If it applies it for a pod like this one, there is
    another document, and the driver starts that query in the session that it has.
    """

    def __init__(
        self, live: LiveFields = LiveFields(), defaults: StreamDefaults = NO_DEFAULTS
    ) -> None:
        self.defaults = defaults
        self.live = live
        """As the newest valid spec has them. In a pod the defaults until the first answer, which
        an unreachable API server delays: then there are no executors either."""
        self.verdict: EditVerdict | None = None
        """On the newest spec that could be judged."""
        self._judge_retry_at = 0.0
        self._judge: Judge = lambda stream: None
        self._untold = -1
        """The generation about which Spark cannot tell anything in time."""
        self._hand_to_judge: Callable[[Stream], None] = self._ask_judge
        self._document: StreamDocument | None = None
        self._newest: StreamDocument | None = None
        self._is_behind = False
        """The stream says something else than the newest document."""

    def begin(self, document: StreamDocument, judge: Judge) -> None:
        """The driver runs this document's query from now on, with which `judge` compares edits."""
        self._document, self._judge = document, judge
        self._newest = self._newest or document

    @property
    def next_document(self) -> StreamDocument | None:
        """The document to follow instead; None if there is no other one."""
        return None if self._newest == self._document else self._newest

    def follow(self, own: OwnStream) -> None:
        """Asks for stream and document now, and then after each change, in a thread."""
        self.look(own.stream)
        self._fetch(own)
        # A plan may take long. Live fields and a later edit are taken meanwhile.
        self._hand_to_judge = newest_in_background(self._ask_judge, "edit")

        def run() -> None:
            while True:
                try:
                    seconds = _SHORT_WATCH_SECONDS if self._is_behind else _WATCH_SECONDS
                    for stream in own.changes(seconds):
                        self.refresh(stream, own)
                    time.sleep(_SHORT_PAUSE_SECONDS)
                except ApiError:
                    time.sleep(_PAUSE_SECONDS)

        threading.Thread(target=run, name="stream", daemon=True).start()

    def look(self, ask: Callable[[], Stream]) -> None:
        """Takes the live fields, if there is an answer.

        The driver's role may be that of an older operator, and forbid the request.
        """
        try:
            self._take_live(ask())
        except ApiError:
            return

    def refresh(self, stream: Stream, own: OwnStream) -> None:
        """Takes the live fields and a new document, and has another spec judged.

        The judge raises where it cannot tell now, and is asked again; TimeoutError where it cannot
        tell at all.
        """
        self._take_live(stream)
        self._is_behind = self._newest is not None and not self._newest.is_wanted(stream)
        if self._is_behind:
            self._fetch(own)
        if not self._is_judged(stream):
            self._hand_to_judge(stream)

    def _take_live(self, stream: Stream) -> None:
        """With an invalid spec they stay as they are."""
        try:
            spec = ContinuousStream.model_validate(stream.manifest, extra="ignore").spec
        except ValidationError:
            return
        live = LiveFields.of(spec)
        if live != self.live:
            restart = live.restart.model_dump(by_alias=True)
            log_event("live fields of the stream have changed", logLevel=live.log_level, **restart)
        self.live = live

    def _fetch(self, own: OwnStream) -> None:
        """Takes a document that can be read. Without one, the operator replaces the pod in time."""
        try:
            newest = StreamDocument(own.document() or "", self.defaults)
            if newest not in (self._document, self._newest):
                assert newest.stream
        except ApiError:
            return
        except (ValueError, yaml.YAMLError) as error:
            log_event("the document cannot be read", logging.WARNING, error=type(error).__name__)
            return
        self._newest = newest

    def _is_judged(self, stream: Stream) -> bool:
        known = self.verdict
        if stream.generation == self._untold:
            return True
        if known is None or known.generation != stream.generation:
            return False
        return known.refusal is None or time.monotonic() < self._judge_retry_at

    def _ask_judge(self, stream: Stream) -> None:
        if self._is_judged(stream):
            return  # while it waited for its turn
        try:
            failure = self._judge(stream)
        except TimeoutError as error:
            log_event("Spark cannot tell about an edit before it is applied", why=str(error))
            self._untold = stream.generation
            return
        except (Exception, SystemExit):  # the user's Python may exit
            return
        now = datetime.now(UTC).replace(microsecond=0)
        refusal = None if failure is None else failure.to_status(now)
        verdict, known = EditVerdict(generation=stream.generation, refusal=refusal), self.verdict
        self._judge_retry_at = time.monotonic() + _JUDGE_RETRY_SECONDS
        if known is not None and _says(verdict) == _says(known):
            return  # not again, with another time
        if known is not None or refusal is not None:
            log_event("Spark was asked about an edit", refusal=refusal and refusal.reason)
        self.verdict = verdict


def _says(verdict: EditVerdict) -> tuple[int, str, str]:
    refusal = verdict.refusal
    return verdict.generation, refusal.reason if refusal else "", refusal.message if refusal else ""
