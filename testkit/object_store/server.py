"""A real S3 server on loopback: versitygw, over a folder. It starts in less than a second."""

from __future__ import annotations

import contextlib
import http
import secrets
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.local.tools.child_process import ChildProcess
from testkit.kafka.broker import free_ports
from testkit.object_store.client import Answer, S3Client
from testkit.processes import wait_until_ready
from testkit.tools import tool

_HEALTH = "/health"
_METADATA = "x-amz-meta-"
_XML = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}


class ObjectStoreError(AssertionError):
    """The store did not do what a test needs."""


@dataclass(frozen=True)
class ObjectStore(S3Client):
    """The server, and its objects as a test looks at and damages them: not through a proxy."""

    folder: Path
    """What it stores: /BUCKET/KEY is a file. Its ETag and metadata are extended attributes, so a
    test changes objects by the methods here."""

    def make_bucket(self, name: str) -> None:
        self._do("PUT", f"/{name}")

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys that begin with the prefix, in the order of their bytes."""
        found: list[str] = []
        query = {"list-type": "2", "prefix": prefix}
        while True:
            page = ET.fromstring(self._do("GET", f"/{bucket}", query=query).body)
            found += [key.text or "" for key in page.iterfind("s3:Contents/s3:Key", _XML)]
            token = page.findtext("s3:NextContinuationToken", namespaces=_XML)
            if not token:
                return found
            query["continuation-token"] = token

    def read(self, bucket: str, key: str) -> bytes:
        return self._do("GET", f"/{bucket}/{key}").body

    def metadata(self, bucket: str, key: str) -> dict[str, str]:
        """The object's own metadata: what its headers x-amz-meta-NAME say, by name."""
        headers = self._do("HEAD", f"/{bucket}/{key}").headers
        return {
            name.removeprefix(_METADATA): value
            for name, value in headers.items()
            if name.startswith(_METADATA)
        }

    def write(
        self, bucket: str, key: str, content: bytes, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Writes the object, or over it, with this metadata of its own."""
        headers = {f"{_METADATA}{name}": value for name, value in (metadata or {}).items()}
        self._do("PUT", f"/{bucket}/{key}", body=content, headers=headers)

    def delete(self, bucket: str, key: str) -> None:
        """Deletes the object; one that is not there is no error."""
        self._do("DELETE", f"/{bucket}/{key}")

    def _do(self, method: str, path: str, **request: Any) -> Answer:
        answer = self.send(method, path, **request)
        if answer.status >= 300:
            raise ObjectStoreError(f"{method} {path}: {answer.status} {answer.body.decode()}")
        return answer


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A server without buckets, which keeps them and its log in the folder, during the block."""
    (port,) = free_ports(1)
    objects = folder / "objects"
    objects.mkdir(parents=True)
    store = ObjectStore(
        f"http://127.0.0.1:{port}", secrets.token_hex(10), secrets.token_hex(20), objects
    )
    listen = ["--port", f"127.0.0.1:{port}", "--health", _HEALTH, "--keep-alive", "--quiet"]
    process = ChildProcess(
        [tool("versitygw"), *listen, "posix", objects],
        log=folder / "versitygw.log",
        env={"ROOT_ACCESS_KEY_ID": store.access_key, "ROOT_SECRET_ACCESS_KEY": store.secret_key},
    )
    try:
        wait_until_ready("the object store", [process], lambda: _answers(store))
        yield store
    finally:
        process.kill()


def _answers(store: ObjectStore) -> bool:
    try:
        return store.send("GET", _HEALTH).status == http.HTTPStatus.OK
    except OSError:
        return False
