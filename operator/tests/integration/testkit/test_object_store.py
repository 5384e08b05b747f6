"""The object store of the tests knows its keys, and its proxy breaks what it says.

Only what a test of a stream would not miss: a fault that it has to survive without a word.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from testkit.object_store.client import S3Client
from testkit.object_store.proxy import S3Proxy, s3_proxy
from testkit.object_store.request import Kind
from testkit.object_store.store import ObjectStore

NEW = {"If-None-Match": "*"}


@pytest.fixture
def bucket(s3: ObjectStore) -> str:
    name = f"test-{uuid4().hex}"
    s3.make_bucket(name)
    return name


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[S3Proxy]:
    with s3_proxy(s3) as proxy:
        yield proxy


def put(client: S3Client, path: str, body: bytes = b"content", **headers: str) -> int:
    return client.send("PUT", path, body=body, headers=headers).status


def test_a_list_has_all_pages(s3: ObjectStore, bucket: str) -> None:
    keys = [f"{number:04}" for number in range(1001)]
    for key in keys:
        s3.write(bucket, key, b"")
    assert s3.names(bucket) == keys


def test_a_wrong_key_is_refused(s3: ObjectStore, bucket: str) -> None:
    wrong = S3Client(s3.endpoint, s3.access_key, "wrong")
    assert wrong.send("GET", f"/{bucket}/a").status == 403


def test_it_counts_by_kind(proxy: S3Proxy, bucket: str) -> None:
    path = f"/{bucket}/a"
    send = proxy.client.send
    assert put(proxy.client, path) == 200
    assert send("GET", path).body == b"content"
    assert send("HEAD", path).headers["content-length"] == "7"
    assert send("GET", f"/{bucket}", query={"list-type": "2"}).status == 200
    assert put(proxy.client, f"/{bucket}/b", b"", **{"x-amz-copy-source": path}) == 200
    assert send("DELETE", path).status == 204
    many = b"<Delete><Object><Key>b</Key></Object></Delete>"
    checked = {"Content-MD5": base64.b64encode(hashlib.md5(many).digest()).decode()}
    answer = send("POST", f"/{bucket}", query={"delete": ""}, body=many, headers=checked)
    assert answer.status == 200
    kinds = [Kind.PUT, Kind.GET, Kind.HEAD, Kind.LIST, Kind.COPY, Kind.DELETE, Kind.BULK_DELETE]
    assert [kind for kind, _ in proxy.requests] == kinds
    assert proxy.requests[0] == (Kind.PUT, path)
    assert proxy.counts == Counter(kinds)
    proxy.reset()
    assert not proxy.counts


def test_an_unreachable_store_answers_again_later(proxy: S3Proxy, bucket: str) -> None:
    path = f"/{bucket}/a"
    kept = http.client.HTTPConnection(proxy.endpoint.removeprefix("http://"), timeout=10)
    kept.request("GET", path)
    kept.getresponse().read()
    proxy.reset()
    with proxy.unreachable():
        with pytest.raises(ConnectionError):
            put(proxy.client, path)
        assert kept.sock.recv(1) == b""
    kept.close()
    assert not proxy.counts
    assert put(proxy.client, path) == 200


def test_it_asks_to_slow_down(proxy: S3Proxy, bucket: str) -> None:
    path = f"/{bucket}/a"
    proxy.slow_down(2)
    answer = proxy.client.send("GET", path)
    assert (answer.status, b"<Code>SlowDown</Code>" in answer.body) == (503, True)
    assert [put(proxy.client, path) for _ in range(2)] == [503, 200]
    proxy.slow_down(2, one_in=3)
    assert [put(proxy.client, path) for _ in range(7)] == [200, 200, 503, 200, 200, 503, 200]


def test_a_lost_answer_is_that_of_a_write(s3: ObjectStore, proxy: S3Proxy, bucket: str) -> None:
    proxy.lose_answers(1, "/commits/")
    assert put(proxy.client, f"/{bucket}/offsets/1") == 200
    with pytest.raises(ConnectionError):
        put(proxy.client, f"/{bucket}/commits/1")
    assert s3.names(bucket) == ["commits/1", "offsets/1"]
    assert proxy.client.send("PUT", f"/{bucket}/commits/1", headers=NEW).status == 412


def test_an_upload_that_was_cut_wrote_nothing(s3: ObjectStore, proxy: S3Proxy, bucket: str) -> None:
    path, body = f"/{bucket}/snapshot", b"x" * 3_000_000
    proxy.cut_uploads(1)
    with pytest.raises(ConnectionError):
        put(proxy.client, path, body)
    assert s3.names(bucket) == []
    assert put(proxy.client, path, body) == 200
    assert s3.read(bucket, "snapshot") == body
    assert proxy.counts == {Kind.PUT: 2}


def test_a_put_is_held_until_it_is_released(s3: ObjectStore, proxy: S3Proxy, bucket: str) -> None:
    with ThreadPoolExecutor(1) as pool, proxy.hold("/offsets/7") as held:
        waits = pool.submit(put, proxy.client, f"/{bucket}/offsets/7")
        assert held.arrived.wait(30)
        assert put(proxy.client, f"/{bucket}/offsets/8") == 200
        assert s3.names(bucket) == ["offsets/8"]
    assert waits.result() == 200
    assert s3.names(bucket) == ["offsets/7", "offsets/8"]
