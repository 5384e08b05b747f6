"""Reads what the cluster holds for one stream into one value."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.kubernetes_api import Cluster
from penstock.controller.objects import Key, Manifest
from penstock.controller.observed.driver_pod import DriverPod


@dataclass(frozen=True)
class Observed:
    """The objects of one stream, as the API server gave them."""

    service_account: Manifest | None = None
    role_binding: Manifest | None = None
    claim: Manifest | None = None
    stateful_set: Manifest | None = None
    config_maps: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()

    def children(self) -> tuple[Manifest, ...]:
        """Everything that the operator itself applies."""
        singles = (self.service_account, self.role_binding, self.claim, self.stateful_set)
        return (*(each for each in singles if each is not None), *self.config_maps)

    def find(self, wanted: Manifest) -> Manifest | None:
        """The object of the same kind and name as a manifest."""
        for each in self.children():
            same_kind = each["kind"] == wanted["kind"]
            if same_kind and each["metadata"]["name"] == wanted["metadata"]["name"]:
                return each
        return None

    @property
    def driver_pod(self) -> DriverPod | None:
        """The pod of the StatefulSet there is now, not of an earlier one of the same name."""
        if self.stateful_set is None:
            return None
        uid = self.stateful_set["metadata"]["uid"]
        for pod in self.pods:
            if any(owner["uid"] == uid for owner in objects.owners_of(pod)):
                return DriverPod(pod)
        return None

    @property
    def executor_pods(self) -> tuple[Manifest, ...]:
        """The pods that the driver made."""
        return tuple(pod for pod in self.pods if _component(pod) == naming.COMPONENT_EXECUTOR)


async def observe(cluster: Cluster, key: Key) -> Observed:
    """Reads all of a stream's objects, each kind once and all at the same time."""
    driver = naming.driver_name(key.name)
    claim = naming.checkpoint_claim_name(key.name)
    selector = {naming.LABEL_STREAM: key.name}
    account, binding, volume, stateful_set, config_maps, pods = await asyncio.gather(
        cluster.get(objects.SERVICE_ACCOUNT, key.namespace, driver),
        cluster.get(objects.ROLE_BINDING, key.namespace, driver),
        cluster.get(objects.CLAIM, key.namespace, claim),
        cluster.get(objects.STATEFUL_SET, key.namespace, driver),
        cluster.list(objects.CONFIG_MAP, key.namespace, selector),
        cluster.list(objects.POD, key.namespace, selector),
    )
    return Observed(account, binding, volume, stateful_set, tuple(config_maps), tuple(pods))


def _component(pod: Manifest) -> str:
    return objects.labels_of(pod).get(naming.LABEL_COMPONENT, "")
