"""A store with a certificate of one's own authority, as docs/how-to/object-store.md says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from testkit.certificates import Authority
from testkit.driver.driver_process import driver
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.server import LocalObjectStore, served_with_tls
from testkit.object_store.streams import CheckpointBucket
from testkit.streams.streams import COUNTS, MICRO_BATCH
from testkit.wait import wait_for

POD = {naming.ENV_POD_UID: "pod"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    folder = tmp_path / "certificates"
    folder.mkdir()
    return Authority(folder)


@pytest.fixture
def tls_bucket(
    s3: LocalObjectStore, authority: Authority, tmp_path: Path
) -> Iterator[CheckpointBucket]:
    with served_with_tls(s3, *authority.certify("store")) as endpoint:
        yield replace(CheckpointBucket.made(s3, tmp_path), endpoint=endpoint)


def flow(topics: Topics, bucket: CheckpointBucket, *options: str) -> ContinuousStream:
    java = {"javaOptions": list(options)}
    counting: dict[str, Any] = {"transform": COUNTS, "outputMode": "update"}
    source, sink = topics.make(), topics.make(1)
    topics.send(source, range(20))
    it = number_flow(topics, source, sink, MICRO_BATCH, driver=java, executor=java, **counting)
    return bucket.stream(it)


def test_its_truststore_is_named_in_the_options_of_java(
    topics: Topics,
    class_path: str,
    tls_bucket: CheckpointBucket,
    authority: Authority,
    tmp_path: Path,
) -> None:
    """Logs and state are written."""
    it = flow(topics, tls_bucket, f"-Djavax.net.ssl.trustStore={authority.truststore()}")
    with driver(it, tmp_path, class_path, environment=POD) as process:
        process.wait_ready()
        sink = it.spec.sink.kafka
        assert sink is not None
        wait_for("the counts", lambda: len(topics.last_values(sink.topic or "")) == 20)
        assert process.stop() == 0
        assert process.warnings() == []
    files = tls_bucket.files(it)
    assert any(path.startswith("commits/") for path in files)
    assert any(path.startswith("state/") for path in files)


@pytest.mark.proves("failures.md#the-object-store-does-not-answer")
def test_without_it_the_driver_names_what_is_not_trusted(
    topics: Topics, class_path: str, tls_bucket: CheckpointBucket, tmp_path: Path
) -> None:
    with driver(flow(topics, tls_bucket), tmp_path, class_path, environment=POD) as process:
        wait_for("the reason", lambda: "ObjectStoreNotAccessible" in process.log.read_text())
        assert "unable to find valid certification path" in process.log.read_text()
        assert process.stop() == 0
