"""Requests to the API server, as far as they do not depend on an HTTP client.

The operator (asynchronous), the commands (threads) and the driver (urllib, because an import of the
`kubernetes` package would delay each recovery) share what an answer and an error are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from penstock.cluster.kinds import Kind, Manifest
from penstock.cluster.lenient_fields import at, mapping, mappings, text

_MAX_RETRY_AFTER = 300.0
_MAX_PAGE_CHARACTERS = 500


class ApiError(Exception):
    """The API server refused a request, or could not be reached (code 0)."""

    expected = True
    """It is no fault of Penstock, so that one line of a log is enough."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str = "",
        retry_after: float | None = None,
        fields: Collection[str] = (),
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message or reason
        self.retry_after = retry_after
        """After how many seconds the API server asked to retry; None if it did not."""
        self.fields = frozenset(fields)
        """The fields of an object that it names as the cause."""
        super().__init__(f"{code} {reason}: {self.message}")

    @property
    def refused(self) -> bool:
        """Whether the request itself is at fault, so a retry alone does not help.

        Not with the UID of an object that another one has replaced: the next look finds that.
        """
        replaced = "metadata.uid" in self.fields
        return self.code in (400, 403, 404, 405, 413, 415, 422) and not replaced


@contextmanager
def ignoring(*codes: int) -> Iterator[None]:
    """Passes over errors with these HTTP codes."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


def unreachable(error: BaseException) -> ApiError:
    """The error of a request without an answer, by its innermost cause, which says something."""
    reason = getattr(error, "reason", None)
    inner = reason if isinstance(reason, Exception) else error.__cause__ or error.__context__
    if isinstance(inner, Exception):  # a timeout follows from CancelledError, which says nothing
        return unreachable(inner)
    return ApiError(0, "Unreachable", f"{type(error).__name__}: {error}")


def refusal(
    code: int, reason: str | None, body: bytes | str | None, retry_after: str | None = None
) -> ApiError:
    """The error in the Status object of an answer, or in a proxy's page."""
    page = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        status = mapping(json.loads(page))
    except ValueError:
        status = {}
    # Retry-After may also hold a date, which Kubernetes never sends.
    seconds = retry_after or ""
    return ApiError(
        code,
        text(status.get("reason")) or reason or "Unknown",
        text(status.get("message")) or page.strip()[:_MAX_PAGE_CHARACTERS],
        min(float(seconds), _MAX_RETRY_AFTER) if seconds.isdecimal() else None,
        [text(cause.get("field")) for cause in mappings(at(status, "details", "causes"))],
    )


def parse(body: bytes | str) -> Manifest:
    try:
        return dict(json.loads(body))
    except (ValueError, TypeError) as error:
        raise ApiError(0, "NotJson", "the answer is no JSON object: is it a proxy's?") from error


def items(kind: Kind, answer: Manifest) -> list[Manifest]:
    """The objects of a list, which have no apiVersion and kind of their own."""
    of_kind = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [{**of_kind, **item} for item in mappings(answer.get("items"))]


def selector(values: Mapping[str, str]) -> str:
    """The values as a label or field selector.

    >>> selector({"app": "a", "tier": "b"})
    'app=a,tier=b'
    """
    return ",".join(f"{name}={value}" for name, value in values.items())


def serves(kind: Kind, resources: Manifest | None) -> bool:
    """Whether the answer at `kind.root` says that the API server knows a kind."""
    served = mappings(mapping(resources).get("resources"))
    return any(resource.get("name") == kind.plural for resource in served)
