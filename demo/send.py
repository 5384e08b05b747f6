"""Sends the lines of stdin to a topic of the demo: `python -m demo.send BROKER TOPIC < FILE`.

Creates the topic if it is not there.
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from demo.payments import PARTITIONS
from testkit.kafka.topic_admin import create_topics


def main() -> int:
    bootstrap, topic = sys.argv[1:]
    connection = {"bootstrap.servers": bootstrap}
    if topic not in AdminClient(connection).list_topics(timeout=30).topics:
        create_topics(bootstrap, {topic: PARTITIONS})
    producer = Producer(connection)
    for line in sys.stdin:
        producer.produce(topic, line.rstrip("\n"))
    return 1 if producer.flush(30) else 0


if __name__ == "__main__":
    sys.exit(main())
