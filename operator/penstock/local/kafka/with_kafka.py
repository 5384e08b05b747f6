"""`--with-kafka`: from the options to a broker, its topics and a stream that uses it."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Iterator

from penstock.api.v1alpha1 import Source, StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.start_position import depends_on_start_time
from penstock.local.errors import CommandError, refusing
from penstock.local.kafka.broker import Broker
from penstock.local.kafka.feed import Feed, lines_of
from penstock.local.kafka.redirect import redirect
from penstock.local.kafka.side_tasks import SideTasks
from penstock.local.kafka.topics import partitions_to_feed, topic_to_feed, topics_to_create
from penstock.local.messages import print_message
from penstock.local.tools import jars
from penstock.local.workspace import CHOOSE_FOLDER, Workspace

# Spark's number for the latest offset in startingOffsetsByPartition.
_LATEST = -1


@contextlib.contextmanager
def with_kafka(
    options: argparse.Namespace, stream: ContinuousStream, workspace: Workspace, java: str
) -> Iterator[tuple[ContinuousStream, SideTasks]]:
    """Starts a broker without waiting for it; the stream redirected to it, and the side tasks.

    The broker stops when the block ends. Raises CommandError for options that cannot work.
    """
    extra_topics = tuple(options.topic)
    topics = topics_to_create(stream.spec, options.partitions, extra_topics)
    feed = _feed(options, stream, extra_topics)
    folder = jars.jar_folder(jars.BROKER, stream.spec.spark_conf, print_message)
    with refusing(workspace.broker, CHOOSE_FOLDER):
        broker = Broker(workspace.broker, folder, java)
    redirected = redirect(stream, broker.bootstrap)
    for place in redirected.dropped:
        print_message(f"ignored, because the local broker has no security: {place}")
    sink = stream.spec.sink.kafka
    show = sink.topic if options.show and sink is not None else None
    try:
        with refusing(workspace.broker, CHOOSE_FOLDER):
            broker.start_process()
        yield redirected.stream, SideTasks(broker, topics, feed, show)
    finally:
        broker.stop()


def check_feed(spec: StreamSpec, once: bool) -> None:
    """Raises CommandError if the stream could not read all that --feed sends."""
    if spec.source.kafka is None:
        raise CommandError("--feed needs a Kafka source, and the stream has none", code=2)
    if spec.trigger.available_now is None:
        return
    if not once:
        raise CommandError(
            "an availableNow stream reads what is there when it starts, and --feed sends the lines "
            "again and again: add --once, which sends all of them before the stream starts",
            code=2,
        )
    if _starts_after_the_feed(spec.source):
        raise CommandError(
            "an availableNow stream that starts at the latest offsets does not read the lines of "
            "--feed, which are sent before it starts: set startingOffsets: earliest in "
            "spec.source.kafka",
            code=2,
        )


def _starts_after_the_feed(source: Source) -> bool:
    kafka = source.kafka
    assert kafka is not None
    offsets = kafka.starting_offsets_by_partition.values()
    if offsets:
        return any(_LATEST in each.values() for each in offsets)
    return depends_on_start_time(source)


def _feed(
    options: argparse.Namespace, stream: ContinuousStream, extra_topics: tuple[str, ...]
) -> Feed | None:
    topic = topic_to_feed(stream.spec, extra_topics)
    if options.feed is None or topic is None:
        return None
    try:
        lines = lines_of(options.feed.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--feed {options.feed}: {error}", code=2) from error
    if not lines:
        raise CommandError(f"--feed {options.feed}: the file has no lines", code=2)
    start = threading.Event()
    if not depends_on_start_time(stream.spec.source):
        start.set()
    return Feed(
        topic,
        lines,
        options.rate,
        options.once,
        start,
        partitions_to_feed(stream.spec, topic),
        before_query=stream.spec.trigger.available_now is not None,
    )
