"""The drill: an alert calls a person, who asks `penstock doctor` and follows the runbook."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.chaos.alerting import Alerting
from e2e.chaos.runbook import follow
from testkit.cluster.install import Installation
from testkit.cluster.stream import Stream
from testkit.kubernetes.penstock_command import PenstockCommand
from testkit.operations.prometheus import FiredAlert
from testkit.wait import wait_for

# How long a person asks again while the driver has not found out why it makes no progress.
_ASK_SECONDS = 30.0


@dataclass
class Call:
    """The alert that called, and what doctor answered."""

    alert: str
    fired: FiredAlert | None = None
    """None if it did not."""
    answer: str = ""
    error: str = ""
    """What was wrong with doctor's answer or the runbook."""

    def __str__(self) -> str:
        if not self.alert:
            return "no alert"
        return self.error or self.answer if self.fired else f"{self.alert} did not fire"


class PersonOnCall:
    """Answers alerts about one stream. Each runbook is followed at its first alert."""

    def __init__(self, installation: Installation, stream: Stream, alerts: Alerting) -> None:
        self._cluster = installation.cluster
        self._stream = stream
        self._alerts = alerts
        self._doctor = PenstockCommand(stream.kube.kubeconfig, stream.kube.namespace)
        self._followed: set[str] = set()

    def ask_doctor(self) -> str:
        """The first answer that says more than that nothing moves; WaitTimeout without one."""
        return wait_for("a cause", self._cause, _ASK_SECONDS, self._ask_once, every=1.0)

    def _cause(self) -> str:
        """The answer; empty while the driver itself does not know why it makes no progress."""
        said = self._ask_once()
        return "" if ": NoProgress: Restarting" in said else said

    def _ask_once(self) -> str:
        """The first line. If the stream has recovered, the next one says from what."""
        first, *others = self._doctor.run("doctor", self._stream.name).stdout.splitlines()
        return f"{first}; {others[0]}" if first.startswith("ok: ") else first

    def follow_runbook(self, fired: FiredAlert) -> None:
        """Follows the runbook of an alert that fires; AssertionError if that fails."""
        if fired.name not in self._followed:
            self._followed.add(fired.name)
            follow(fired, self._cluster, self._alerts)

    @contextlib.contextmanager
    def waiting_for(self, alert: str) -> Iterator[Call]:
        """Waits for an alert during the block, if it has a name, and answers it."""
        call, over, began = Call(alert), threading.Event(), time.time()

        def answer() -> None:
            while call.fired is None and not over.wait(0.2):
                call.fired = next(iter(self._alerts.fired(alert, began)), None)
            if call.fired is not None:
                try:
                    call.answer = self.ask_doctor()
                    self.follow_runbook(call.fired)
                except AssertionError as error:
                    call.error = str(error)

        person = threading.Thread(target=answer)
        person.start()
        try:
            yield call
        finally:
            over.set()
            person.join()
