"""Hadoop's S3A works with the jars of the image, and through the proxy of the object store."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from py4j.protocol import Py4JJavaError

from penstock.driver.jvm import Jvm
from testkit.kafka.jars import s3a_jars
from testkit.object_store.proxy import S3Proxy, s3_proxy
from testkit.object_store.request import Kind
from testkit.object_store.store import ObjectStore


def pyspark_jars() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    return Path(pyspark.origin).parent / "jars"


def classes(folder: Path) -> set[str]:
    """The classes of its jars; what is in META-INF is for other versions of Java."""
    names = (name for jar in folder.glob("*.jar") for name in zipfile.ZipFile(jar).namelist())
    return {
        name
        for name in names
        if name.endswith(".class") and not name.startswith(("META-INF/", "module-info"))
    }


def test_s3a_is_of_the_hadoop_in_pyspark() -> None:
    (ours,) = s3a_jars().glob("hadoop-aws-*.jar")
    (theirs,) = pyspark_jars().glob("hadoop-client-api-*.jar")
    assert ours.name.removeprefix("hadoop-aws") == theirs.name.removeprefix("hadoop-client-api")


def test_no_class_of_pyspark_comes_twice() -> None:
    assert classes(s3a_jars()) & classes(pyspark_jars()) == set()


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[S3Proxy]:
    with s3_proxy(s3) as proxy:
        yield proxy


class S3A:
    """Hadoop's file system of a new bucket, behind the proxy."""

    def __init__(self, jvm: Jvm, proxy: S3Proxy) -> None:
        self._java = jvm.gateway.jvm
        self.bucket = f"test-{uuid4().hex}"
        conf = self._java.org.apache.hadoop.conf.Configuration()
        for name, value in {
            "endpoint": proxy.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": proxy.client.access_key,
            "secret.key": proxy.client.secret_key,
            "retry.limit": "2",
            "attempts.maximum": "1",
        }.items():
            conf.set(f"fs.s3a.bucket.{self.bucket}.{name}", value)
        self._uri = f"s3a://{self.bucket}/"
        self.files = self._java.org.apache.hadoop.fs.FileSystem.newInstance(
            self._java.java.net.URI.create(self._uri), conf
        )

    def path(self, key: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._uri + key)

    def local(self, path: Path) -> Any:
        return self._java.org.apache.hadoop.fs.Path(path.as_uri())

    def create(self, key: str, content: bytes) -> None:
        """Makes the object, unless there is one, by a single request."""
        builder = self.files.createFile(self.path(key)).create().overwrite(False)
        builder.must("fs.option.create.conditional.overwrite", True)
        builder.must("fs.s3a.create.header.penstock-writer", "1/pod/nonce")
        stream = builder.build()
        stream.write(content)
        stream.close()

    def read(self, key: str) -> bytes:
        stream = self.files.open(self.path(key))
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()


@pytest.fixture
def s3a(jvm: Jvm, s3: ObjectStore, proxy: S3Proxy) -> Iterator[S3A]:
    s3a = S3A(jvm, proxy)
    s3.make_bucket(s3a.bucket)
    yield s3a
    s3a.files.close()


def test_no_class_of_s3a_is_missing(s3a: S3A, s3: ObjectStore, tmp_path: Path) -> None:
    """A snapshot of RocksDB is copied by the transfer manager, and only then needs its classes."""
    s3a.create("offsets/0", b"content")
    assert s3a.read("offsets/0") == b"content"
    assert s3.metadata(s3a.bucket, "offsets/0") == {"penstock-writer": "1/pod/nonce"}
    local = tmp_path / "snapshot.zip"
    local.write_bytes(bytes(range(256)) * 10_000)
    s3a.files.copyFromLocalFile(s3a.local(local), s3a.path("state/1.zip"))
    assert s3.read(s3a.bucket, "state/1.zip") == local.read_bytes()
    names = [each.getPath().getName() for each in s3a.files.listStatus(s3a.path("offsets"))]
    assert names == ["0"]
    assert s3a.files.rename(s3a.path("offsets/0"), s3a.path("offsets/1"))
    assert s3a.files.delete(s3a.path("offsets"), True)
    assert s3.names(s3a.bucket) == ["state/1.zip"]


def test_an_object_is_made_by_one_request(s3a: S3A, proxy: S3Proxy) -> None:
    proxy.reset()
    s3a.create("offsets/0", b"mine")
    assert proxy.requests == [(Kind.PUT, f"/{s3a.bucket}/offsets/0")]
    with pytest.raises(Py4JJavaError, match="RemoteFileChangedException"):
        s3a.create("offsets/0", b"theirs")
    assert s3a.read("offsets/0") == b"mine"


def test_a_store_may_ignore_the_conditions_of_s3a(s3a: S3A, proxy: S3Proxy) -> None:
    """Its body comes in signed chunks."""
    with proxy.ignoring_conditions():
        s3a.create("offsets/0", b"mine" * 100_000)
        s3a.create("offsets/0", b"theirs" * 100_000)
    assert s3a.read("offsets/0") == b"theirs" * 100_000


def test_a_snapshot_survives_a_cut(s3a: S3A, s3: ObjectStore, proxy: S3Proxy) -> None:
    proxy.cut_uploads(1)
    s3a.create("state/1.zip", b"content" * 100_000)
    assert s3.read(s3a.bucket, "state/1.zip") == b"content" * 100_000
