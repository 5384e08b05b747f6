"""The driver's calls to the Kubernetes API: its stream, its own pod, its executors, one Secret.

A few calls over plain HTTP: the import of the `kubernetes` client takes longer than they do, and
would delay each recovery.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.api import group_version
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
        within = f"namespaces/{urllib.parse.quote(namespace)}"
        base = f"{url}/api/v1/{within}"
        self._pods, self._secrets = f"{base}/pods", f"{base}/secrets"
        self._streams = f"{url}/apis/{group_version.API_VERSION}/{within}/{group_version.PLURAL}"
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

    def log_level(self, stream: str) -> str | None:
        """The stream's `spec.observability.logLevel`, from the API server's cache.

        Many drivers ask often: etcd should not answer each.
        """
        spec = self._call("GET", f"{self._streams}/{stream}?resourceVersion=0")["spec"]
        level = spec.get("observability", {}).get("logLevel")
        return None if level is None else str(level)

    def annotate(self, pod: str, annotation: str, value: str) -> None:
        """Sets one annotation of a pod."""
        body = {"metadata": {"annotations": {annotation: value}}}
        self._call(
            "PATCH",
            f"{self._pods}/{pod}?fieldManager={naming.FIELD_MANAGER}-driver",
            body,
            "application/merge-patch+json",
        )

    def uid(self, pod: str) -> str:
        """The pod's UID, which differs from that of an earlier pod of the same name."""
        return str(self._call("GET", f"{self._pods}/{pod}")["metadata"]["uid"])

    def executors(self, stream: str) -> list[str]:
        """The names of the stream's executor pods."""
        selector = urllib.parse.quote(
            f"{naming.LABEL_STREAM}={stream},{naming.LABEL_COMPONENT}={naming.COMPONENT_EXECUTOR}"
        )
        found = self._call("GET", f"{self._pods}?labelSelector={selector}")
        return [item["metadata"]["name"] for item in found["items"]]

    def delete(self, pod: str, grace_seconds: int) -> None:
        """Deletes a pod if it exists."""
        try:
            self._call(
                "DELETE",
                f"{self._pods}/{pod}",
                {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_seconds},
            )
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def create_secret(self, secret: dict[str, Any]) -> None:
        """Creates a Secret. It is no error if one of that name exists."""
        try:
            self._call("POST", self._secrets, secret)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def _call(
        self, method: str, url: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
        with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return json.load(response)
