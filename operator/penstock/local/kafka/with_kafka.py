"""`--with-kafka`: from the options to a broker, its topics, and a stream that uses it."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Iterator

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.start_position import begins_at_a_moment
from penstock.local.errors import Refused
from penstock.local.kafka.broker import Broker
from penstock.local.kafka.redirect import first_source_topic, rewired, topics
from penstock.local.kafka.side_tasks import Company, Feed
from penstock.local.messages import tell
from penstock.local.tools import jars
from penstock.local.workspace import Home


@contextlib.contextmanager
def with_kafka(
    options: argparse.Namespace, stream: ContinuousStream, home: Home, java: str
) -> Iterator[tuple[ContinuousStream, Company]]:
    """The stream pointed at a broker that has begun to start and ends with the block."""
    further = tuple(options.topic)
    wanted = topics(stream.spec, options.partitions, further)
    feed = _feed(options, stream, further)
    folder = jars.folder_of(jars.BROKER, stream.spec.spark_conf, tell)
    broker = Broker(home.broker, folder, java)
    moved = rewired(stream, broker.bootstrap)
    for environment in moved.dropped:
        tell(f"left out, for a broker on loopback has no doors: {environment}")
    sink = stream.spec.sink.kafka
    show = sink.topic if options.show and sink is not None else None
    try:
        broker.begin()
        yield moved.stream, Company(broker, wanted, feed, show)
    finally:
        broker.stop()


def _feed(
    options: argparse.Namespace, stream: ContinuousStream, further: tuple[str, ...]
) -> Feed | None:
    topic = first_source_topic(stream.spec, further)
    if options.feed is None or topic is None:
        return None
    try:
        lines = [line for line in options.feed.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"--feed {options.feed}: {error}", code=2) from error
    if not lines:
        raise Refused(f"--feed {options.feed}: there are no lines in it", code=2)
    begin = threading.Event()
    if not begins_at_a_moment(stream.spec.source):
        begin.set()
    return Feed(topic, lines, options.rate, options.once, begin)
