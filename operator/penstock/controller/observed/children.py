"""Reads the objects of one stream into one value."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.cluster import kinds
from penstock.cluster.driver_pod import DriverPod
from penstock.cluster.events import ClusterEvent, parse_event
from penstock.cluster.fields import at
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.rest import ApiError
from penstock.contract import naming
from penstock.controller.kubernetes.api import KubernetesApi


@dataclass(frozen=True)
class ObservedChildren:
    """The objects of one stream, as the API server returned them."""

    service_account: Manifest | None = None
    role: Manifest | None = None
    role_binding: Manifest | None = None
    network_policy: Manifest | None = None
    claim: Manifest | None = None
    stateful_set: Manifest | None = None
    config_maps: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    warnings: tuple[ClusterEvent, ...] = ()
    """What Kubernetes says about the objects that a driver waits for."""
    settled: Mapping[str, str] = field(default_factory=dict)
    """By UID: the hash of the applied manifest, for objects that are as the server left them."""

    def applied(self) -> tuple[Manifest, ...]:
        """Every object that the operator itself applies."""
        singles = (
            self.service_account,
            self.role,
            self.role_binding,
            self.network_policy,
            self.claim,
            self.stateful_set,
        )
        return (*(each for each in singles if each is not None), *self.config_maps)

    def find(self, desired: Manifest) -> Manifest | None:
        """The object with the kind and name of a manifest."""
        for each in self.applied():
            same_kind = each["kind"] == desired["kind"]
            if same_kind and kinds.name_of(each) == kinds.name_of(desired):
                return each
        return None

    def is_existing_claim(self, desired: Manifest) -> bool:
        """Whether a manifest is of the claim that is there: its refusal must delay nothing else.

        The API server refuses an expansion that the storage class does not allow.
        """
        return self.claim is not None and desired["kind"] == kinds.CLAIM.kind

    @cached_property
    def driver_pod(self) -> DriverPod | None:
        """The pod of the current StatefulSet, not of an earlier one of the same name."""
        if self.stateful_set is None:
            return None
        uid = kinds.uid_of(self.stateful_set)
        for pod in self.pods:
            if kinds.is_owned_by(pod, uid):
                return DriverPod(pod)
        return None

    @property
    def executor_pods(self) -> tuple[Manifest, ...]:
        """The pods that the driver created."""
        return tuple(pod for pod in self.pods if _component(pod) == naming.COMPONENT_EXECUTOR)


async def observe_children(api: KubernetesApi, key: Key) -> ObservedChildren:
    """Reads all objects of a stream, each kind once and all at the same time."""
    driver = naming.driver_name(key.name)
    selector = {naming.LABEL_STREAM: key.name}
    singles = await asyncio.gather(
        api.get(kinds.SERVICE_ACCOUNT, key.namespace, driver),
        api.get(kinds.ROLE, key.namespace, driver),
        api.get(kinds.ROLE_BINDING, key.namespace, driver),
        api.get(kinds.NETWORK_POLICY, key.namespace, driver),
        api.get(kinds.CLAIM, key.namespace, naming.checkpoint_claim_name(key.name)),
        api.get(kinds.STATEFUL_SET, key.namespace, driver),
    )
    config_maps, pods = await asyncio.gather(
        api.list(kinds.CONFIG_MAP, key.namespace, selector),
        api.list(kinds.POD, key.namespace, selector),
    )
    children = ObservedChildren(*singles, tuple(config_maps), tuple(pods))
    warnings = [await _warnings(api, key, uid) for uid in _waited_for(children)]
    return replace(children, warnings=tuple(itertools.chain.from_iterable(warnings)))


def _waited_for(children: ObservedChildren) -> list[str]:
    """The UIDs of the objects that keep the driver from running, if it does not run."""
    owner, pod, claim = children.stateful_set, children.driver_pod, children.claim
    if owner is None or (pod is not None and pod.started):
        return []
    found = [kinds.uid_of(owner) if pod is None else pod.uid]
    if claim is not None and at(claim, "status", "phase") == "Pending":
        found.append(kinds.uid_of(claim))
    return [uid for uid in found if uid]


async def _warnings(api: KubernetesApi, key: Key, uid: str) -> list[ClusterEvent]:
    """The warnings about an object; none if they cannot be read, for they only explain."""
    about = {"regarding.uid": uid, "type": "Warning"}
    try:
        events = await api.list(kinds.EVENT, key.namespace, {}, about)
    except ApiError:
        return []
    return [parse_event(each) for each in events]


def _component(pod: Manifest) -> str:
    return kinds.labels_of(pod).get(naming.LABEL_COMPONENT, "")
