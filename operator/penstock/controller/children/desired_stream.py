"""A stream with a valid spec, and the resolved spec that its driver reads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from penstock.api.v1alpha1 import Checkpoint, CheckpointVolume
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming


@dataclass(frozen=True)
class DesiredStream:
    """A stream with a valid spec, and the resolved spec that its driver reads."""

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
    def service_account(self) -> str:
        """The service account of driver and executors: the user's, or the stream's own."""
        return self.stream.spec.service_account_name or naming.driver_name(self.name)


def resolve(stream: ContinuousStream, uid: str, default_image: str) -> DesiredStream:
    """Fills in the operator's defaults, and hashes what the driver reads.

    The document leaves out the volume, which only the operator uses. So a larger volume or another
    reclaim policy does not restart the query.
    """
    spec = stream.spec.model_copy(update={"image": stream.spec.image or default_image})
    resolved = stream.model_copy(update={"spec": spec})
    for_driver = spec.model_copy(update={"checkpoint": Checkpoint(volume=CheckpointVolume())})
    document = resolved.model_copy(update={"spec": for_driver}).to_yaml()
    digest = hashlib.sha256(document.encode()).hexdigest()[:10]
    return DesiredStream(resolved, uid, document, digest)
