"""The drill: an alert calls a person, who asks `penstock doctor`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.chaos.alerting import Alerting
from e2e.cluster_stream import Stream
from testkit.kubernetes.penstock_command import PenstockCommand
from testkit.operations.alertmanager import Notification


@dataclass
class Call:
    """The alert that called, and what doctor answered."""

    alert: str
    fired: Notification | None = None
    """None if it did not."""
    answer: str = ""
    """The first line with a finding. The line before it says `ok` if the stream has recovered
    meanwhile."""

    def __str__(self) -> str:
        """One line of the table."""
        if not self.alert:
            return "no alert"
        return self.answer if self.fired else f"{self.alert} did not fire"


@contextlib.contextmanager
def on_call(stream: Stream, alerts: Alerting, alert: str) -> Iterator[Call]:
    """Somebody who waits for an alert during the block (if it has a name), and asks doctor then."""
    call, over = Call(alert), threading.Event()
    doctor = PenstockCommand(stream.kube.kubeconfig, stream.kube.namespace)
    began = time.time()

    def answer() -> None:
        while call.fired is None and not over.wait(0.2):
            call.fired = next(iter(alerts.fired(alert, began)), None)
        if call.fired is not None:
            lines = doctor.run("doctor", stream.name).stdout.splitlines()
            call.answer = next((line for line in lines if not line.startswith("ok: ")), "")

    person = threading.Thread(target=answer)
    person.start()
    try:
        yield call
    finally:
        over.set()
        person.join()
