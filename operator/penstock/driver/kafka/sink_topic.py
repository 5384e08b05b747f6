"""Checks before each start that the output topic exists.

Spark does not report a missing topic as such: a producer waits a minute for the topic's metadata
and then reports a timeout, and in real-time mode the query hangs silently (measured, Spark 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from penstock.api.v1alpha1 import Sink
from penstock.driver.calls_with_deadline import CallsWithDeadline
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import BROKER_UNREACHABLE, TOPIC_MISSING, DriverError, Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin

_GONE = (
    "If it was deleted, what stood in it is gone, and the stream goes on after its last commit: to "
    "write that again, begin another checkpoint.generation with an earlier startFrom. "
)
TOO_FEW_REPLICAS = "TooFewReplicas"


class SinkTopic:
    """The topic that the sink names, if it names one."""

    def __init__(
        self, jvm: Jvm, sink: Sink, secrets: Path, has_written: Callable[[], bool]
    ) -> None:
        """`has_written`: whether the stream may have written to the topic, if it is missing."""
        self._has_written = has_written
        self._jvm = jvm
        self._kafka = sink.kafka
        self._secrets = secrets
        self._calls = CallsWithDeadline("sink-topic")
        self._just_checked = False

    def check(self) -> None:
        """Raises if the topic is missing and the brokers do not create it; or Kafka's error."""
        if self._kafka is None or self._kafka.topic is None:
            return
        gateway, kafka, topic = self._jvm.gateway, self._kafka, self._kafka.topic

        def ask() -> None:
            with closing(Admin(gateway, kafka, self._secrets)) as admin:
                if require_topic(admin, topic, self._has_written) and awaits_all(kafka.options):
                    require_replicas(admin, topic, kafka.bootstrap_servers)

        self._calls.call(ask)
        self._just_checked = True

    def check_before_start(self) -> None:
        """Checks, unless there was a check since the last start."""
        if not self._just_checked:
            self.check()
        self._just_checked = False


def awaits_all(options: Mapping[str, str]) -> bool:
    """Whether a sink's producers wait for all replicas in sync, as they do by default.

    >>> awaits_all({}), awaits_all({"Kafka.acks": "1"})
    (True, False)
    """
    told = {name.lower(): value for name, value in options.items()}.get("kafka.acks", "all")
    return told in ("all", "-1")


def require_replicas(admin: Admin, topic: str, servers: str) -> None:
    """Raises DriverError if the output topic can never have the replicas that it asks for.

    A producer waits for them for two minutes, and reports too few of them, as if some were away.
    """
    try:
        replicas = admin.replicas(topic)
    except Exception as error:
        if classify_exception(error).reason == BROKER_UNREACHABLE:
            raise
        return  # most often for lack of rights
    if replicas.assigned >= replicas.needed:
        return
    raise DriverError(
        Failure(
            TOO_FEW_REPLICAS,
            f"The output topic {topic} has a partition with {replicas.assigned} replicas, and "
            f"takes nothing with fewer than {replicas.needed} in sync. Give it more replicas "
            f"(kafka-reassign-partitions.sh), or lower the number: kafka-configs.sh "
            f"--bootstrap-server {servers} --alter --topic {topic} --add-config "
            f"min.insync.replicas={replicas.assigned}",
            permanent=True,
            recoverable=True,
        )
    )


def require_topic(admin: Admin, topic: str, has_written: Callable[[], bool]) -> bool:
    """Whether the output topic exists; if not, the brokers create it.

    Raises DriverError if they do not.
    """
    try:
        admin.topics([topic])
        return True
    except Exception as error:
        if classify_exception(error).reason != TOPIC_MISSING:
            raise
    try:
        if admin.creates_topics():
            return False
    except Exception:  # most often for lack of rights: then the brokers may create it
        return False
    raise DriverError(
        Failure(
            TOPIC_MISSING,
            f"The output topic {topic} does not exist, and the brokers do not create topics "
            f"automatically. {_GONE if has_written() else ''}Create it, or correct "
            "spec.sink.kafka.topic.",
            permanent=True,
            recoverable=True,
        )
    )
