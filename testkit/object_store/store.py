"""An S3 server for tests, with methods to look at its objects and to damage them."""

from __future__ import annotations

import http
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testkit.object_store.client import Answer, S3Client

_METADATA = "x-amz-meta-"
_XML = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}


class ObjectStoreError(AssertionError):
    """The store did not do what a test needs."""


@dataclass(frozen=True)
class ObjectStore(S3Client):
    """Its objects, as a test looks at them and damages them: not through a proxy."""

    def answers(self) -> bool:
        """Whether it answers, and has these keys."""
        try:
            return self.send("GET", "/").status == http.HTTPStatus.OK
        except OSError:
            return False

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
