"""The PersistentVolumeClaim of the checkpoint. Pure."""

from __future__ import annotations

from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children.desired_stream import Wanted
from penstock.controller.children.diff import amount
from penstock.controller.children.metadata import _object
from penstock.controller.objects import Manifest


def claim(wanted: Wanted) -> Manifest:
    """The checkpoint's volume: the stream's own under Delete, nobody's under Retain."""
    volume = wanted.stream.spec.checkpoint.volume
    manifest = _object(objects.CLAIM, wanted, naming.checkpoint_claim_name(wanted.name))
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
