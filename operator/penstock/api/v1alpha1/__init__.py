"""What people write: the spec of a ContinuousStream.

Defaults live here and not in the CRD's schema, so that what is applied is what is stored and a
GitOps tool sees no drift; each default stands in its field's description.
"""

from penstock.api.v1alpha1.base import SpecObject
from penstock.api.v1alpha1.checkpoint import Checkpoint, CheckpointVolume
from penstock.api.v1alpha1.sinks import Sink
from penstock.api.v1alpha1.sources import KafkaSource, Source
from penstock.api.v1alpha1.spec import StreamSpec
from penstock.api.v1alpha1.transforms import SqlFunction

__all__ = [
    "Checkpoint",
    "CheckpointVolume",
    "KafkaSource",
    "Sink",
    "Source",
    "SpecObject",
    "SqlFunction",
    "StreamSpec",
]
