"""Reads the facts from the API server, as many at the same time as it makes sense.

What may not be read is noted as not read, and everything else is still read: a person on call often
has the rights of one namespace only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from penstock.api import group_version
from penstock.client.cluster_facts import (
    ClusterFacts,
    NotRead,
    OperatorFacts,
    Right,
    StreamFacts,
    with_objects,
)
from penstock.client.reading import rights
from penstock.client.reading.api_client import MAX_PARALLEL, KubeApi
from penstock.client.reading.metrics_page import parse_metrics
from penstock.cluster import kinds
from penstock.cluster.kinds import Kind
from penstock.cluster.lenient_fields import at, mapping, mappings
from penstock.cluster.objects import Claim, Event, Lease, Node, Object, Quota, StatefulSet
from penstock.cluster.pods import Pod
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream
from penstock.contract import naming, pod_check
from penstock.contract.pod_check import PodCheck

_OPERATOR = {
    "app.kubernetes.io/name": "penstock",
    "app.kubernetes.io/component": "operator",
}
_OURS = {naming.LABEL_MANAGED_BY: naming.MANAGED_BY}
# Longer than the module takes at most: a name server and a connection that do not answer.
_INSIDE_SECONDS = 30.0
# A request for each right in each of them.
_MAX_NAMESPACES_ASKED = 10
# A driver that is frozen keeps nobody waiting.
_METRICS_SECONDS = 3.0

T = TypeVar("T", bound=Object)
Labels = dict[str, str]


class NoStream(Exception):
    """There is no stream of this name."""


@dataclass(frozen=True)
class Selection:
    """Which streams: those of one namespace or (empty) of all; perhaps one by name."""

    namespace: str
    name: str = ""


class Gatherer:
    def __init__(self, api: KubeApi, pool: ThreadPoolExecutor) -> None:
        self._api = api
        self._pool = pool
        self._not_read: list[NotRead] = []

    def fleet(self, selection: Selection) -> ClusterFacts:
        """The streams with their pods and metrics: what `status` and `top` show."""
        streams = self._streams(selection)
        pods = self._list("the pods", Pod, kinds.POD, selection.namespace, _OURS)
        return self._measured(with_objects(streams, pods=pods.result()))

    def details(self, selection: Selection) -> ClusterFacts:
        """The same, with volumes and events: what `status NAME` shows."""
        streams, where = self._streams(selection), selection.namespace
        sets = self._list("the StatefulSets", StatefulSet, kinds.STATEFUL_SET, where, _OURS)
        claims = self._list("the volume claims", Claim, kinds.CLAIM, where, _OURS)
        pods = self._list("the pods", Pod, kinds.POD, where, _OURS)
        events = self._list("the events", Object, kinds.EVENT, where)
        parsed = [(each.namespace, Event.parse(each.manifest)) for each in events.result()]
        return self._measured(
            with_objects(streams, sets.result(), claims.result(), pods.result(), parsed)
        )

    def _measured(self, streams: Sequence[StreamFacts]) -> ClusterFacts:
        """With the numbers of the drivers' own pages."""
        measured = tuple(self._pool.map(self._with_metrics, streams))
        return ClusterFacts(self._now(), measured, not_read=tuple(self._not_read))

    def only(self, selection: Selection) -> ClusterFacts:
        return ClusterFacts(self._now(), tuple(map(StreamFacts, self._streams(selection))))

    def diagnosis(self, selection: Selection) -> ClusterFacts:
        """Everything that `doctor` judges."""
        if not self._api.serves(kinds.STREAM):
            return ClusterFacts(self._now(), serves_streams=False, operators=self._operators())
        facts = self.details(selection)
        namespaces = sorted({stream.key.namespace for stream in facts.streams})
        own = self._pool.submit(self._own_rights, selection.namespace, namespaces)
        quotas = self._list("the quotas", Quota, kinds.RESOURCE_QUOTA, selection.namespace)
        dns = self._pool.submit(self._dns_endpoints)
        total = self._pool.submit(self._stream_count)
        crd = self._pool.submit(self._crd_properties)
        names = {pod.node for stream in facts.streams for pod in stream.pods if pod.node}
        nodes = {name: self._pool.submit(self._node, name) for name in names}
        streams = self._pool.map(
            lambda each: self._with_inside(each, always=bool(selection.name)), facts.streams
        )
        operators = self._operators()
        read = {name: node.result() for name, node in nodes.items()}
        return replace(
            facts,
            streams=tuple(streams),
            operators=operators,
            missing_rights={"": own.result(), **self._operators_rights(operators or ())},
            quotas=tuple(quotas.result()),
            nodes={name: node for name, (known, node) in read.items() if known},
            stream_count=total.result(),
            dns_endpoints=dns.result(),
            crd_properties=crd.result(),
            now=self._now(),
            not_read=tuple(dict.fromkeys(self._not_read)),
        )

    def _streams(self, selection: Selection) -> list[Stream]:
        """The streams of the selection. An error here ends the command: without them is nothing."""
        if not selection.name:
            return list(map(Stream, self._api.list(kinds.STREAM, selection.namespace)))
        manifest = self._api.get(kinds.STREAM, selection.namespace, selection.name)
        if manifest is None:
            raise NoStream(
                f"there is no stream {selection.name} in the namespace {selection.namespace}"
            )
        return [Stream(manifest)]

    def _list(
        self, what: str, of: type[T], kind: Kind, namespace: str, labels: Labels | None = None
    ) -> Future[list[T]]:
        """Reads a list meanwhile; empty and noted if it may not be read."""

        def read() -> list[T]:
            with self._noting(what):
                return list(map(of, self._api.list(kind, namespace, labels)))
            return []

        return self._pool.submit(read)

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Notes what could not be read, and continues."""
        try:
            yield
        except ApiError as error:
            self._not_read.append(NotRead(what, error.message))

    def _operators(self) -> tuple[OperatorFacts, ...] | None:
        with self._noting("the operator's deployment"):
            deployments = map(Object, self._api.list(kinds.DEPLOYMENT, labels=_OPERATOR))
            pods = list(map(Pod, self._api.list(kinds.POD, labels=_OPERATOR)))
            operators = [
                OperatorFacts(
                    deployment, tuple(pod for pod in pods if pod.namespace == deployment.namespace)
                )
                for deployment in deployments
            ]
            return tuple(
                replace(operator, lease=self._lease(operator), selected=self._selected(operator))
                for operator in operators
            )
        return None

    def _selected(self, operator: OperatorFacts) -> frozenset[str] | None:
        if not operator.namespace_selector:
            return None
        with self._noting("the namespaces that an operator selects"):
            namespaces = self._api.list(kinds.NAMESPACE, selector=operator.namespace_selector)
            return frozenset(Object(namespace).name for namespace in namespaces)
        return None

    def _lease(self, operator: OperatorFacts) -> Lease | None:
        if not operator.lease_name:
            return None
        with self._noting("the operator's Lease"):
            manifest = self._api.get(kinds.LEASE, operator.key.namespace, operator.lease_name)
            return Lease(manifest) if manifest else None
        return None

    def _own_rights(self, namespace: str, of_streams: Sequence[str]) -> tuple[Right, ...]:
        """Those that are missing in one namespace, or in all; of these, in some with streams."""
        some = [namespace] if namespace else of_streams[:_MAX_NAMESPACES_ASKED]
        needed = [replace(right, namespace=namespace) for right in rights.OF_LISTS]
        needed += [replace(right, namespace=it) for it in some for right in rights.OF_STREAMS]
        return self._missing(needed, "", "your own rights")

    def _operators_rights(self, operators: Iterable[OperatorFacts]) -> dict[str, tuple[Right, ...]]:
        missing: dict[str, tuple[Right, ...]] = {}
        for operator in operators:
            has_policies = operator.settings.network_policies.enabled
            needed = rights.OF_OPERATOR + (() if has_policies else rights.WITHOUT_NETWORK_POLICIES)
            needed_there = [
                replace(right, namespace=namespace)
                for namespace in operator.settings.watch_namespaces or ("",)
                for right in needed
            ]
            if operator.namespace_selector:
                needed_there += rights.OF_NAMESPACE_SELECTOR
            missing[operator.service_account] = self._missing(
                needed_there, operator.service_account, "the operator's rights"
            )
        return missing

    def _missing(self, needed: Sequence[Right], user: str, what: str) -> tuple[Right, ...]:
        with self._noting(what), ThreadPoolExecutor(MAX_PARALLEL) as pool:
            allowed = pool.map(lambda right: self._api.allows(right, user), needed)
            return tuple(right for right, yes in zip(needed, list(allowed), strict=True) if not yes)
        return ()

    def _node(self, name: str) -> tuple[bool, Node | None]:
        """Whether it could be read, and the node; None if there is none of that name."""
        with self._noting("the nodes"):
            manifest = self._api.get(kinds.NODE, "", name)
            return True, Node(manifest) if manifest else None
        return False, None

    def _stream_count(self) -> int | None:
        """Not noted if it may not be read: it is asked of who looks at one namespace, too."""
        try:
            return self._api.count(kinds.STREAM)
        except ApiError:
            return None

    def _dns_endpoints(self) -> int | None:
        """Ready addresses of the cluster's name servers; None where they have another name."""
        with self._noting("the cluster's name servers"):
            slices = self._api.list(
                kinds.ENDPOINT_SLICE, "kube-system", {"kubernetes.io/service-name": "kube-dns"}
            )
            endpoints = [endpoint for part in slices for endpoint in mappings(part["endpoints"])]
            ready = [
                endpoint
                for endpoint in endpoints
                if at(endpoint, "conditions", "ready") is not False
            ]
            return len(ready) if slices else None
        return None

    def _crd_properties(self) -> frozenset[str] | None:
        with self._noting("the CustomResourceDefinition"):
            crd = (
                self._api.get(kinds.CRD, "", f"{group_version.PLURAL}.{group_version.GROUP}") or {}
            )
            for version in mappings(at(crd, "spec", "versions")):
                if version.get("name") == group_version.VERSION:
                    schema = at(version, "schema", "openAPIV3Schema", "properties", "status")
                    return frozenset(mapping(at(schema, "properties")))
        return None

    def _with_metrics(self, stream: StreamFacts) -> StreamFacts:
        """The numbers of its driver's own page, if one is served and may be read."""
        driver = stream.driver_pod
        if driver is None or not driver.started:
            return stream
        try:
            path = kinds.POD.path(stream.key.namespace, driver.name)
            page = self._api.page(f"{path}:{naming.METRICS_PORT}/proxy/metrics", _METRICS_SECONDS)
        except ApiError as error:
            not_read = NotRead("the driver's metrics", error.message)
            return replace(stream, not_read=(*stream.not_read, not_read))
        return replace(stream, metrics=parse_metrics(page))

    def _with_inside(self, stream: StreamFacts, *, always: bool) -> StreamFacts:
        """What a check inside the driver's container finds, if the driver runs.

        Of a whole fleet only the streams that are not Ready are checked.
        """
        driver = stream.driver_pod
        if driver is None or not driver.started or not (always or not stream.holds("Ready")):
            return stream
        try:
            return replace(stream, inside=self._check_inside(stream, driver.name))
        except (ApiError, ValueError) as error:
            why = error.message if isinstance(error, ApiError) else str(error)
            not_read = NotRead("the network inside the driver's container", why)
            return replace(stream, not_read=(*stream.not_read, not_read))

    def _check_inside(self, stream: StreamFacts, pod: str) -> PodCheck:
        servers = dict.fromkeys(
            server for some in stream.resource.brokers.values() for server in some
        )
        ran = self._api.run(
            kinds.POD.path(stream.key.namespace, pod, "exec"),
            naming.DRIVER_CONTAINER,
            pod_check.command(list(servers)),
            _INSIDE_SECONDS,
        )
        if ran.code != 0:
            raise ValueError(f"the image does not have {pod_check.MODULE} (exit code {ran.code})")
        return pod_check.parse(ran.output)

    @staticmethod
    def _now() -> datetime:
        return datetime.now(UTC)


def gather(api: KubeApi, read: Callable[[Gatherer], ClusterFacts]) -> ClusterFacts:
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        return read(Gatherer(api, pool))
