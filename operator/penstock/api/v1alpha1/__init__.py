"""The models of a ContinuousStream in the version v1alpha1.

Defaults are in these models and not in the CRD's schema. So what is applied is what is stored, and
GitOps tools see no drift. Each field's description states its default.
"""

from penstock.api.v1alpha1.base import SpecObject
from penstock.api.v1alpha1.checkpoint import Checkpoint, CheckpointVolume
from penstock.api.v1alpha1.object_store import ObjectStore
from penstock.api.v1alpha1.sinks import Sink
from penstock.api.v1alpha1.sources import KafkaSource, Source
from penstock.api.v1alpha1.spec import StreamSpec
from penstock.api.v1alpha1.transforms import SqlFunction

__all__ = [
    "Checkpoint",
    "CheckpointVolume",
    "KafkaSource",
    "ObjectStore",
    "Sink",
    "Source",
    "SpecObject",
    "SqlFunction",
    "StreamSpec",
]
