"""A request to an object store, as the proxy sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import parse_qs, unquote, urlsplit


class Kind(StrEnum):
    GET = "GET"
    HEAD = "HEAD"
    PUT = "PUT"
    LIST = "LIST"
    DELETE = "DELETE"
    BULK_DELETE = "BULK_DELETE"
    COPY = "COPY"
    OTHER = "OTHER"
    """The beginning and the end of an upload in parts; its parts are PUTs."""


WRITES = frozenset({Kind.PUT, Kind.DELETE, Kind.BULK_DELETE, Kind.COPY, Kind.OTHER})


@dataclass(frozen=True)
class S3Request:
    method: str
    target: str
    """The path and the query, as the client wrote them."""
    headers: Mapping[str, str] = field(repr=False)
    """By their names in lower case."""
    body: bytes = field(repr=False, default=b"")

    def with_body(self, body: bytes) -> S3Request:
        return replace(self, body=body)

    @property
    def path(self) -> str:
        """/BUCKET/KEY, as text."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    @property
    def kind(self) -> Kind:
        match self.method:
            case "GET" if "list-type" in self.query or "prefix" in self.query:
                return Kind.LIST
            case "PUT" if "x-amz-copy-source" in self.headers:
                return Kind.COPY
            case "POST" if "delete" in self.query:
                return Kind.BULK_DELETE
            case "GET" | "HEAD" | "PUT" | "DELETE":
                return Kind(self.method)
        return Kind.OTHER

    @property
    def content(self) -> bytes:
        """The body without the signatures of its chunks, which the AWS SDK adds.

        docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html: each chunk is its size in hex
        digits, `;chunk-signature=...`, and its bytes. The last one is empty; checksums follow it.
        """
        if "x-amz-decoded-content-length" not in self.headers:
            return self.body
        content, rest = b"", self.body
        while True:
            head, _, rest = rest.partition(b"\r\n")
            size = int(head.partition(b";")[0], 16)
            if size == 0:
                return content
            content += rest[:size]
            rest = rest[size + len(b"\r\n") :]
