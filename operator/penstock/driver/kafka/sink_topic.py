"""The output topic, looked for before each start.

Spark does not say that it is missing: a producer waits a minute for the topic's metadata and calls
it a timeout, and in real-time mode the query hangs without a word (measured with Spark 4.2).
"""

from __future__ import annotations

from pathlib import Path

from penstock.api.v1alpha1 import Sink
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin, require_topic


class SinkTopic:
    """Asks the sink's brokers for the topic, if the sink names one."""

    def __init__(self, jvm: Jvm, sink: Sink, secrets: Path) -> None:
        self._jvm = jvm
        self._kafka = sink.kafka
        self._secrets = secrets
        self._looked = False

    def look(self) -> None:
        """Raises if the topic is not there and will not come by itself, or what Kafka says."""
        if self._kafka is None or self._kafka.topic is None:
            return
        admin = Admin(self._jvm.gateway, self._kafka, self._secrets)
        try:
            require_topic(admin, self._kafka.topic)
        finally:
            admin.close()
        self._looked = True

    def look_again(self) -> None:
        """Looks, unless nothing has started since the last look."""
        if not self._looked:
            self.look()
        self._looked = False
