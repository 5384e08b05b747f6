"""The faults that the tests inject into a stream."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

from confluent_kafka import Producer

from e2e.cluster_stream import Stream
from e2e.install import NAMESPACE, OPERATOR
from testkit.cluster.traffic import Receiver
from testkit.kubernetes.kubectl import Kube
from testkit.wait import wait_for

# A transient failure in plain SQL: a poisoned record fails for its first eight seconds. A loaded
# machine needs some of them to read it. (rand() is no alternative: the continuous engine gives it a
# new seed in each epoch.)
POISON = "poison"
SQL_THAT_POISON_FAILS = f"""
SELECT key,
       CASE WHEN CAST(key AS STRING) = '{POISON}'
             AND CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)
                 - unix_millis(timestamp) < 8000
            THEN raise_error('injected failure') ELSE value END AS value
FROM source
"""

# No sender reaches this number.
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
    """Sends a poisoned record; waits until the query has failed on it and then processed it."""
    before = stream.restarts("query")
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
    producer.produce(topic, key=POISON, value=json.dumps({"n": POISON_NUMBER, "ms": 0}))
    producer.flush(30)
    stream.wait_for("one more restart of the query", lambda: stream.restarts("query") > before, 60)
    passed = functools.partial(out.arrivals.has, POISON_NUMBER)
    stream.wait_for("the poisoned record out", passed, 120)


def kill_jvm(stream: Stream) -> None:
    """Sends SIGKILL to the JVM of the driver."""
    stream.kube.run("exec", stream.driver_pod, "--", "python3", "-c", _KILL_JVM)


def delete_driver_pod(stream: Stream) -> None:
    """Deletes the driver's pod without a grace period."""
    stream.kube.run("delete", "pod", stream.driver_pod, "--grace-period=0", "--force")


def delete_an_executor(stream: Stream) -> None:
    """Deletes one executor pod without a grace period."""
    pod = stream.executors()[0]["metadata"]["name"]
    stream.kube.run("delete", "pod", pod, "--grace-period=0", "--force")


class OperatorStopped:
    """The operator's Deployment has no pods during the block."""

    def __init__(self, kube: Kube) -> None:
        self._kube = replace(kube, namespace=NAMESPACE)

    def __enter__(self) -> None:
        self._scale(0)
        wait_for("no pod of the operator", lambda: not self._pods(), 60, every=0.5)

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
