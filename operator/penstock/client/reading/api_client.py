"""The only access to the API server: plain dicts, log lines, and commands in containers.

The only module that imports the `kubernetes` package, which takes half a second.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDOUT_CHANNEL, WSClient, get_websocket_url

from penstock.client.cluster_facts import Right
from penstock.cluster import rest_api
from penstock.cluster.kinds import Kind, Manifest
from penstock.cluster.lenient_fields import count, mapping, mappings, text
from penstock.cluster.rest_api import ApiError

_SECONDS = 10.0
# A followed log may be silent for long; the API server closes an idle one after hours.
_FOLLOW_SECONDS = 4 * 3600.0
# Requests at the same time; more would only queue in the API server.
MAX_PARALLEL = 16
# Without input there is nothing to close, so every release of Kubernetes understands us.
_PROTOCOL = "v4.channel.k8s.io"


class NoConfiguration(Exception):
    """There is no kubeconfig that can be used."""


@dataclass(frozen=True)
class CommandResult:
    code: int
    output: str


class KubeApi:
    """A client for one context of a kubeconfig. Its methods may be called in several threads."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        # It would warn on stderr about each retry; the error at the end says the same.
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        configuration = Configuration()
        configuration.connection_pool_maxsize = MAX_PARALLEL
        configuration.retries = False
        self.namespace = _load(configuration, kubeconfig, context)
        self.server: str = configuration.host
        self._client = ApiClient(configuration)

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """An object; None if there is none. A kind that is in no namespace takes an empty one."""
        return self._found(kind.path(namespace, name))

    def serves(self, kind: Kind) -> bool:
        return rest_api.serves(kind, self._found(kind.root))

    def _found(self, path: str) -> Manifest | None:
        with rest_api.ignoring(404):
            return self._json("GET", path)
        return None

    def list(
        self,
        kind: Kind,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        selector: str = "",
    ) -> list[Manifest]:
        """All objects of a kind with these labels (or a selector), in one namespace or all."""
        query = {"labelSelector": selector or rest_api.selector(labels or {}), "limit": "500"}
        manifests: list[Manifest] = []
        while True:
            page = self._json("GET", kind.path(namespace), query)
            manifests += rest_api.items(kind, page)
            more = text(mapping(page.get("metadata")).get("continue"))
            if not more:
                return manifests
            query["continue"] = more

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are in all namespaces."""
        page = self._json("GET", kind.path(""), {"limit": "1"})
        more = mapping(page.get("metadata")).get("remainingItemCount")
        return len(rest_api.items(kind, page)) + count(more)

    def replace(self, kind: Kind, manifest: Manifest, *, dry_run: bool) -> None:
        """Writes an object that has not changed since it was read."""
        meta = mapping(manifest.get("metadata"))
        query = {"fieldManager": "penstock-rollback", "dryRun": "All" if dry_run else ""}
        path = kind.path(text(meta.get("namespace")), text(meta.get("name")))
        self._json("PUT", path, query, manifest)

    def page(self, path: str, seconds: float) -> str:
        return self._read(self._open("GET", path, seconds=seconds)).decode(errors="replace")

    def allows(self, right: Right, user: str = "") -> bool:
        """Whether a user has a right; an empty user is the one who asks."""
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
            "namespace": right.namespace,
        }
        who = {"user": user, "groups": _groups(user)} if user else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": kind,
            "spec": {"resourceAttributes": attributes, **who},
        }
        path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
        answer = self._json("POST", path, body=body)
        return bool(mapping(answer.get("status")).get("allowed"))

    def log_lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        is_followed = query.get("follow") == "true"
        response = self._open("GET", path, query, _FOLLOW_SECONDS if is_followed else _SECONDS)
        rest = b""
        try:
            for chunk in response.stream(amt=None if is_followed else 65_536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
        except (urllib3.exceptions.HTTPError, OSError):
            return  # the connection is gone, and with it the log
        finally:
            response.release_conn()
        if rest:
            yield rest.decode(errors="replace")

    def run(
        self, path: str, container: str, command: Sequence[str], seconds: float
    ) -> CommandResult:
        """Runs a command in a container and waits for its end."""
        query = [("container", container), ("stdout", "true"), ("stderr", "false")]
        query += [("command", word) for word in command]
        _, url, headers, *_ = self._request("GET", path, query)
        headers = {name.lower(): value for name, value in headers.items()}
        headers["sec-websocket-protocol"] = _PROTOCOL
        try:
            ended = WSClient(
                self._client.configuration, get_websocket_url(url), headers, capture_all=False
            )
            ended.run_forever(timeout=seconds)
            output = ended.read_channel(STDOUT_CHANNEL)
            status = ended.read_channel(ERROR_CHANNEL)
            ended.close()
        except Exception as error:  # the library raises whatever its sockets raise
            raise _handshake_error(error) from error
        if not status:
            raise ApiError(0, "Timeout", f"the command did not end within {seconds:.0f} s")
        return CommandResult(_exit_code(status), output)

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Manifest:
        return rest_api.parse(self._read(self._open(method, path, query, body=body)))

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        seconds: float = _SECONDS,
        body: Mapping[str, Any] | None = None,
    ) -> urllib3.BaseHTTPResponse:
        sent = [(name, value) for name, value in (query or {}).items() if value]
        request = self._request(method, path, sent, body)
        try:
            response = self._client.call_api(*request, _request_timeout=(_SECONDS, seconds))
        except ApiException as error:
            raise rest_api.refusal(error.status or 0, error.reason, error.body) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise rest_api.unreachable(error) from error
        raw: urllib3.BaseHTTPResponse = response.response
        if raw.status >= 300:
            raise rest_api.refusal(raw.status, raw.reason, self._read(raw))
        return raw

    def _request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        body: Mapping[str, Any] | None = None,
    ) -> tuple[Any, ...]:
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json"}
        request: tuple[Any, ...] = self._client.param_serialize(
            method,
            path,
            query_params=list(query),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        return request

    @staticmethod
    def _read(response: urllib3.BaseHTTPResponse) -> bytes:
        try:
            return bytes(response.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise rest_api.unreachable(error) from error


def _load(configuration: Configuration, kubeconfig: str | None, context: str | None) -> str:
    """Loads address and credentials; returns the namespace of the context."""
    try:
        config.load_kube_config(kubeconfig, context, client_configuration=configuration)
        contexts, active = config.list_kube_config_contexts(kubeconfig)
    except config.ConfigException as error:
        if kubeconfig or context:
            raise NoConfiguration(str(error)) from error
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            where = KUBE_CONFIG_DEFAULT_LOCATION
            raise NoConfiguration(f"no kubeconfig can be used ({where}): {error}") from error
        return "default"
    chosen = next((each for each in contexts if each.get("name") == context), active)
    return text(mapping(mapping(chosen).get("context")).get("namespace")) or "default"


def _groups(service_account: str) -> list[str]:
    """The groups that Kubernetes adds to a service account: rights may be given to them."""
    *_, namespace, _ = service_account.split(":")
    return [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]


def _handshake_error(error: Exception) -> ApiError:
    code, body = getattr(error, "status_code", None), getattr(error, "resp_body", None)
    if isinstance(code, int):
        return rest_api.refusal(code, None, body if isinstance(body, bytes) else b"")
    return rest_api.unreachable(error)


def _exit_code(status: str) -> int:
    """The exit code in the Status object that ends an exec."""
    result = mapping(json.loads(status))
    if result.get("status") == "Success":
        return 0
    causes = mappings(mapping(result.get("details")).get("causes"))
    code = next(
        (text(cause.get("message")) for cause in causes if cause.get("reason") == "ExitCode"), ""
    )
    if not code.isdecimal():
        raise ApiError(0, "ExecFailed", text(result.get("message")))
    return int(code)
