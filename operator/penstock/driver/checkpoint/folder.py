"""One stream's checkpoint folder: carries out repairs, and keeps Penstock's own files beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.checkpoint import durable_files, engine_switch, repair
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

# Penstock's file: the offsets of the stream's first start. Spark's continuous engine resolves
# "latest" again at each start until there is a commit, and would skip the records in between.
_FIRST_OFFSETS = Path("penstock") / "first-offsets.json"
# Penstock's file: the ids of the topics that the offsets belong to (data_loss.py).
_TOPIC_IDS = Path("penstock") / "topics.json"
# Written and removed before each start.
_WRITE_TEST = Path("penstock") / "probe"

_LOGS = ("commits", "offsets")


class CheckpointFolder:
    """A checkpoint in a mounted folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.progress = ProgressReader(path)

    @property
    def location(self) -> str:
        """The checkpointLocation for Spark."""
        return self.path.absolute().as_uri()

    def repair(self, spec: StreamSpec) -> RepairPlan:
        """Repairs what a crash or another engine left behind. Only while no query runs."""
        with durable_files.volume_errors(self.path):
            durable_files.check_writable(self.path / _WRITE_TEST)
            state = any(path.is_file() for path in (self.path / "state").rglob("*"))
            plan = engine_switch.plan(self._read(), spec, state=state)
            self._execute(plan)
        return plan

    def replace_committed_offsets(self, offsets: Offsets) -> None:
        """Makes the query continue from offsets other than the committed ones.

        Only while no query runs.
        """
        with durable_files.volume_errors(self.path):
            self._execute(repair.plan_offsets(self._read(), offsets))

    def first_offsets(self) -> Offsets | None:
        """The offsets of the stream's first start; None before it.

        Raises CheckpointDamaged if the file cannot be read.
        """
        target = self.path / _FIRST_OFFSETS
        try:
            document = json.loads(target.read_text())
            return {
                topic: {int(p): offset for p, offset in of.items()}
                for topic, of in document.items()
            }
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError) as error:
            raise DriverError(
                Failure(
                    "CheckpointDamaged",
                    f"{_FIRST_OFFSETS} cannot be read, and nothing is committed yet. The file "
                    "holds the offsets of the stream's first start; a start at the newest offsets "
                    "would skip all records since then. Restore the file, or delete it to start "
                    "at the newest offsets.",
                    permanent=True,
                )
            ) from error

    def save_first_offsets(self, offsets: Offsets) -> None:
        """Stores the offsets of the first start, before it happens."""
        self._save(_FIRST_OFFSETS, json.dumps(offsets))

    def topic_ids(self) -> dict[str, str]:
        """The stored ids of the topics that the offsets belong to."""
        try:
            document = json.loads((self.path / _TOPIC_IDS).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {str(topic): str(identity) for topic, identity in document.items()}

    def save_topic_ids(self, ids: Mapping[str, str]) -> None:
        """Stores the topic ids, before the first offsets of these topics are committed."""
        self._save(_TOPIC_IDS, json.dumps(ids))

    def _save(self, name: Path, text: str) -> None:
        target = self.path / name
        with durable_files.volume_errors(self.path):
            target.parent.mkdir(parents=True, exist_ok=True)
            durable_files.write(target, text.encode())
            durable_files.sync(target.parent)

    def _read(self) -> dict[str, bytes]:
        folders = [*_LOGS, *(f"sources/{name}" for name in _folders(self.path / "sources"))]
        paths = [f"{folder}/{name}" for folder in folders for name in _names(self.path / folder)]
        paths += [name for name in _names(self.path) if "metadata" in name]
        return {name: (self.path / name).read_bytes() for name in paths}

    def _execute(self, plan: RepairPlan) -> None:
        """Keeps the plan's order also across a power cut: syncs each group before the next.

        Files are deleted before their checksums. Otherwise a file that only its checksum shows to
        be damaged would look intact after a power cut in between.
        """
        for (folder, _), names in groupby(plan.delete, key=deletion_group):
            for name in names:
                durable_files.remove(self.path / name)
            durable_files.sync(self.path / folder)
        for name, content in plan.write.items():
            durable_files.write(self.path / name, content)
        for written in {(self.path / name).parent for name in plan.write}:
            durable_files.sync(written)


def deletion_group(name: str) -> tuple[str, bool]:
    """Files of one group may be deleted in any order: visible or hidden files of one folder."""
    folder, _, file = name.rpartition("/")
    return folder, file.startswith(".")


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in _scan(folder) if entry.is_file()]


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in _scan(folder) if entry.is_dir()]


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
