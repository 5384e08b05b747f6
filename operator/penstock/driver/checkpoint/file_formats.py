"""The formats of the files in Spark's checkpoint. Pure functions.

A file is written as `.N.<uuid>.tmp`, synced and renamed (connector/): a crash leaves whole files,
some of them under temporary names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.api.reserved_spark_conf import SHUFFLE_PARTITIONS
from penstock.driver.kafka.offsets import Offsets

# Path relative to the checkpoint -> contents. About two hundred small files.
Files = Mapping[str, bytes]

EMPTY_METADATA_LINE = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_VERSION = re.compile(r"v[0-9]+")


@dataclass(frozen=True)
class Entry:
    """One `offsets/N`: where an epoch or batch ends, with a line for each source.

    A query that reads its source twice, such as a self-join, has a line for each read.

    >>> entry = Entry.parse(b'v1\\n{}\\n{"in":{"0":7}}\\n42\\n{"in":{"0":9}}')
    >>> entry.kafka
    ({'in': {0: 7}}, None, {'in': {0: 9}})
    """

    sources: tuple[str, ...]
    """JSON, in micro-batches often a plain number, or a dash for a source without offsets."""
    metadata: str = EMPTY_METADATA_LINE
    """A JSON object; empty if the continuous engine wrote it."""
    version: str = "v1"

    @classmethod
    def parse(cls, content: bytes) -> Entry | None:
        """None if the content is not whole (OffsetSeqLog)."""
        try:
            version, metadata, *sources = content.decode().split("\n")
        except ValueError:
            return None
        whole = _VERSION.fullmatch(version) and (metadata == "" or is_object(metadata))
        if not whole or not sources or not all(map(_is_offset, sources)):
            return None
        return cls(tuple(sources), metadata, version)

    @property
    def content(self) -> bytes:
        return "\n".join([self.version, self.metadata, *self.sources]).encode()

    @property
    def is_continuous(self) -> bool:
        """Whether the continuous engine wrote it."""
        return self.metadata == ""

    @property
    def kafka(self) -> tuple[Offsets | None, ...]:
        """By source that of each partition's next record; None for another source than Kafka."""
        return tuple(map(parse_line, self.sources))

    @property
    def offsets(self) -> Offsets | None:
        """Kafka's, whichever source reads them: the smallest counts; None if there are none."""
        of_kafka = [offsets for offsets in self.kafka if offsets is not None]
        return earliest(of_kafka) if of_kafka else None

    @property
    def shuffle_partitions(self) -> int | None:
        """The partitions of a shuffle, and so of state, that it keeps; None if none.

        Spark takes them from there at each start, whatever the session says (OffsetSeqMetadata).
        """
        try:
            return int(self._setting(SHUFFLE_PARTITIONS) or "")
        except ValueError:
            return None

    @property
    def state_store(self) -> str | None:
        """The class that keeps state, which Spark takes from there too; None if it keeps none."""
        return self._setting(_STATE_STORE)

    def _setting(self, name: str) -> str | None:
        try:
            return str(json.loads(self.metadata)["conf"][name])
        except (KeyError, TypeError, ValueError):
            return None

    def with_shuffle_partitions(self, number: int) -> Entry:
        """With a number, if it keeps none: Spark wants one of a batch that it runs as planned
        (OfflineStateRepartitionUtils.isRepartitionBatch, 4.2).
        """
        if self.shuffle_partitions is not None:
            return self
        metadata = json.loads(self.metadata or EMPTY_METADATA_LINE)
        conf = {**metadata.get("conf", {}), SHUFFLE_PARTITIONS: str(number)}
        line = json.dumps({**metadata, "conf": conf}, separators=(",", ":"))
        return replace(self, metadata=line)

    def ends_before(self, previous: Entry) -> bool:
        """Whether a partition of a Kafka source ends earlier than in `previous`."""
        return any(
            later.get(topic, {}).get(partition, offset) < offset
            for earlier, later in zip(previous.kafka, self.kafka, strict=False)
            if earlier is not None and later is not None
            for topic, partitions in earlier.items()
            for partition, offset in partitions.items()
        )

    def with_offsets(self, offsets: Mapping[int, Offsets]) -> Entry:
        """With these offsets of some Kafka sources, by the number of the source."""
        lines = {n: line_of(of) for n, of in offsets.items()}
        sources = tuple(lines.get(n, line) for n, line in enumerate(self.sources))
        return replace(self, sources=sources)


def earliest(reads: Iterable[Offsets]) -> Offsets:
    """For each partition the smallest offset of these reads."""
    offsets: dict[str, dict[int, int]] = {}
    for topic, of_topic in (item for read in reads for item in read.items()):
        known = offsets.setdefault(topic, {})
        for partition, offset in of_topic.items():
            known[partition] = min(offset, known.get(partition, offset))
    return offsets


def line_of(offsets: Offsets) -> str:
    """The line of a Kafka source."""
    return json.dumps(
        {topic: {str(p): offset for p, offset in of.items()} for topic, of in offsets.items()}
    )


def parse_line(line: str) -> Offsets | None:
    """The offsets in the line of a Kafka source; None for another source's."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in of_topic.items()}
            for topic, of_topic in json.loads(line).items()
        }
    except (AttributeError, TypeError, ValueError):
        return None


def is_commit(content: bytes) -> bool:
    """Whether this is a whole commit: a version and one line of JSON."""
    version, *lines = content.decode(errors="replace").split("\n")
    return bool(_VERSION.fullmatch(version)) and len(lines) == 1 and is_object(lines[0])


def initial_offsets(content: bytes) -> Offsets | None:
    """The offsets in a whole initial offsets file of a Kafka source; None for any other content.

    Its format is that of a commit after a zero byte (KafkaSourceInitialOffsetWriter).
    """
    commit = content.removeprefix(b"\0")
    return parse_line(commit.decode().split("\n")[1]) if is_commit(commit) else None


def is_metadata(content: bytes) -> bool:
    """Whether this is whole metadata: the query's id, as JSON."""
    lines = content.decode(errors="replace").split("\n")
    return any(is_object(line) and "id" in json.loads(line) for line in lines)


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _is_offset(line: str) -> bool:
    try:
        return line == "-" or json.loads(line) is not None
    except ValueError:
        return False
