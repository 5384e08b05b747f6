"""One query after the other in a driver's process: an edited one takes the place of the one before.

What outlives a query is passed on: the session with its executors, the metrics, the pages.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import replace

from penstock.api.v1alpha1.restarts_by_field import without_live
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import NUMBERS, DriverReport
from penstock.driver.checkpoint.notes import NotesFile
from penstock.driver.context import DriverContext
from penstock.driver.kubernetes.followed_stream import StreamDocument
from penstock.driver.logs import log_event
from penstock.driver.loop import DriverOutput, Loop
from penstock.driver.process_restart import NO_EARLIER, EarlierProcesses
from penstock.driver.reporting.metric_sampler import Sampler
from penstock.driver.spark.edit_judge import EditJudge
from penstock.driver.supervision.history import NotedHistory
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.restart_policy import RestartPolicy


class Queries:
    """The queries of one stream in a given JVM."""

    def __init__(
        self,
        document: StreamDocument,
        stream: ContinuousStream,
        context: DriverContext,
        output: DriverOutput,
        earlier: EarlierProcesses = NO_EARLIER,
    ) -> None:
        self._context = context
        self._followed = context.followed
        self._output = output
        self._earlier = earlier
        self._document = document
        self._runtime = QueryRuntime(stream, context)
        self._loop = self._begin(stream)

    @property
    def may_end_at_once(self) -> bool:
        """Whether there is nothing to lose yet."""
        return not self._loop.stopping and not self._runtime.has_query

    @property
    def needs_executors(self) -> bool:
        """Whether a query is to run, and does not."""
        return self._loop.needs_executors

    def note_clean_stop(self) -> None:
        """For a process that ends before a query runs: `Loop.note_clean_stop`."""
        self._loop.note_clean_stop()

    def run(self, stop: threading.Event) -> None:
        """Returns after a clean stop; raises DriverMustExit if the process must exit."""
        while True:
            self._loop.run(stop)
            if stop.is_set():
                self._runtime.stop_session()  # if it was kept for another query
                return
            self._document = self._followed.next_document or self._document
            stream = self._document.stream
            log_event("the edited query is started", revision=self._document.spec_hash)
            self._context.application.begin_next_query()
            self._runtime = QueryRuntime(stream, self._context)
            self._loop = self._begin(stream)

    def _report(self, report: DriverReport) -> None:
        of_process = {
            "edit": self._followed.verdict,
            "process_restarts": self._earlier.restarts,
            "checkpoint_generation": self._runtime.checkpoint_generation,
            "last_failure": report.last_failure or self._earlier.failure,
        }
        if self._runtime.checkpoint_generation is None:
            # Of another generation, as far as the operator knows.
            of_process |= dict.fromkeys(NUMBERS)
        self._output.publish(report.model_copy(update=of_process))

    def _begin(self, stream: ContinuousStream) -> Loop:
        runtime, followed, output = self._runtime, self._followed, self._output
        environment, checkpoints = self._context.environment, self._context.checkpoints
        application = self._context.application
        judge = EditJudge(
            stream.spec,
            environment,
            checkpoints,
            lambda: runtime.session,
            followed.defaults,
            lambda: application.state_tasks > 0,
        )
        followed.begin(self._document, judge.judge)
        sampler = Sampler(
            runtime, self._context.jvm, stream.spec, environment.secrets, output.metrics
        )
        generation = stream.spec.checkpoint.generation
        policy = RestartPolicy.from_spec(stream.spec).with_restart(followed.live.restart)
        return Loop(
            runtime,
            policy,
            self._document.spec_hash,
            replace(output, publish=self._report),
            NotedHistory(NotesFile(checkpoints.generation(generation)), _query_hash(stream)),
            sampler,
        )


def _query_hash(stream: ContinuousStream) -> str:
    """Tells one query from another: after a restart that a person asked for the same one runs, and
    so it does with other live fields.
    """
    spec = stream.spec.model_dump(mode="json", by_alias=True, exclude={"restarted_at"})
    return hashlib.sha256(json.dumps(without_live(spec)).encode()).hexdigest()
