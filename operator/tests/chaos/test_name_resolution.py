"""A name server that is away stops no stream for good."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.background_threads import repeat_in_background
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import Failure
from penstock.driver.jvm import Jvm
from testkit.driver.hosts_file import HostsFile
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import MOSTLY_CONTINUOUS, kafka_to_kafka, stream
from testkit.wait import wait_for

BROKER = "broker.example"


def by_name(topics: Topics, source: str, sink: str, trigger: dict[str, Any]) -> ContinuousStream:
    """Copies numbers from topic to topic, over a broker that has a name."""
    return stream(**kafka_to_kafka(topics.bootstrap_as(BROKER), source, sink, trigger))


def why_unknown(jvm: Jvm, name: str) -> Failure | None:
    """Why the JVM cannot resolve the name; None if it can."""
    try:
        jvm.gateway.jvm.java.net.InetAddress.getByName(name)
    except Exception as error:
        return classify_exception(error)
    return None


@pytest.mark.proves(5, "failures.md#no-brokers-name-resolves")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_stream_goes_on_when_the_name_server_is_back(
    trigger: dict[str, Any],
    topics: Topics,
    jvm: Jvm,
    jvm_hosts: HostsFile,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """The query fails while no name resolves, as when an executor dies then."""
    source, sink = topics.make(), topics.make()
    jvm_hosts.set(BROKER)
    with running(by_name(topics, source, sink, trigger), jvm, tmp_path) as driver:
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))
        driver.wait_ready()
        jvm_hosts.set()
        wait_for("an unknown name", lambda: why_unknown(jvm, BROKER) is not None)
        session = driver.runtime.session
        assert session is not None
        context = session.sparkContext
        with repeat_in_background(context.cancelAllJobs, 0.02):  # a batch runs only now and then
            topics.send(source, range(100, 200))
            driver.wait_failure("BrokerUnreachable")
        jvm_hosts.set(BROKER)
        back = time.monotonic()
        received = topics.wait_received(sink, range(200))
        record_figure("seconds until records flow again", time.monotonic() - back)
        driver.wait_ready()
    record_figure("duplicates", sum(received.values()) - len(received))
    failures = [report.last_failure for report in driver.reports if report.last_failure]
    assert not any(failure.permanent for failure in failures)
