"""What the cluster says about streams, read once: the value that all commands render. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from penstock.api.v1alpha1.status import Condition, StreamStatus
from penstock.cluster import fields, kinds
from penstock.cluster.driver_pod import DriverPod
from penstock.cluster.events import ClusterEvent
from penstock.cluster.fields import at, timestamp
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.stream_status import find_condition, parse_status
from penstock.contract import naming
from penstock.contract.pod_check import PodCheck


@dataclass(frozen=True)
class Unread:
    """What could not be read, so nothing is said about it."""

    what: str
    why: str


@dataclass(frozen=True)
class DriverMetrics:
    """Numbers of the driver's own exposition, which are newer than the status."""

    last_commit: datetime | None = None
    lag: int | None = None
    records: float | None = None
    """Records of the source that this process has committed."""
    latency: float | None = None
    """Mean seconds from a record's timestamp to its commit, since the process started."""


@dataclass(frozen=True)
class StreamFacts:
    """One stream, and the objects around it."""

    raw: Manifest
    stateful_set: Manifest | None = None
    claim: Manifest | None = None
    pods: tuple[Manifest, ...] = ()
    events: tuple[ClusterEvent, ...] = ()
    """About the stream and its objects, the oldest first."""
    metrics: DriverMetrics | None = None
    inside: PodCheck | None = None
    """What a check inside the driver's container found; None if none was made."""
    unread: tuple[Unread, ...] = ()

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return _key_of(self.raw)

    @cached_property
    def status(self) -> StreamStatus:
        """Its status, as far as it can be read."""
        return parse_status(self.raw)

    @property
    def generation(self) -> int:
        """The generation of its spec."""
        return fields.count(at(self.raw, "metadata", "generation"))

    @property
    def class_name(self) -> str:
        """The class of the operator that acts on it; empty if it names none."""
        return fields.text(at(self.raw, "spec", "className"))

    @property
    def suspended(self) -> bool:
        """Whether the spec asks for no driver."""
        return at(self.raw, "spec", "suspend") is True

    @property
    def paused(self) -> bool:
        """Whether the operator was told to leave the stream alone."""
        return kinds.annotations_of(self.raw).get(naming.ANNOTATION_PAUSE) == "true"

    @property
    def created(self) -> datetime | None:
        """When it was created."""
        return timestamp(at(self.raw, "metadata", "creationTimestamp"))

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type."""
        return find_condition(self.status, kind)

    def holds(self, kind: str) -> bool:
        """Whether a condition is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def state(self) -> str:
        """The state in the status; Unknown before the operator has written one."""
        return self.status.state or "Unknown"

    @property
    def reason(self) -> str:
        """Why the stream is, or is not, Ready."""
        ready = self.condition("Ready")
        return ready.reason if ready else "NoStatus"

    @cached_property
    def driver(self) -> DriverPod | None:
        """The driver's pod; None if there is none."""
        name = naming.driver_pod_name(self.key.name)
        found = (DriverPod(pod) for pod in self.pods if kinds.name_of(pod) == name)
        return next(found, None)

    @property
    def executors(self) -> tuple[Manifest, ...]:
        """The executors' pods."""
        return tuple(
            pod
            for pod in self.pods
            if kinds.labels_of(pod).get(naming.LABEL_COMPONENT) == naming.COMPONENT_EXECUTOR
        )

    @property
    def brokers(self) -> dict[str, tuple[str, ...]]:
        """The Kafka servers of source and sink; without those that do not use Kafka."""
        spec = fields.mapping(self.raw.get("spec"))
        shared = at(spec, "kafka", "bootstrapServers")
        return {
            end: tuple(each.strip() for each in fields.text(servers).split(",") if each.strip())
            for end in ("source", "sink")
            if at(spec, end, "kafka") is not None
            and (servers := at(spec, end, "kafka", "bootstrapServers") or shared)
        }

    @property
    def lag(self) -> int | None:
        """Records that are not committed yet."""
        newer = self.metrics.lag if self.metrics else None
        return self.status.lag if newer is None else newer


@dataclass(frozen=True)
class OperatorFacts:
    """One deployment of the operator."""

    deployment: Manifest
    pods: tuple[Manifest, ...] = ()
    lease: Manifest | None = None
    """By which one of its pods leads; None if there is none, or it could not be read."""

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return _key_of(self.deployment)

    @property
    def version(self) -> str:
        """The version in its chart's labels; empty if they have none."""
        return kinds.labels_of(self.deployment).get("app.kubernetes.io/version", "")

    @property
    def ready(self) -> bool:
        """Whether one of its pods is ready."""
        return fields.count(at(self.deployment, "status", "readyReplicas")) > 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of its container."""
        containers = fields.mappings(at(self.deployment, "spec", "template", "spec", "containers"))
        words = containers[0].get("args") if containers else None
        return tuple(map(str, words)) if isinstance(words, list) else ()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that it looks after; empty: all of them."""
        return self._values_of("--namespace=")

    @property
    def class_name(self) -> str:
        """The class of the streams that it acts on; empty: those without a class."""
        return next(iter(self._values_of("--class-name=")), "")

    @property
    def lease_name(self) -> str:
        """The name of its Lease, in its namespace; empty if it has none."""
        return next(iter(self._values_of("--lease=")), "")

    def _values_of(self, flag: str) -> tuple[str, ...]:
        return tuple(each[len(flag) :] for each in self.arguments if each.startswith(flag))

    @property
    def service_account(self) -> str:
        """The user that the API server sees in its requests."""
        spec = fields.mapping(at(self.deployment, "spec", "template", "spec"))
        name = fields.text(spec.get("serviceAccountName")) or "default"
        return f"system:serviceaccount:{self.key.namespace}:{name}"

    def looks_after(self, namespace: str, class_name: str) -> bool:
        """Whether streams of a class in a namespace are its own."""
        watched = not self.namespaces or namespace in self.namespaces
        return watched and class_name == self.class_name


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a kind of resource, as RBAC has it."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    """Empty: in all of them."""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        full = f"{name}/{self.subresource}" if self.subresource else name
        return f"{self.verb} {full} in {self.namespace or 'all namespaces'}"


@dataclass(frozen=True)
class ClusterFacts:
    """What was read, and when."""

    now: datetime
    streams: tuple[StreamFacts, ...] = ()
    serves_streams: bool = True
    """Whether the API server knows ContinuousStream."""
    operators: tuple[OperatorFacts, ...] | None = None
    """None if they could not be read."""
    missing_rights: Mapping[str, tuple[Right, ...]] = field(default_factory=dict)
    """By user, "" for the one who asks: rights that the API server says are missing."""
    quotas: tuple[Manifest, ...] = ()
    nodes: Mapping[str, Manifest | None] = field(default_factory=dict)
    """Those of the streams' pods, by name; None if there is no node of that name."""
    dns_endpoints: int | None = None
    """Ready addresses of the cluster's name servers; None if that is not known."""
    crd_properties: frozenset[str] | None = None
    """The status fields in the schema that is installed; None if that could not be read."""
    unread: tuple[Unread, ...] = ()

    def operators_of(self, namespace: str, class_name: str) -> tuple[OperatorFacts, ...]:
        """Those that look after the streams of a class in a namespace."""
        found = (each for each in self.operators or () if each.looks_after(namespace, class_name))
        return tuple(found)


def with_objects(
    streams: Iterable[Manifest],
    sets: Iterable[Manifest] = (),
    claims: Iterable[Manifest] = (),
    pods: Iterable[Manifest] = (),
    events: Iterable[tuple[str, ClusterEvent]] = (),
) -> list[StreamFacts]:
    """Each stream with those of the objects that are its own. Events come with their namespace."""
    sets_by_key = {_key_of(each): each for each in sets}
    claims_by_key = {_key_of(each): each for each in claims}
    pods_by_stream: dict[Key, list[Manifest]] = defaultdict(list)
    for pod in pods:
        stream = kinds.labels_of(pod).get(naming.LABEL_STREAM, "")
        pods_by_stream[Key(namespace_of(pod), stream)].append(pod)
    events_by_key: dict[Key, list[ClusterEvent]] = defaultdict(list)
    for namespace, event in events:
        events_by_key[Key(namespace, event.name)].append(event)

    def found(raw: Manifest) -> StreamFacts:
        key = _key_of(raw)
        own = pods_by_stream.get(key, [])
        driver = Key(key.namespace, naming.driver_name(key.name))
        claim = Key(key.namespace, naming.checkpoint_claim_name(key.name))
        # A driver's pod that is gone still has its events.
        names = {naming.driver_pod_name(key.name), *map(kinds.name_of, own)}
        about = [key, driver, claim, *(Key(key.namespace, name) for name in names)]
        said = [event for each in about for event in events_by_key.get(each, [])]
        return StreamFacts(
            raw,
            stateful_set=sets_by_key.get(driver),
            claim=claims_by_key.get(claim),
            pods=tuple(sorted(own, key=_driver_first)),
            events=tuple(sorted(said, key=lambda each: each.time)),
        )

    return [found(each) for each in streams]


def namespace_of(manifest: Manifest) -> str:
    """An object's namespace; empty if it has none."""
    return fields.text(at(manifest, "metadata", "namespace"))


def _key_of(manifest: Manifest) -> Key:
    return Key(namespace_of(manifest), kinds.name_of(manifest))


def _driver_first(pod: Manifest) -> tuple[bool, int, str]:
    component = kinds.labels_of(pod).get(naming.LABEL_COMPONENT)
    name = kinds.name_of(pod)
    return component != naming.COMPONENT_DRIVER, len(name), name
