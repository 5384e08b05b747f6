"""Streams with their checkpoints in an object store on this machine."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1.object_store import ObjectStore as ObjectStoreSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.environment import LocalEnvironment, generation_folder
from testkit.object_store.client import REGION
from testkit.object_store.proxy import S3Proxy
from testkit.object_store.server import ObjectStore

_ID, _KEY = {"name": "checkpoint-keys", "key": "id"}, {"name": "checkpoint-keys", "key": "key"}


@dataclass(frozen=True)
class CheckpointBucket:
    """A bucket of its own for each test: S3A keeps one client for a bucket as long as its JVM."""

    store: ObjectStore
    name: str
    endpoint: str
    folder: Path
    """Of the test: what a driver has of its pod."""

    @classmethod
    def made(
        cls, store: ObjectStore, folder: Path, proxy: S3Proxy | None = None
    ) -> CheckpointBucket:
        """A new bucket, which the stream reaches through the proxy, if there is one."""
        name = f"checkpoints-{secrets.token_hex(4)}"
        store.make_bucket(name)
        keys = folder / "secrets" / _ID["name"]
        keys.mkdir(parents=True)
        (keys / _ID["key"]).write_text(store.access_key)
        (keys / _KEY["key"]).write_text(store.secret_key)
        endpoint = store.endpoint if proxy is None else proxy.endpoint
        return cls(store, name, endpoint, folder)

    @property
    def spec(self) -> dict[str, Any]:
        """As spec.checkpoint.objectStore."""
        return {
            "location": f"s3a://{self.name}/prefix",
            "endpoint": self.endpoint,
            "region": REGION,
            "pathStyleAccess": True,
            "accessKeyIdSecret": _ID,
            "secretAccessKeySecret": _KEY,
        }

    def stream(self, flow: ContinuousStream) -> ContinuousStream:
        """The stream, with its checkpoint here."""
        store = ObjectStoreSpec.model_validate(self.spec)
        checkpoint = flow.spec.checkpoint.model_copy(update={"volume": None, "object_store": store})
        spec = flow.spec.model_copy(update={"checkpoint": checkpoint})
        return flow.model_copy(update={"spec": spec})

    def environment(self, pod_uid: str = "pod") -> LocalEnvironment:
        """Where its driver runs."""
        return LocalEnvironment(
            self.folder / "scratch", secrets=self.folder / "secrets", pod_uid=pod_uid
        )

    def prefix(self, flow: ContinuousStream, generation: int = 0) -> str:
        """What the keys of a generation begin with."""
        metadata = flow.metadata
        return f"prefix/{metadata.namespace}/{metadata.name}/{generation_folder(generation)}/"

    def files(self, flow: ContinuousStream, generation: int = 0) -> list[str]:
        """The paths of a checkpoint's files."""
        prefix = self.prefix(flow, generation)
        return [key.removeprefix(prefix) for key in self.store.names(self.name, prefix)]
