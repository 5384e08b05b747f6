"""A checkpoint's logs as a value, and the steps from the logs that are there to the target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.driver.checkpoint.file_formats import (
    Entry,
    Files,
    initial_offsets,
    is_commit,
    is_metadata,
)
from penstock.driver.kafka.offsets import Offsets

METADATA = "metadata"
# A commit without a watermark (CommitLog, version 1).
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'

# All that a repair may write or remove, beside temporary files and what an import removes.
LOG_FILE = re.compile(r"metadata|(offsets|commits)/[0-9]+|sources/[0-9]+/0")
_DRAFT = re.compile(r"(.*/)?\.[^/]+\.tmp(\.crc)?")
_INITIAL_OFFSETS = re.compile(r"sources/([0-9]+)/0")
# Another source's log, such as rate's start time, or the files of a file source.
_OTHER_LOG = re.compile(rb"v[0-9]+\n.+", re.DOTALL)


@dataclass(frozen=True)
class Logs:
    """The whole files of a checkpoint's logs, by number."""

    offsets: Mapping[int, Entry] = field(default_factory=dict)
    commits: Mapping[int, bytes] = field(default_factory=dict)
    initial: Mapping[int, bytes] = field(default_factory=dict)
    """`sources/N/0` by source; those of other sources than Kafka as they are."""
    metadata: bytes | None = None
    added: tuple[Repair, ...] = ()
    """Why there is more than was found."""

    @classmethod
    def read(cls, files: Files, *, is_kafka: bool = True) -> Logs:
        """The files that are whole; `is_kafka`: the spec's source is Kafka.

        An initial offsets file is not judged if it may be that of another source.
        """
        entries = {n: Entry.parse(files[f"offsets/{n}"]) for n in numbers(files, "offsets")}
        offsets = {n: entry for n, entry in entries.items() if entry is not None}
        commits = {n: files[f"commits/{n}"] for n in numbers(files, "commits")}
        known = offsets[max(offsets)].kafka if offsets else ()
        initial = {}
        for path in filter(_INITIAL_OFFSETS.fullmatch, files):
            n, content = int(path.split("/")[1]), files[path]
            is_other = known[n] is None if n < len(known) else _OTHER_LOG.fullmatch(content)
            if initial_offsets(content) is not None or is_other or not is_kafka:
                initial[n] = content
        return cls(
            offsets,
            {n: commit for n, commit in commits.items() if is_commit(commit)},
            initial,
            files[METADATA] if is_metadata(files.get(METADATA, b"")) else None,
        )

    @property
    def epoch(self) -> int | None:
        """The commit that a query continues from; None: a start without a commit."""
        return max(self.offsets.keys() & self.commits.keys(), default=None)

    @property
    def last(self) -> int:
        """The same as a number that all later ones exceed: -1 without a commit."""
        return -1 if self.epoch is None else self.epoch

    @property
    def commits_alone(self) -> list[str]:
        """The later commits, whose offsets are lost."""
        last = self.last
        return [f"commits/{n}" for n in self.commits if n > last]

    @property
    def continues_after(self) -> int | None:
        """A query reads on from the end of this `offsets/N`; None: from its first offsets.

        A planned batch starts from the offsets before it.
        """
        newest = max(self.offsets, default=None)
        if newest is None or newest == self.epoch:
            return newest
        return max((n for n in self.offsets if n < newest), default=None)

    @property
    def next_offsets(self) -> dict[int, Offsets]:
        """From where each Kafka source reads on, by its number; its planned end if that is all."""
        after = self.continues_after
        number = max(self.offsets, default=None) if after is None else after
        if number is not None:
            by_source = dict(enumerate(self.offsets[number].kafka))
        else:
            by_source = {n: initial_offsets(content) for n, content in self.initial.items()}
        return {n: offsets for n, offsets in by_source.items() if offsets is not None}

    @property
    def planned_ends(self) -> dict[int, Offsets]:
        """Where a batch ends that is planned and not committed, by source; empty if none is."""
        newest = max(self.offsets, default=None)
        if newest is None or newest == self.epoch:
            return {}
        by_source = dict(enumerate(self.offsets[newest].kafka))
        return {n: offsets for n, offsets in by_source.items() if offsets is not None}

    @property
    def files(self) -> dict[str, bytes]:
        """All of them: in this order a log has nothing that would skip records."""
        metadata = {} if self.metadata is None else {METADATA: self.metadata}
        initial = {f"sources/{n}/0": content for n, content in self.initial.items()}
        offsets = {f"offsets/{n}": self.offsets[n].content for n in sorted(self.offsets)}
        commits = {f"commits/{n}": self.commits[n] for n in sorted(self.commits)}
        return metadata | initial | offsets | commits

    @property
    def most_partitions(self) -> int | None:
        """The most partitions of state that a committed batch has; None if that is not known."""
        if self.epoch is None:
            return None
        counts = [entry.shuffle_partitions for n, entry in self.offsets.items() if n <= self.epoch]
        known = [count for count in counts if count is not None]
        return max(known) if len(known) == len(counts) else None

    def up_to(self, epoch: int) -> Logs:
        """Without what is planned or committed after this one."""
        return replace(
            self,
            offsets={n: entry for n, entry in self.offsets.items() if n <= epoch},
            commits={n: commit for n, commit in self.commits.items() if n <= epoch},
        )

    def with_repaired_offsets(self, offsets: Mapping[int, Entry], kind: RepairKind) -> Logs:
        """With these offsets, and the repairs that they are."""
        repairs = (Repair(kind, f"offsets/{n}") for n in offsets)
        return replace(self, offsets={**self.offsets, **offsets}, added=(*self.added, *repairs))


# A file to write, or to remove if there is no content.
Step = tuple[str, bytes | None]


def diff(files: Files, parsed: Logs, target: Logs) -> tuple[Step, ...]:
    """The steps from these files, of which `parsed` was read, to the target.

    If a crash interrupts them anywhere, those of the next start lead to the same files:

    - A commit is written first if its offsets are there: what shows that it is due may be removed.
    - The newest offsets are emptied before they change, unless they are committed. An empty file
      counts as torn, and its number as used: so an interrupted repair leaves neither offsets that
      look whole nor none at all.
    - Offsets are written before their commits.
    """
    old, new = parsed.files, target.files
    changed = {path: content for path, content in new.items() if old.get(path) != content}
    first = {
        path: changed[path]
        for n in target.commits
        if (path := f"commits/{n}") in changed and f"offsets/{n}" not in changed
    }
    newest = max(target.offsets, default=-1)
    if newest > parsed.last and f"offsets/{newest}" in changed:
        first[f"offsets/{newest}"] = b""
    removed = [
        path
        for path in sorted(filter(LOG_FILE.fullmatch, files), key=_newest_commit_first)
        if not (path in old and path in new) and path not in first
    ]
    drafts = filter(_DRAFT.fullmatch, sorted(files, reverse=True))
    return (
        *first.items(),
        *((path, None) for path in (*removed, *drafts)),
        *((path, content) for path, content in changed.items() if first.get(path) != content),
    )


def files_after(files: Files, steps: Iterable[Step]) -> Files:
    """The files that there are after these steps."""
    changed = dict(steps)
    kept = {path: content for path, content in files.items() if path not in changed}
    return kept | {path: content for path, content in changed.items() if content is not None}


def sync_group(step: Step) -> tuple[str, str]:
    """Steps in a row for which this is equal may be done in any order.

    Files of a log are removed one by one: an older one that is torn tells of those after it.
    """
    path, content = step
    folder, _, name = path.rpartition("/")
    kind = "" if content is not None else "." if name.startswith(".") else name
    return folder, kind


def numbers(files: Files, log: str) -> set[int]:
    """The numbers of the files in one of Spark's logs."""
    names = (path.removeprefix(f"{log}/") for path in files if path.startswith(f"{log}/"))
    return {int(name) for name in names if name.isdecimal()}


def _newest_commit_first(path: str) -> tuple[str, int]:
    log, _, number = path.rpartition("/")
    return log, -int(number) if number.isdecimal() else 0
