"""A revision of a stream: its valid spec, and the document that its driver reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from penstock.api import group_version
from penstock.api.modes import execution_of
from penstock.api.v1alpha1.restarts_by_field import with_live_of, without_live
from penstock.api.v1alpha1.status import Effective, EffectiveDriver, EffectiveExecutor
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, mapping
from penstock.cluster.objects import Object
from penstock.contract import naming, sizing
from penstock.contract.edit_effects import parts_of_pod
from penstock.controller.children.diff import content_hash
from penstock.controller.operator_settings import Settings

# The format of the document, not the version of the API: that one changes, and the revision of a
# stream must not change with it.
_DOCUMENT_FORMAT = "penstock.dev/v1alpha1"


@dataclass(frozen=True)
class Revision:
    """A stream with a valid spec, and the document that its driver reads."""

    stream: ContinuousStream
    uid: str
    document: str
    spec: Manifest
    """What the document says of the spec."""
    spec_hash: str
    """The hash of the document."""
    pod_hash: str
    """The hash of what a change of which replaces the driver's pod."""
    settings: Settings

    @property
    def name(self) -> str:
        return self.stream.metadata.name

    @property
    def namespace(self) -> str:
        return self.stream.metadata.namespace

    @property
    def image(self) -> str:
        return self.stream.spec.image or self.settings.spark_image

    @property
    def service_account(self) -> str:
        """The service account of driver and executors: the user's, or the stream's own."""
        return self.stream.spec.service_account_name or naming.driver_name(self.name)

    @property
    def checkpoint_location(self) -> str:
        """Where in an object store the checkpoint is; empty if it is on a volume."""
        store = self.stream.spec.checkpoint.object_store
        return "" if store is None else store.location_of(self.namespace, self.name)

    @cached_property
    def effective(self) -> Effective:
        """What the spec comes to, as far as it alone decides."""
        spec = self.stream.spec
        driver, executor = sizing.driver_memory(spec), sizing.executor_memory(spec)
        return Effective(
            image=self.image,
            revision=self.spec_hash,
            output_mode=execution_of(spec).output_mode,
            driver=EffectiveDriver(
                cpu=sizing.driver_cpu(spec).request,
                memory=f"{driver.limit}Mi",
                heap=f"{driver.heap}Mi",
            ),
            executor=EffectiveExecutor(
                cores=spec.executor.cores,
                cpu=sizing.executor_cpu(spec).request,
                memory=f"{executor.limit}Mi",
                heap=f"{executor.heap}Mi",
            ),
        )


def resolve(stream: ContinuousStream, raw: Manifest, settings: Settings) -> Revision:
    """The document for a stream's driver, with its hashes.

    `raw` is the stream as it was read, without the operator's defaults.
    """
    image = stream.spec.image or settings.spark_image
    text = document(stream.metadata.name, stream.metadata.namespace, raw["spec"], image)
    spec = spec_of_document(raw["spec"], image)
    pod_hash = content_hash(parts_of_pod({**raw["spec"], "image": image}, stream.spec))[:10]
    return Revision(stream, Object(raw).uid, text, spec, naming.spec_hash(text), pod_hash, settings)


def spec_of_document(spec: Manifest, image: str) -> Manifest:
    """The spec that the driver reads: what the user has set, and the image.

    No default is written out, so that the hash depends on nothing that another version of the
    operator might do otherwise.

    Nor are the live fields, which the driver takes from the stream itself, also while an edit of
    others is judged or refused.
    """
    return {**without_live(spec), "image": image}


def document(name: str, namespace: str, spec: Manifest, image: str) -> str:
    """What the driver reads. Not on the event loop: PyYAML takes
    half a second for the largest.
    """
    content = {
        "apiVersion": _DOCUMENT_FORMAT,
        "kind": group_version.KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec_of_document(spec, image),
    }
    # Through JSON, because YAML would write a value that occurs twice as a reference.
    return yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=True)


def with_earlier_spec(raw: Manifest, record: Manifest) -> Manifest:
    """The stream with the spec of a ControllerRevision, and with its own live fields."""
    spec = with_live_of(mapping(at(record, "data", "spec")), raw["spec"])
    return {**raw, "spec": spec}


def owner_reference(desired: Revision) -> dict[str, Any]:
    """Makes Kubernetes delete an object with its stream, even while no operator runs."""
    return {
        "apiVersion": group_version.API_VERSION,
        "kind": group_version.KIND,
        "name": desired.name,
        "uid": desired.uid,
        "controller": True,
        # True would need the right to update finalizers, and has no use here.
        "blockOwnerDeletion": False,
    }


def labels(desired: Revision) -> dict[str, str]:
    """The labels of an object of the stream, and those of its driver's pod."""
    class_name = desired.stream.spec.class_name
    return naming.stream_labels(desired.name, naming.COMPONENT_DRIVER, class_name)


def metadata(desired: Revision, name: str) -> Manifest:
    """The metadata of an object of the stream. The stream's own labels are not copied to it."""
    return {
        "name": name,
        "namespace": desired.namespace,
        "labels": labels(desired),
        "ownerReferences": [owner_reference(desired)],
    }


def build_object(kind: kinds.Kind, desired: Revision, name: str) -> Manifest:
    """An object of the stream with its metadata and no content."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata(desired, name),
    }


def config_map(desired: Revision) -> Manifest:
    """A ConfigMap with the driver's document, and the hash of the pod in the name.

    So no pod ever reads a document that it cannot follow, however late the kubelet refreshes its
    volumes.
    """
    name = naming.config_name(desired.name, desired.pod_hash)
    return {
        **build_object(kinds.CONFIG_MAP, desired, name),
        "data": {naming.SPEC_FILE: desired.document},
    }


def controller_revision_name(desired: Revision) -> str:
    """The name of the record of a revision."""
    return naming.revision_name(desired.name, desired.spec_hash)


def controller_revision(desired: Revision, number: int, *, names_image: bool) -> Manifest:
    """A record of the document, to go back to. The kind is Kubernetes' own for such records.

    Its data cannot be changed, so it holds no live fields. `names_image`: whether the spec itself
    names the image.
    """
    manifest = build_object(kinds.CONTROLLER_REVISION, desired, controller_revision_name(desired))
    own = {naming.LABEL_COMPONENT: naming.COMPONENT_REVISION}
    annotations = {naming.ANNOTATION_NAMES_IMAGE: str(names_image).lower()}
    labels = {**manifest["metadata"]["labels"], **own}
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "labels": labels, "annotations": annotations},
        "revision": number,
        "data": {"spec": desired.spec},
    }
