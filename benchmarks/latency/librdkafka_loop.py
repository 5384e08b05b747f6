"""The filter of examples/fraud-flags.yaml as a bare loop: BOOTSTRAP SOURCE SINK.

The floor of the benchmark: one process and librdkafka's clients, with neither recovery nor tasks.
"""

from __future__ import annotations

import json
import signal
import sys

from confluent_kafka import Consumer, Producer


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    bootstrap, source, sink = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{source}-filter",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    consumer.subscribe([source])
    try:
        while True:
            message = consumer.poll(1.0)
            producer.poll(0)
            if message is None or message.error() is not None:
                continue
            payment = message.value()
            if payment is not None and json.loads(payment)["paymentId"] % 10 == 3:
                producer.produce(sink, payment, message.key())
    finally:
        producer.flush(10)
        consumer.close()


if __name__ == "__main__":
    main()
