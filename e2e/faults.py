"""The ways a stream is made to fail."""

from __future__ import annotations

import functools
import json

from confluent_kafka import Producer

from e2e.install import NAMESPACE, OPERATOR
from e2e.kube import Kube, wait_for
from e2e.streams import Stream
from e2e.traffic import Receiver

# Fails about every second time it meets a poisoned record, so that the query fails and a later
# try of the same record goes through: a failure that passes, made in plain SQL.
POISON = "poison"
SQL_THAT_POISON_FAILS = f"""
SELECT key,
       CASE WHEN CAST(key AS STRING) = '{POISON}' AND rand() < 0.5
            THEN raise_error('injected failure') ELSE value END AS value
FROM source
"""

# A number that no sender reaches.
POISON_NUMBER = 10**9

_KILL_JVM = """
import os, pathlib, signal
for each in pathlib.Path("/proc").iterdir():
    if each.name.isdigit():
        try:
            name = (each / "comm").read_text().strip()
        except OSError:
            continue
        if name == "java":
            os.kill(int(each.name), signal.SIGKILL)
"""


def fail_query(stream: Stream, bootstrap: str, topic: str, out: Receiver) -> None:
    """Sends poisoned records, one at a time, until the query has failed at one of them."""
    before = stream.restarts("query")
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(POISON_NUMBER, POISON_NUMBER + 20):
        producer.produce(topic, key=POISON, value=json.dumps({"n": number, "ms": 0}))
        producer.flush(30)
        passed = functools.partial(out.arrivals.has, number)
        wait_for("the poisoned record out", passed, 120, stream.situation)
        # The report of a restart may trail its records by one status beat.
        if stream.restarts("query") > before:
            return
    wait_for("a restart counted", lambda: stream.restarts("query") > before, 30, stream.situation)


def kill_jvm(stream: Stream) -> None:
    """SIGKILL to the JVM of the driver."""
    stream.kube.run("exec", stream.driver_pod, "--", "python3", "-c", _KILL_JVM)


def delete_driver_pod(stream: Stream) -> None:
    """The driver's pod deleted with no grace at all."""
    stream.kube.run("delete", "pod", stream.driver_pod, "--grace-period=0", "--force")


def delete_an_executor(stream: Stream) -> None:
    """One executor pod deleted with no grace at all."""
    pod = stream.executors()[0]["metadata"]["name"]
    stream.kube.run("delete", "pod", pod, "--grace-period=0", "--force")


class OperatorAway:
    """While this context is open the operator's Deployment has no pods."""

    def __init__(self, anywhere: Kube) -> None:
        self._kube = Kube(anywhere.kubectl, anywhere.kubeconfig, NAMESPACE)

    def __enter__(self) -> None:
        self._scale(0)
        wait_for("operator gone", lambda: not self._pods(), 60)

    def __exit__(self, *_: object) -> None:
        self._scale(1)

    def _scale(self, replicas: int) -> None:
        self._kube.run("scale", "deployment", OPERATOR, f"--replicas={replicas}")
        if replicas == 0:
            self._kube.run(
                "delete", "pod", "-l", "app.kubernetes.io/component=operator",
                "--grace-period=0", "--force", "--ignore-not-found",
            )  # fmt: skip

    def _pods(self) -> list[dict[str, object]]:
        return self._kube.select("pods", "app.kubernetes.io/component=operator")
