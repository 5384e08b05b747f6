"""The driver's calls to the Kubernetes API: its stream, its own pod, its executors, one Secret.

A few calls over plain HTTP: the import of the `kubernetes` client takes longer than they do, and
would delay each recovery.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from penstock.cluster import kinds, rest_api
from penstock.cluster.kinds import Kind, Manifest
from penstock.cluster.lenient_fields import at, mapping
from penstock.cluster.objects import Object
from penstock.cluster.stream import Stream
from penstock.contract import naming

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_SECONDS = 10.0


class Api:
    """The objects of one namespace, with the driver pod's own credentials."""

    def __init__(
        self,
        url: str,
        namespace: str,
        token: Callable[[], str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._url, self._namespace = url, namespace
        self._token = token
        # Without the proxy of the environment: urllib cannot exempt a cluster's network (no_proxy
        # has no CIDRs), and the API server of the pod's own cluster needs none.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    @classmethod
    def in_cluster(cls, url: str, namespace: str) -> Api:
        """The API server at `url` as a pod reaches it."""
        return cls(
            url,
            namespace,
            # Read for each call: the kubelet renews it.
            token=lambda: (_SERVICE_ACCOUNT / "token").read_text().strip(),
            context=ssl.create_default_context(cafile=str(_SERVICE_ACCOUNT / "ca.crt")),
        )

    def stream(self, name: str) -> Stream:
        """The stream, from the API server's cache.

        Many drivers ask often: etcd should not answer each.
        """
        return Stream(self._call("GET", kinds.STREAM, name, {"resourceVersion": "0"}))

    def changes(self, name: str, seconds: int) -> Iterator[Stream]:
        """The stream as it is, and, for so long, as it is after each change."""
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",  # without it RBAC would not know the name
            "resourceVersion": "0",
            "timeoutSeconds": str(seconds),
        }
        timeout = seconds + _TIMEOUT_SECONDS
        with self._open("GET", kinds.STREAM, query=query, timeout=timeout) as lines:
            for line in lines:
                event = rest_api.parse(line)
                if event.get("type") == "ERROR":
                    raise rest_api.refusal(0, None, json.dumps(event.get("object")))
                yield Stream(dict(mapping(event.get("object"))))

    def document(self, config_map: str) -> str | None:
        """The document for drivers in this ConfigMap; None if it has none."""
        manifest = self._call("GET", kinds.CONFIG_MAP, config_map)  # as it is, whatever a cache has
        document = at(manifest, "data", naming.SPEC_FILE)
        return document if isinstance(document, str) else None

    def annotate(self, pod: str, annotation: str, value: str) -> None:
        self._call(
            "PATCH",
            kinds.POD,
            pod,
            {"fieldManager": naming.DRIVER_FIELD_MANAGER},
            {"metadata": {"annotations": {annotation: value}}},
            "application/merge-patch+json",
        )

    def token(self) -> str:
        """The token as it is now; empty without one, or if it cannot be read."""
        with contextlib.suppress(OSError):
            return self._token() if self._token is not None else ""
        return ""

    def pod(self, name: str) -> Object:
        return Object(self._call("GET", kinds.POD, name))

    def executors(self, stream: str) -> list[str]:
        labels = {
            naming.LABEL_STREAM: stream,
            naming.LABEL_COMPONENT: naming.COMPONENT_EXECUTOR,
        }
        answer = self._call("GET", kinds.POD, query={"labelSelector": rest_api.selector(labels)})
        return [Object(pod).name for pod in rest_api.items(kinds.POD, answer)]

    def delete(self, pod: str, grace_seconds: int) -> None:
        """Deletes a pod if it exists."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_seconds,
        }
        with rest_api.ignoring(404):
            self._call("DELETE", kinds.POD, pod, body=options)

    def create_secret(self, secret: dict[str, Any]) -> None:
        """Creates a Secret. It is no error if one of that name exists."""
        with rest_api.ignoring(409):
            self._call("POST", kinds.SECRET, body=secret)

    def _call(self, method: str, kind: Kind, *more: Any, **others: Any) -> Manifest:
        with self._open(method, kind, *more, **others) as answer:
            return rest_api.parse(answer.read())

    @contextlib.contextmanager
    def _open(
        self,
        method: str,
        kind: Kind,
        name: str = "",
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = _TIMEOUT_SECONDS,
    ) -> Iterator[HTTPResponse]:
        """The answer to a request, while it is read."""
        data = None if body is None else json.dumps(body).encode()
        path = kind.path(self._namespace, name)
        url = f"{self._url}{path}?{urllib.parse.urlencode(query)}" if query else self._url + path
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token()}"
            request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
            with self._opener.open(request, timeout=timeout) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise rest_api.refusal(error.code, error.reason, error.read()) from error
        except (OSError, HTTPException) as error:
            raise rest_api.unreachable(error) from error


@dataclass(frozen=True)
class OwnStream:
    """What a driver asks about its stream; each call may raise ApiError."""

    api: Api
    name: str
    pod_hash: str
    """Of the driver's own pod."""

    def stream(self) -> Stream:
        return self.api.stream(self.name)

    def changes(self, seconds: int) -> Iterator[Stream]:
        """The stream as it is, and, for so long, as it is after each change."""
        return self.api.changes(self.name, seconds)

    def document(self) -> str | None:
        """What the operator has applied for such a pod."""
        return self.api.document(naming.config_name(self.name, self.pod_hash))
