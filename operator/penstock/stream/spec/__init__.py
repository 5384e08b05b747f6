"""What people write: the spec of a ContinuousStream.

Defaults live here and not in the CRD's schema, so that what is applied is what is stored and a
GitOps tool sees no drift; each default stands in its field's description.
"""

from penstock.stream.spec.checkpoint import Checkpoint, CheckpointVolume
from penstock.stream.spec.part import Part
from penstock.stream.spec.sinks import Sink
from penstock.stream.spec.sources import KafkaSource, Source
from penstock.stream.spec.stream import StreamSpec
from penstock.stream.spec.transforms import SqlFunction

__all__ = [
    "Checkpoint",
    "CheckpointVolume",
    "KafkaSource",
    "Part",
    "Sink",
    "Source",
    "SqlFunction",
    "StreamSpec",
]
