"""A stream with a valid spec, and the document that its driver reads."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import yaml

from penstock.api import group_version
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Object
from penstock.contract import naming
from penstock.controller.children.settings import Settings

_FOR_THE_OPERATOR = frozenset({"checkpoint", "suspend"})
# The format of the document, not the version of the API: that one changes, and the revision of a
# stream must not change with it.
_DOCUMENT_FORMAT = "penstock.dev/v1alpha1"


@dataclass(frozen=True)
class DesiredStream:
    """A stream with a valid spec, and the document that its driver reads."""

    stream: ContinuousStream
    uid: str
    document: str
    spec_hash: str
    settings: Settings

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
        return self.stream.spec.image or self.settings.default_image

    @property
    def service_account(self) -> str:
        """The service account of driver and executors: the user's, or the stream's own."""
        return self.stream.spec.service_account_name or naming.driver_name(self.name)


def resolve(stream: ContinuousStream, raw: Manifest, settings: Settings) -> DesiredStream:
    """The document for the driver of a stream, and its hash; `raw` is the stream as it was read."""
    image = stream.spec.image or settings.default_image
    text = document(stream.metadata.name, stream.metadata.namespace, raw["spec"], image)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return DesiredStream(stream, Object(raw).uid, text, digest, settings)


def document(name: str, namespace: str, spec: Manifest, image: str) -> str:
    """What the driver reads: what the user has set, and the image.

    No default is written out, so that the hash depends on nothing that another version of the
    operator might do otherwise, and a driver of an older image reads no field that only the
    operator knows. What only the operator uses is left out: so a larger volume, another reclaim
    policy or a stop for a while does not make another query of it. Nor does another log level,
    which the driver asks the API server for.
    """
    for_driver = {
        field: value
        for field, value in _without_log_level(spec).items()
        if field not in _FOR_THE_OPERATOR
    }
    content = {
        "apiVersion": _DOCUMENT_FORMAT,
        "kind": group_version.KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**for_driver, "image": image},
    }
    # Through JSON, because YAML would write a value that occurs twice as a reference.
    return yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=True)


def _without_log_level(spec: Manifest) -> Manifest:
    """The spec as if it had never had the field."""
    observability = dict(spec.get("observability", {}))
    if observability.pop("logLevel", None) is None:
        return spec
    others = {field: value for field, value in spec.items() if field != "observability"}
    return {**others, "observability": observability} if observability else others
