"""A topic that is read again and again while it grows is read as a whole."""

from __future__ import annotations

from testkit.driver.driver_process import traffic
from testkit.kafka.broker import Broker
from testkit.kafka.topics import Topics


def test_no_record_is_left_out_by_looks_at_a_topic_that_grows(broker: Broker) -> None:
    """The end moves on while a look reads up to it."""
    topics = Topics(broker.bootstrap)
    topic = topics.make(3)
    with traffic(topics, topic, every=0.001) as sent:
        while sent[0] < 10_000:
            topics.received(topic)
    assert topics.received(topic) == Topics(broker.bootstrap).received(topic)
    assert set(topics.received(topic)) == set(range(sent[0]))
