"""Builders of the objects that make up a stream, except the driver's StatefulSet. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from penstock.controller import kinds
from penstock.controller.compare import amount
from penstock.controller.kinds import Manifest
from penstock.stream import naming
from penstock.stream.resource import ContinuousStream
from penstock.stream.spec import Checkpoint, CheckpointVolume


@dataclass(frozen=True)
class Wanted:
    """A stream whose spec was found good: what people wrote, and what its driver will read."""

    stream: ContinuousStream
    uid: str
    document: str
    spec_hash: str

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace of the stream and of all its objects."""
        return self.stream.metadata.namespace

    @property
    def image(self) -> str:
        """The image of driver and executors."""
        image = self.stream.spec.image
        assert image is not None, "resolve() fills it in"
        return image

    @property
    def account(self) -> str:
        """The service account of driver and executors: the user's own, or one of the stream's."""
        return self.stream.spec.service_account_name or naming.driver_name(self.name)


def resolve(stream: ContinuousStream, uid: str, default_image: str) -> Wanted:
    """Fills in what the spec leaves to the operator, and hashes what the driver reads.

    The volume is the operator's business alone: it is left out of the document, so that a larger
    volume or another reclaim policy does not restart the query.
    """
    spec = stream.spec.model_copy(update={"image": stream.spec.image or default_image})
    resolved = stream.model_copy(update={"spec": spec})
    for_driver = spec.model_copy(update={"checkpoint": Checkpoint(volume=CheckpointVolume())})
    document = resolved.model_copy(update={"spec": for_driver}).to_yaml()
    digest = hashlib.sha256(document.encode()).hexdigest()[:10]
    return Wanted(resolved, uid, document, digest)


def service_account(wanted: Wanted) -> Manifest | None:
    """Who the driver is to the API server, and whose rights the stream's SQL runs with.

    None is made where the user has one; one that was made before goes with its stream.
    """
    if wanted.stream.spec.service_account_name is not None:
        return None
    return _object(kinds.SERVICE_ACCOUNT, wanted, wanted.account)


def role_binding(wanted: Wanted) -> Manifest:
    """Lets the driver make and remove executor pods in its own namespace."""
    name = naming.driver_name(wanted.name)
    return {
        **_object(kinds.ROLE_BINDING, wanted, name),
        "roleRef": {
            "apiGroup": kinds.ROLE_BINDING.group,
            "kind": "ClusterRole",
            "name": naming.DRIVER_CLUSTER_ROLE,
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": wanted.account, "namespace": wanted.namespace}
        ],
    }


def config_map(wanted: Wanted) -> Manifest:
    """The resolved spec, under a name that carries its hash, and never changed.

    A pod of one revision can therefore never read the document of another, whenever the kubelet
    gets round to refreshing its volumes.
    """
    return {
        **_object(kinds.CONFIG_MAP, wanted, naming.config_name(wanted.name, wanted.spec_hash)),
        "immutable": True,
        "data": {naming.SPEC_FILE: wanted.document},
    }


def claim(wanted: Wanted) -> Manifest:
    """The checkpoint's volume: the stream's own under Delete, nobody's under Retain."""
    volume = wanted.stream.spec.checkpoint.volume
    manifest = _object(kinds.CLAIM, wanted, naming.checkpoint_claim_name(wanted.name))
    if volume.reclaim_policy == "Retain":
        del manifest["metadata"]["ownerReferences"]
    manifest["spec"] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class_name is not None:
        manifest["spec"]["storageClassName"] = volume.storage_class_name
    return manifest


def claim_as_allowed(asked: Manifest, found: Manifest | None) -> Manifest:
    """What of a claim may be asked once it exists: that it grows, and nothing else.

    The rest of a claim's spec never changes, and server-side apply would try to take away what
    it once gave, so what is there is asked for again.
    """
    if found is None:
        return asked
    kept = ("accessModes", "storageClassName")
    spec: Manifest = {field: found["spec"][field] for field in kept if field in found["spec"]}
    sizes = [each["spec"]["resources"]["requests"]["storage"] for each in (found, asked)]
    spec["resources"] = {"requests": {"storage": max(sizes, key=amount)}}
    return {**asked, "spec": spec}


def owner_reference(wanted: Wanted) -> dict[str, Any]:
    """What makes Kubernetes delete an object with its stream, also while no operator runs."""
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "name": wanted.name,
        "uid": wanted.uid,
        "controller": True,
        # True would need the right to update finalizers, and buys nothing here.
        "blockOwnerDeletion": False,
    }


def metadata(wanted: Wanted, name: str) -> Manifest:
    """The metadata of an object of the stream; nothing of the stream's own is copied to it."""
    return {
        "name": name,
        "namespace": wanted.namespace,
        "labels": naming.stream_labels(wanted.name, naming.COMPONENT_DRIVER),
        "ownerReferences": [owner_reference(wanted)],
    }


def _object(kind: kinds.Kind, wanted: Wanted, name: str) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata(wanted, name),
    }
