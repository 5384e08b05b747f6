"""Requests to an S3 server, signed by AWS Signature Version 4."""

from __future__ import annotations

import hashlib
import hmac
import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from urllib.parse import quote, urlsplit

REGION = "us-east-1"
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"
_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


@dataclass(frozen=True)
class S3Client:
    """Sends each request once, as it is given."""

    endpoint: str
    """Such as http://127.0.0.1:7070."""
    access_key: str
    secret_key: str = field(repr=False)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """The answer, whatever its status. `path` is /BUCKET or /BUCKET/KEY, as text.

        Raises OSError or HTTPException if there is none.
        """
        host = urlsplit(self.endpoint).netloc
        target = quote(path, safe=f"/{_UNRESERVED}")
        question = "&".join(
            f"{quote(name, safe=_UNRESERVED)}={quote(value, safe=_UNRESERVED)}"
            for name, value in sorted((query or {}).items())
        )
        signed = self._signed(method, target, question, {**(headers or {}), "host": host}, body)
        connection = http.client.HTTPConnection(host, timeout=_SECONDS)
        try:
            url = f"{target}?{question}" if question else target
            connection.request(method, url, body=body or None, headers=signed)
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, got, response.read())
        finally:
            connection.close()

    def _signed(
        self, method: str, target: str, question: str, headers: Mapping[str, str], body: bytes
    ) -> dict[str, str]:
        """All headers of the request, with the signature of all of them."""
        now = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        content = hashlib.sha256(body).hexdigest()
        named = {name.lower(): value.strip() for name, value in headers.items()}
        named |= {"x-amz-date": now, "x-amz-content-sha256": content}
        names = ";".join(sorted(named))
        lines = [f"{name}:{value}\n" for name, value in sorted(named.items())]
        request = "\n".join([method, target, question, "".join(lines), names, content])
        scope = [now[:8], REGION, "s3", "aws4_request"]
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join([_ALGORITHM, now, "/".join(scope), digest])
        key = reduce(_hmac, scope, f"AWS4{self.secret_key}".encode())
        credential = "/".join([self.access_key, *scope])
        signature = _hmac(key, text).hex()
        return named | {
            "authorization": f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, "
            f"Signature={signature}"
        }


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
