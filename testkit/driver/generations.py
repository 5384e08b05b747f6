"""Starts of a generation of a checkpoint: real folders, and a source that is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.driver.checkpoint.data_loss_check import check_for_data_loss
from penstock.driver.checkpoint.generations import Generations
from penstock.driver.checkpoint.start_position import first_starting_offsets
from penstock.driver.checkpoint.storage.volume import VolumeCheckpoints
from penstock.driver.environment import LocalEnvironment
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.source_monitor import SourceMonitor, SourceView
from testkit.driver.checkpoints import COMMIT, METADATA, write
from testkit.streams.streams import (
    MICRO_BATCH,
    kafka_sink,
    kafka_source,
    stream,
)

FILES = {"custom": {"format": "acme.Sink", "options": {"path": "/out"}}}


class MadeUpSource(SourceMonitor):
    """A source with these offsets."""

    def __init__(
        self,
        newest: Offsets,
        earliest: Offsets | None = None,
        ids: dict[str, str] | None = None,
        group: Offsets | None = None,
        at: Offsets | None = None,
    ) -> None:
        super().__init__()
        self.newest, self.ids, self.group, self.at = newest, ids or {}, group or {}, at or {}
        self.first = earliest or {t: dict.fromkeys(of, 0) for t, of in newest.items()}

    @property
    def view(self) -> SourceView:
        numbers = {t: list(of) for t, of in self.newest.items()}
        return SourceView(sum(map(len, numbers.values())), numbers, topic_ids=self.ids)

    def snapshot(self) -> KafkaSnapshot:
        return KafkaSnapshot(self.ids, self.first, self.newest)

    def fetch_log_ends(self) -> Offsets:
        return self.newest

    def fetch_newest_offsets(self) -> Offsets:
        return self.newest

    def fetch_offsets_at(self, timestamp_ms: int) -> Offsets:
        return self.at

    def fetch_group_offsets(self, group: str) -> Offsets:
        return self.group

    def named_by_spec(self, topics: Any) -> list[str]:
        return sorted(set(topics) & set(self.newest))


def flow(
    sink: dict[str, Any] | None = None, trigger: dict[str, Any] = MICRO_BATCH, **checkpoint: Any
) -> Any:
    source = kafka_source(
        topics=["in"], startingOffsets="earliest", failOnDataLoss=checkpoint.pop("fail", True)
    )
    return stream(source, sink or kafka_sink(), trigger=trigger, checkpoint=checkpoint).spec


def entry(**ends: int) -> bytes:
    line = json.dumps({"in": {n[1:]: at for n, at in ends.items()}})
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{{}}}}\n{line}'.encode()


def initial(at: int) -> bytes:
    """`sources/0/0`, as Spark writes it at the first start."""
    return b'\0v1\n{"in":{"0":%d}}' % at


def committed(path: Path, *batches: bytes, first: int = 0) -> None:
    files = {"metadata": METADATA}
    for n, content in enumerate(batches, first):
        files |= {f"offsets/{n}": content, f"commits/{n}": COMMIT}
    write(files, path)


NOTHING: Offsets = {}


def start(
    spec: Any, env: LocalEnvironment, source: MadeUpSource, written: Any = lambda names: NOTHING
) -> Any:
    """QueryRuntime.check_checkpoint."""
    generations = Generations(spec, VolumeCheckpoints(env))
    folder = generations.current
    repair = folder.repair(spec)
    began = generations.begin(source, repair, "payments", "numbers", written)
    lost = check_for_data_loss(spec, folder, source, repair, None)
    return lost or began, first_starting_offsets(spec, folder, source, repair)
