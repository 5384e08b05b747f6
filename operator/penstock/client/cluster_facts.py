"""What the cluster says about streams, read once: the value that all commands render. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from penstock.api.v1alpha1.status import Condition, LastFailure, StreamStatus
from penstock.cluster.kinds import Key
from penstock.cluster.lenient_fields import at, count, mapping, mappings, text
from penstock.cluster.objects import Claim, Event, Lease, Node, Object, Quota, StatefulSet
from penstock.cluster.pods import DriverPod, Pod
from penstock.cluster.stream import Stream, find_condition, holds
from penstock.cluster.stream_state import RunningParts
from penstock.contract import naming
from penstock.contract.driver_report import numbers_interval
from penstock.contract.operator_settings import OperatorSettings
from penstock.contract.pod_check import PodCheck
from penstock.contract.reason_table import Remedy

# What the chart allows at most.
_RAREST_NUMBERS = timedelta(hours=1)
# A failure comes a little before the stream is not Ready; what failed earlier has passed.
_SAME_FAILURE = timedelta(seconds=30)


@dataclass(frozen=True)
class NotRead:
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
class StreamFacts(RunningParts):
    """One stream, and the objects around it. Its events are the oldest first."""

    resource: Stream
    metrics: DriverMetrics | None = None
    inside: PodCheck | None = None
    """What a check inside the driver's container found; None if none was made."""
    not_read: tuple[NotRead, ...] = ()

    @property
    def key(self) -> Key:
        return self.resource.key

    @property
    def status(self) -> StreamStatus:
        """Its status, as far as it can be read."""
        return self.resource.status

    def condition(self, kind: str) -> Condition | None:
        return find_condition(self.status, kind)

    def has_passed(self, failed: datetime) -> bool:
        """Whether what failed then is not why the stream is not Ready now.

        It has also ended with the pod before: an edit replaced that.
        """
        ready = self.condition("Ready")
        if ready is None or ready.status == "True":
            return ready is not None
        shortly_before = ready.last_transition_time - _SAME_FAILURE
        pod = self.driver_pod
        return failed < (max(shortly_before, pod.created) if pod else shortly_before)

    def holds(self, kind: str) -> bool:
        return holds(self.status, kind)

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
    def driver_pod(self) -> DriverPod | None:
        """The driver's pod, also if its StatefulSet could not be read; None if there is none."""
        name = naming.driver_pod_name(self.key.name)
        return next((DriverPod(pod.manifest) for pod in self.pods if pod.name == name), None)

    @property
    def checkpoint_location(self) -> str:
        """Where in an object store the checkpoint is; empty if it is not in one."""
        owner, effective = self.stateful_set, self.status.effective
        known = owner.checkpoint_location if owner else ""
        return known or (effective and effective.checkpoint_location) or ""

    def command(self, remedy: Remedy) -> str:
        """The next command to run."""
        has_claim = not self.checkpoint_location
        return remedy.command_for(self.key.namespace, self.key.name, has_claim=has_claim)

    @property
    def stopped(self) -> bool:
        """Whether no driver is to run: it is suspended, or has finished and was deleted."""
        owner = self.stateful_set
        return self.resource.suspended or (owner is not None and owner.scaled_to_zero)

    @property
    def last_failure(self) -> LastFailure | None:
        """The last failure, unless the spec that failed has been replaced since."""
        failure, effective = self.status.last_failure, self.status.effective
        pod = self.driver_pod
        runs = (pod and pod.spec_hash) or (effective and effective.revision)
        if failure is None or failure.revision in (None, runs) or runs is None:
            return failure
        return None

    @property
    def lag(self) -> int | None:
        """Records that the query has not handled."""
        newer = self.metrics.lag if self.metrics else None
        return self.status.lag if newer is None else newer


@dataclass(frozen=True)
class OperatorFacts:
    deployment: Object
    pods: tuple[Pod, ...] = ()
    lease: Lease | None = None
    """By which one of its pods leads; None if there is none, or it could not be read."""
    selected: frozenset[str] | None = None
    """The namespaces with its labels; None if it selects none by labels, or they are unknown."""

    @property
    def key(self) -> Key:
        return self.deployment.key

    @property
    def version(self) -> str:
        """The version in its chart's labels; empty if they have none."""
        return self.deployment.labels.get("app.kubernetes.io/version", "")

    @property
    def ready(self) -> bool:
        return count(at(self.deployment.manifest, "status", "readyReplicas")) > 0

    @property
    def _pod_spec(self) -> Mapping[str, Any]:
        return mapping(at(self.deployment.manifest, "spec", "template", "spec"))

    @property
    def arguments(self) -> tuple[str, ...]:
        containers = mappings(self._pod_spec.get("containers"))
        words = containers[0].get("args") if containers else None
        return tuple(map(str, words)) if isinstance(words, list) else ()

    @cached_property
    def settings(self) -> OperatorSettings:
        """With which its pods start; the defaults for those of an operator of another version."""
        annotations = at(self.deployment.manifest, "spec", "template", "metadata", "annotations")
        written = text(mapping(annotations).get(naming.ANNOTATION_SETTINGS))
        with suppress(ValidationError, yaml.YAMLError):
            return TypeAdapter(OperatorSettings).validate_python(yaml.safe_load(written))
        return OperatorSettings("unknown")

    @property
    def namespace_selector(self) -> str:
        """The labels of the namespaces that it watches; empty: it selects none by labels."""
        return str(self.settings.watch_namespace_selector)

    @property
    def selects_unknown(self) -> bool:
        """Whether it watches namespaces by labels, and nobody could read which those are."""
        return bool(self.namespace_selector) and self.selected is None

    @property
    def lease_name(self) -> str:
        """The name of its Lease, in its namespace; empty if it has none."""
        flag = "--lease="
        return next((it[len(flag) :] for it in self.arguments if it.startswith(flag)), "")

    @property
    def service_account(self) -> str:
        """The user that the API server sees in its requests."""
        name = text(self._pod_spec.get("serviceAccountName")) or "default"
        return f"system:serviceaccount:{self.key.namespace}:{name}"

    def manages(self, namespace: str, class_name: str) -> bool:
        """Whether streams of a class in a namespace are its own."""
        by_name = namespace in (self.settings.watch_namespaces or (namespace,))
        by_label = self.selected is None or namespace in self.selected
        return by_name and by_label and class_name == self.settings.class_name


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
    quotas: tuple[Quota, ...] = ()
    nodes: Mapping[str, Node | None] = field(default_factory=dict)
    """Those of the streams' pods, by name; None if there is no node of that name."""
    stream_count: int | None = None
    """How many streams the cluster has; None if that is not known."""
    dns_endpoints: int | None = None
    """Ready addresses of the cluster's name servers; None if that is not known."""
    crd_properties: frozenset[str] | None = None
    """The status fields in the schema that is installed; None if that could not be read."""
    not_read: tuple[NotRead, ...] = ()

    def operators_of(self, namespace: str, class_name: str) -> tuple[OperatorFacts, ...]:
        """Those that manage the streams of a class in a namespace."""
        operators = self.operators or ()
        return tuple(operator for operator in operators if operator.manages(namespace, class_name))

    def numbers_interval(self, namespace: str, class_name: str) -> timedelta:
        """How often a stream's status gets new numbers; the longest time where it is not known."""
        operators = self.operators_of(namespace, class_name)
        configured = max(
            (operator.settings.numbers_interval for operator in operators), default=_RAREST_NUMBERS
        )
        if self.stream_count is None:
            return _RAREST_NUMBERS
        return numbers_interval(configured, self.stream_count)


def with_objects(
    streams: Iterable[Stream],
    sets: Iterable[StatefulSet] = (),
    claims: Iterable[Claim] = (),
    pods: Iterable[Pod] = (),
    events: Iterable[tuple[str, Event]] = (),
) -> list[StreamFacts]:
    """Each stream with those of the objects that are its own. Events come with their namespace."""
    sets_by_key = {stateful_set.key: stateful_set for stateful_set in sets}
    claims_by_key = {claim.key: claim for claim in claims}
    pods_by_stream: dict[Key, list[Pod]] = defaultdict(list)
    for pod in pods:
        pods_by_stream[Key(pod.namespace, pod.labels.get(naming.LABEL_STREAM, ""))].append(pod)
    events_by_key: dict[Key, list[Event]] = defaultdict(list)
    for namespace, event in events:
        events_by_key[Key(namespace, event.name)].append(event)

    def facts_of(stream: Stream) -> StreamFacts:
        key = stream.key
        own = pods_by_stream.get(key, [])
        driver = Key(key.namespace, naming.driver_name(key.name))
        owner = sets_by_key.get(driver)
        is_in_store = owner.checkpoint_location if owner else stream.names_object_store
        # A claim that an earlier stream has left is nothing to one in an object store.
        claim = None if is_in_store else Key(key.namespace, naming.checkpoint_claim_name(key.name))
        # A driver's pod that is gone still has its events.
        names = {naming.driver_pod_name(key.name), *(pod.name for pod in own)}
        about = [
            key,
            driver,
            *([claim] if claim else []),
            *(Key(key.namespace, name) for name in names),
        ]
        events_of_stream = [
            event for involved in about for event in events_by_key.get(involved, [])
        ]
        return StreamFacts(
            stream,
            stateful_set=owner,
            claim=claims_by_key.get(claim) if claim else None,
            pods=tuple(sorted(own, key=_driver_first)),
            events=tuple(sorted(events_of_stream, key=lambda event: event.time)),
        )

    return [facts_of(stream) for stream in streams]


def _driver_first(pod: Pod) -> tuple[bool, int, str]:
    return not pod.is_driver, len(pod.name), pod.name
