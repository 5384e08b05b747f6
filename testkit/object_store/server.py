"""A real S3 server on loopback: versitygw, over a folder. It starts in less than a second."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.local.kafka.broker import free_ports
from penstock.local.tools.child_process import ChildProcess
from testkit.object_store.store import ObjectStore
from testkit.processes import listens, wait_until_ready
from testkit.tools import tool

__all__ = ["LocalObjectStore", "ObjectStore", "object_store"]


@dataclass(frozen=True)
class LocalObjectStore(ObjectStore):
    folder: Path
    """What it stores: /BUCKET/KEY is a file. Its ETag and metadata are extended attributes, so a
    test changes objects by methods."""


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[LocalObjectStore]:
    """A server without buckets, which keeps them and its log in the folder, during the block."""
    (port,) = free_ports(1)
    objects = folder / "objects"
    objects.mkdir(parents=True)
    store = LocalObjectStore(
        f"http://127.0.0.1:{port}", secrets.token_hex(10), secrets.token_hex(20), objects
    )
    process = _server(store, port, folder / "versitygw.log")
    try:
        wait_until_ready("the object store", [process], store.answers)
        yield store
    finally:
        process.kill()


@contextlib.contextmanager
def served_with_tls(store: LocalObjectStore, certificate: Path, key: Path) -> Iterator[str]:
    """The same objects behind another endpoint, with this certificate."""
    (port,) = free_ports(1)
    pair = ["--cert", str(certificate), "--key", str(key)]
    process = _server(store, port, certificate.with_name("versitygw.log"), *pair)
    try:
        wait_until_ready("the object store with TLS", [process], lambda: listens(port))
        yield f"https://127.0.0.1:{port}"
    finally:
        process.kill()


def _server(store: LocalObjectStore, port: int, log: Path, *options: str) -> ChildProcess:
    listen = ["--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", *options]
    keys = {"ROOT_ACCESS_KEY_ID": store.access_key, "ROOT_SECRET_ACCESS_KEY": store.secret_key}
    return ChildProcess([tool("versitygw"), *listen, "posix", store.folder], log=log, env=keys)
