"""The loopback broker keeps acknowledged records when its process is killed."""

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testkit.kafka.broker import Broker, running_broker


def _create_topic(broker: Broker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(name, num_partitions=2)]).values():
        created.result(30)


def _consume_one(broker: Broker, topic: str) -> bytes | None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "test",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(60)
        return None if message is None or message.error() else message.value()
    finally:
        consumer.close()


def test_a_record_survives_a_crash_of_the_broker() -> None:
    with running_broker() as broker:
        _create_topic(broker, "orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        del producer
        broker.kill()
        broker.start()
        assert _consume_one(broker, "orders") == b"one"
