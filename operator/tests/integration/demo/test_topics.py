"""What the demo and a guide let people do with topics, on a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path

from confluent_kafka.admin import AdminClient

from demo.payments import PARTITIONS
from testkit.kafka.tools import TOPICS, write_program
from testkit.kafka.topic_reader import TopicReader
from testkit.kafka.topics import Topics
from testkit.paths import CHECKOUT

PAYMENTS = CHECKOUT / "examples" / "data" / "payments.jsonl"
GUIDE = CHECKOUT / "docs" / "how-to" / "grow-partitions.md"


def partitions(topics: Topics, topic: str) -> int:
    listed = AdminClient({"bootstrap.servers": topics.bootstrap}).list_topics(timeout=30)
    return len(listed.topics[topic].partitions)


def test_lines_are_sent_to_a_topic_that_is_created_once(topics: Topics) -> None:
    """As the demo on a cluster prints it for a stream of one's own."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    sent = []
    for text in (PAYMENTS.read_text(), "one more\nand without an end of line"):
        subprocess.run(
            [sys.executable, "-m", "demo.send", topics.bootstrap, topic],
            cwd=CHECKOUT, input=text, text=True, check=True, timeout=120,
        )  # fmt: skip
        sent += text.splitlines()
        received = [
            message.value().decode() for message in TopicReader(topics.bootstrap).read(topic)
        ]
        assert sorted(received) == sorted(sent)
    assert partitions(topics, topic) == PARTITIONS


def test_the_command_of_the_guide_adds_partitions(topics: Topics, tmp_path: Path) -> None:
    """With Kafka's own tool; e2e/rehearsals/guides.py runs it on the cluster."""
    topic = topics.make(4)
    write_program(tmp_path / "kafka-topics.sh", TOPICS)
    (line,) = re.findall(r"^ *(kafka-topics\.sh .*)$", GUIDE.read_text(), re.MULTILINE)
    for word, other in {"kafka.kafka:9092": topics.bootstrap, "payments": topic}.items():
        assert word in line
        line = line.replace(word, other)
    subprocess.run(["bash", "-c", f"{tmp_path}/{line}"], check=True, timeout=120)
    assert partitions(topics, topic) == 16
