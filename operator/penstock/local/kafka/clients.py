"""Kafka's clients in the driver's own JVM, so that nothing more has to be installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CALL_SECONDS = 30


class KafkaClients:
    """Creates clients of one broker; the caller closes each producer and consumer."""

    def __init__(self, gateway: Any, bootstrap: str) -> None:
        self.jvm = gateway.jvm
        self.kafka = self.jvm.org.apache.kafka
        self._bootstrap = bootstrap

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Creates the topics that do not exist, each with its number of partitions."""
        admin = self.kafka.clients.admin.AdminClient.create(self._options())
        try:
            existing = set(self.result(admin.listTopics().names()))
            missing = self.jvm.java.util.ArrayList()
            for topic in sorted(set(topics) - existing):
                partitions = self.jvm.java.util.Optional.of(topics[topic])
                replicas = self.jvm.java.util.Optional.empty()
                missing.add(self.kafka.clients.admin.NewTopic(topic, partitions, replicas))
            self.result(admin.createTopics(missing).all())
        finally:
            admin.close()

    def producer(self) -> Any:
        """A producer of string keys and values that sends at once."""
        return self.kafka.clients.producer.KafkaProducer(
            self._options(**{"linger.ms": "0"}), *self._for_strings("Serializer")
        )

    def consumer(self) -> Any:
        """A consumer of string keys and values, without a group."""
        return self.kafka.clients.consumer.KafkaConsumer(
            self._options(), *self._for_strings("Deserializer")
        )

    def result(self, future: Any) -> Any:
        """The result of a Java future; raises Py4JJavaError after 30 seconds."""
        return future.get(CALL_SECONDS, self.jvm.java.util.concurrent.TimeUnit.SECONDS)

    def _options(self, **more: str) -> Any:
        options = self.jvm.java.util.HashMap()
        for name, value in {"bootstrap.servers": self._bootstrap, **more}.items():
            options.put(name, value)
        return options

    def _for_strings(self, kind: str) -> list[Any]:
        serde = getattr(self.kafka.common.serialization, f"String{kind}")
        return [serde(), serde()]
