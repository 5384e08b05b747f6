"""Checkpoints in an object store, through Hadoop's S3A in the driver's JVM (connector/ObjectStore).

So Spark and the driver have the same connection, credentials and retries. What Spark has written
is known in the JVM: nothing asks the store for a query's progress.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1.object_store import ObjectStore
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.environment import by_number, generation_folder
from penstock.driver.failures import (
    BUCKET_NOT_FOUND,
    OBJECT_STORE_DENIED,
    OBJECT_STORE_NOT_ACCESSIBLE,
    DriverError,
    Failure,
)
from penstock.driver.jvm import Jvm, java_class
from penstock.driver.secret_values import file_of

_PACKAGE = "dev.penstock.spark.checkpoint"
_CREDENTIALS = f"{_PACKAGE}.SecretFileCredentials"
# S3A's own chain lacks the first one, which service accounts of EKS have (IRSA); the last one also
# asks EKS Pod Identity.
_POD_IDENTITY = (
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)
# A failure shall be known soon: our own requests are repeated where that helps.
_S3A = {
    "attempts.maximum": "2",
    "retry.limit": "2",
    "retry.interval": "200ms",
    "retry.throttle.limit": "5",
    "retry.throttle.interval": "200ms",
    # S3A takes no less.
    "connection.establish.timeout": "15s",
    "connection.timeout": "15s",
    "connection.request.timeout": "15s",
}
_REASONS = {
    "org.apache.hadoop.fs.s3a.UnknownStoreException": BUCKET_NOT_FOUND,
    "java.nio.file.AccessDeniedException": OBJECT_STORE_DENIED,
    "org.apache.hadoop.fs.s3a.auth.NoAwsCredentialsException": OBJECT_STORE_DENIED,
    "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException": OBJECT_STORE_DENIED,
}


class StoreError(OSError):
    """A request that the store did not answer as hoped."""

    def __init__(self, message: str, classes: tuple[str, ...] = ()) -> None:
        super().__init__(errno.EIO, message)
        self.classes = classes
        """Those of the Java exception and its causes."""


def hadoop_settings(store: ObjectStore, location: str, secrets: Path) -> dict[str, str]:
    """Hadoop's settings for this bucket alone, so that a sink on another one keeps its own."""
    of_bucket = dict(_S3A)
    if store.endpoint is not None:
        of_bucket["endpoint"] = store.endpoint
    if store.region is not None:
        of_bucket["endpoint.region"] = store.region
    if store.path_style_access:
        of_bucket["path.style.access"] = "true"
    if store.access_key_id_secret is not None and store.secret_access_key_secret is not None:
        key_id = file_of(store.access_key_id_secret, secrets)
        key = file_of(store.secret_access_key_secret, secrets)
        of_bucket |= {
            "aws.credentials.provider": _CREDENTIALS,
            "penstock.access.key.id.file": str(key_id),
            "penstock.secret.access.key.file": str(key),
        }
    else:
        of_bucket["aws.credentials.provider"] = _POD_IDENTITY
    settings = {f"fs.s3a.bucket.{store.bucket}.{name}": value for name, value in of_bucket.items()}
    # ObjectStoreCheckpointFileManager: all else is written as Spark does.
    return {**settings, "penstock.checkpoint.location": location}


class ObjectStoreCheckpoints:
    """The checkpoints of one stream, and the lease without which nothing writes them."""

    def __init__(self, jvm: Jvm, location: str, settings: Mapping[str, str], holder: str) -> None:
        """`settings` are Hadoop's; `holder` names this driver's pod."""
        self._jvm = jvm
        self.location = location
        self._settings = settings
        self.holder = holder
        self._known: dict[str, tuple[str, bytes]] = {}
        """By path the ETag and the content of those that were read last, after a listing."""

    def generation(self, number: int) -> CheckpointFiles:
        return ObjectStoreFiles(self, generation_folder(number))

    def generations(self) -> dict[int, CheckpointFiles]:
        names = [name for name in self.lines("") if name.endswith("/")]
        folders = by_number(name[:-1] for name in names if name.startswith(generation_folder("")))
        return {n: ObjectStoreFiles(self, folder) for n, folder in folders.items()}

    @cached_property
    def _store(self) -> Any:
        gateway = self._jvm.gateway
        configuration = java_class(gateway, "org.apache.hadoop.conf.Configuration")()
        for name, value in self._settings.items():
            configuration.set(name, value)
        with _java_errors():
            return java_class(gateway, f"{_PACKAGE}.ObjectStore")(self.location, configuration)

    @cached_property
    def _lease(self) -> Any:
        lease = java_class(self._jvm.gateway, f"{_PACKAGE}.CheckpointLease")
        return lease(self._store, self.holder)

    def on_lease(self, name: str, *arguments: Any) -> Any:
        """A method of connector/CheckpointLease; raises StoreError."""
        with _java_errors():
            return getattr(self._lease, name)(*arguments)

    def call(self, name: str, *arguments: Any) -> Any:
        """A method of connector/ObjectStore; raises StoreError."""
        with _java_errors():
            return getattr(self._store, name)(*arguments)

    def lines(self, folder: str) -> list[str]:
        """The lines of ObjectStore.list."""
        return [line for line in str(self.call("list", folder)).split("\n") if line]

    def read(self, paths: list[str], etags: Mapping[str, str]) -> dict[str, bytes]:
        """Of those that exist. One that has the ETag of the last time is not read again."""
        known = {
            path: self._known[path][1]
            for path in paths
            if path in self._known and self._known[path][0] == etags.get(path)
        }
        to_read = [path for path in paths if path not in known]
        answers = self.call("read", to_read) if to_read else []
        read = {path: answers[n] for n, path in enumerate(to_read)}
        contents = known | {
            path: bytes(content) for path, content in read.items() if content is not None
        }
        if etags:
            self._known = {
                path: (etags[path], content) for path, content in contents.items() if path in etags
            }
        return contents


class ObjectStoreFiles:
    """The files of one checkpoint."""

    def __init__(self, store: ObjectStoreCheckpoints, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._etags: dict[str, str] = {}
        """By path in the store, of what was listed last."""
        self._certain: set[int] = set()
        """Commits that are known to be about the offsets of their numbers."""

    @property
    def location(self) -> str:
        return f"{self._store.location}/{self._folder}"

    def _path(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder

    def names(self, folder: str) -> list[str]:
        files = [line.split("\t") for line in self._list(folder) if not line.endswith("/")]
        self._etags |= {f"{self._path(folder)}/{name}": etag for name, etag in files}
        return [name for name, _ in files]

    def folders(self, folder: str) -> list[str]:
        return [line[:-1] for line in self._list(folder) if line.endswith("/")]

    def _list(self, folder: str) -> list[str]:
        return self._store.lines(self._path(folder))

    def holds_files(self, folder: str) -> bool:
        lines = self._list(folder)
        return any(
            not line.endswith("/") or self.holds_files(f"{folder}/{line[:-1]}") for line in lines
        )

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """An entry that was listed and not changed since is not read again.

        A commit that an earlier driver has made for other offsets than those that are there counts
        as damaged.
        """
        by_path = {self._path(path): path for path in paths}
        in_store = self._store.read(list(by_path), self._etags)
        self._etags = {}
        contents = {by_path[path]: content for path, content in in_store.items()}
        for number in sorted(_commits(contents), reverse=True):
            if number in self._certain or self._is_of_its_offsets(number):
                self._certain.add(number)
                break
            contents[f"commits/{number}"] = b""
        return contents

    def _is_of_its_offsets(self, number: int) -> bool:
        return bool(self._store.call("isOfItsOffsets", self._folder, number))

    def write(self, path: str, content: bytes) -> None:
        self._store.call("write", self._path(path), content)

    def remove(self, path: str) -> None:
        self._certain = set()
        self._store.call("delete", self._path(path))

    def remove_folder(self, folder: str) -> None:
        for line in self._list(folder):
            if line.endswith("/"):
                self.remove_folder(f"{folder}/{line[:-1]}")
            else:
                name, _, _ = line.partition("\t")
                self.remove(f"{folder}/{name}")

    def sync(self, folder: str) -> None:
        """A request that was answered lasts."""

    def check_writable(self, path: str) -> None:
        self.write(path, b"Penstock could write here.\n")
        self.remove(path)

    def entries(self, log: str) -> list[int]:
        with self.errors():
            lines = str(self._store.call("entries", self._path(log)))
        return [int(number) for number in lines.split("\n") if number]

    def written_at(self, log: str, number: int) -> float | None:
        with self.errors():
            at = int(self._store.call("writtenAt", self._path(log), number))
        return at / 1000 if at else None

    def content(self, log: str, number: int) -> bytes | None:
        with self.errors():
            content = self._store.call("content", self._path(log), number)
        return None if content is None else bytes(content)

    @contextmanager
    def errors(self, folder: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DriverError(failure_of(error, f"{self.location}/{folder}")) from error


def failure_of(error: OSError, location: str) -> Failure:
    """What a request's failure means for a checkpoint."""
    classes = error.classes if isinstance(error, StoreError) else ()
    reason = next((_REASONS[name] for name in classes if name in _REASONS), None)
    what = {
        BUCKET_NOT_FOUND: "The bucket does not exist",
        OBJECT_STORE_DENIED: "The object store denies access",
        None: "The object store does not answer as it should",
    }[reason]
    return Failure(
        reason or OBJECT_STORE_NOT_ACCESSIBLE,
        f"{what} ({location.rstrip('/')}: {error.strerror}).",
        permanent=True,
        recoverable=True,
    )


def _commits(paths: Iterable[str]) -> Iterator[int]:
    for path in paths:
        log, _, name = path.partition("/")
        if log == "commits" and name.isdecimal():
            yield int(name)


@contextmanager
def _java_errors() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        chain: list[tuple[str, str]] = []
        thrown = error.java_exception
        while thrown is not None and len(chain) < 10:
            chain.append((str(thrown.getClass().getName()), str(thrown.getMessage())))
            thrown = thrown.getCause()
        message = next((text for _, text in chain if text), chain[0][0])
        raise StoreError(message.split("\n")[0], tuple(name for name, _ in chain)) from error
