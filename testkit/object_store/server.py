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
from testkit.processes import wait_until_ready
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
    listen = ["--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet"]
    process = ChildProcess(
        [tool("versitygw"), *listen, "posix", objects],
        log=folder / "versitygw.log",
        env={"ROOT_ACCESS_KEY_ID": store.access_key, "ROOT_SECRET_ACCESS_KEY": store.secret_key},
    )
    try:
        wait_until_ready("the object store", [process], store.answers)
        yield store
    finally:
        process.kill()
