"""Kafka's own command line tools, as a person calls them."""

from __future__ import annotations

import shlex
from pathlib import Path

from testkit.kafka.jars import kafka_jars, tools_jars

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


def command(tool: str) -> list[str]:
    """What runs a tool; its arguments follow."""
    class_path = f"{kafka_jars()}/*:{tools_jars()}/*"
    return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path, tool]


def write_program(program: Path, tool: str) -> None:
    """Writes a program that is the tool, such as the kafka-topics.sh of Kafka's archive."""
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command(tool))} "$@"\n')
    program.chmod(0o755)
