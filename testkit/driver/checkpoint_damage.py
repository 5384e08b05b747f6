"""The table of damages to a checkpoint, with the expected result of each.

`test_damage_table.py` compares it with the planned repairs and with docs/testing.md,
`integration/checkpoint/test_damage.py` with Spark and a broker.

connector/ leaves no part of a file, and no checksum: both are from Spark's own file manager and a
crash of the machine, a bad disk, or a person's hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.file_formats import Files, checksum_path
from testkit.driver.checkpoints import (
    BATCH_LINE,
    checkpoint,
    checksum,
    offsets,
    with_checksums,
)

Contents = dict[str, bytes]
Harm = Callable[[Contents, str], None]


@dataclass(frozen=True)
class Repaired:
    """The query continues from this many commits before the newest."""

    kinds: tuple[RepairKind, ...] = ()
    back: int = 0
    commits: bool = True
    """False: there is no commit, and the query continues from the newest planned batch."""
    counts_twice: bool = False
    """The state has the records that come again: no file shows that it is ahead."""


@dataclass(frozen=True)
class Refused:
    """The stream fails with this reason."""

    reason: str = "CheckpointDamaged"


Outcome = Repaired | Refused
Engine = Literal["continuous", "microBatch", "async", "realTime", "parquet", "state", "twoReads"]
# What wrote the checkpoint and continues from it. Parquet is micro-batch with files as the sink,
# which knows the batches that it has; the sink of the others is Kafka. The last two are micro-batch
# with state, and with a line of offsets for each of two reads.
ENGINES: tuple[Engine, ...] = (
    "continuous", "microBatch", "async", "realTime", "parquet", "state", "twoReads"
)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """Damage to a checkpoint whose newest offsets and commit are N."""

    name: str
    harm: Callable[[Contents, int], None]
    continuous: Outcome
    micro_batch: Outcome
    others: Mapping[Engine, Outcome] = field(default_factory=dict)
    """Where they differ from micro_batch."""
    row: str = ""
    """The row of the table, which may be that of several."""

    def done_to(self, files: Files, newest: int) -> Contents:
        """The checkpoint after the damage."""
        harmed = dict(files)
        self.harm(harmed, newest)
        return harmed

    def outcome(self, engine: Engine) -> Outcome:
        """The expected result."""
        if engine == "continuous":
            return self.continuous
        return self.others.get(engine, self.micro_batch)


def undamaged(engine: Engine, epochs: range) -> dict[str, bytes]:
    """A whole checkpoint of an engine, with all of these epochs committed."""
    if engine == "continuous":
        return checkpoint(epochs, epochs)
    reads = 2 if engine == "twoReads" else 1
    entries = {f"offsets/{n}": offsets(n, BATCH_LINE, reads) for n in epochs}
    return checkpoint(epochs, [], epochs) | with_checksums(entries)


def empty(files: Contents, path: str) -> None:
    files[path] = b""


def truncated(files: Contents, path: str) -> None:
    files[path] = files[path][: len(files[path]) * 2 // 3]


def missing(files: Contents, path: str) -> None:
    del files[path]


def zero_filled(files: Contents, path: str) -> None:
    files[path] = bytes(len(files[path]))


def zero_filled_and_checked(files: Contents, path: str) -> None:
    zero_filled(files, path)
    files[checksum_path(path)] = checksum(files[path])


def duplicated(files: Contents, path: str) -> None:
    log, _, number = path.rpartition("/")
    _copied(files, log, int(number), int(number) + 1)


HARMS: dict[str, Harm] = {
    "empty": empty,
    "truncated": truncated,
    "zero-filled": zero_filled,
    "zero-filled, with a checksum that fits": zero_filled_and_checked,
}


TORN = (RepairKind.TORN_FILE,)
TORN_BATCH = Repaired((RepairKind.COMMIT_WITHOUT_OFFSETS, *TORN), back=1)
TORN_COMMIT = Repaired(TORN, back=1)
DROPPED = Repaired((*TORN, RepairKind.UNCOMMITTED_OFFSETS), back=1)
LEFTOVER = Repaired((RepairKind.LEFTOVER_FILE,))
MISSING_BATCH = Repaired((RepairKind.COMMIT_WITHOUT_OFFSETS, *LEFTOVER.kinds), back=1)
MISSING_COMMIT = Repaired((RepairKind.UNCOMMITTED_OFFSETS, *LEFTOVER.kinds), back=1)
COMMIT_AHEAD = Repaired((RepairKind.COMMIT_WITHOUT_OFFSETS,))
BACKWARD = Repaired((RepairKind.BACKWARD_OFFSETS,))
EMPTY = Repaired((RepairKind.EMPTY_BATCH,))


def _emptied(outcome: Repaired) -> Repaired:
    """The same with a sink that knows the batches it has: the lost one runs without records."""
    return replace(outcome, kinds=(*outcome.kinds, RepairKind.EMPTY_BATCH))


def _to(harm: Harm, log: str, behind: int) -> Callable[[Contents, int], None]:
    return lambda files, newest: harm(files, f"{log}/{newest - behind}")


def _to_metadata(harm: Harm, files: Contents, _: int) -> None:
    harm(files, "metadata")


def _torn() -> Iterator[Damage]:
    for name, harm in HARMS.items():
        of = partial(_torn_file, name)
        yield of("newest offsets", _to(harm, "offsets", 0), TORN_BATCH, TORN_BATCH,
                 parquet=_emptied(TORN_BATCH))  # fmt: skip
        yield of("second-newest offsets", _to(harm, "offsets", 1), Repaired(TORN),
                 Repaired((*TORN, RepairKind.MISSING_OFFSETS)), **{"async": Repaired(TORN)},
        )  # fmt: skip
        yield of("newest commit", _to(harm, "commits", 0), DROPPED, TORN_COMMIT, realTime=DROPPED)
        yield of("second-newest commit", _to(harm, "commits", 1), Repaired(TORN), Repaired(TORN))
        yield of("`metadata`", partial(_to_metadata, harm), Repaired(TORN), Repaired(TORN))


def _torn_file(
    how: str, file: str, harm: Callable[[Contents, int], None], continuous: Outcome,
    micro_batch: Outcome, **others: Outcome,
) -> Damage:  # fmt: skip
    by_engine = {engine: others[engine] for engine in ENGINES if engine in others}
    return Damage(f"{file} {how}", harm, continuous, micro_batch, by_engine, f"{file} torn")


def _missing() -> Iterator[Damage]:
    """The checksums of the missing files are left."""
    yield Damage(
        "newest offsets missing",
        _to(missing, "offsets", 0),
        MISSING_BATCH,
        MISSING_BATCH,
        {"parquet": replace(EMPTY, kinds=(*COMMIT_AHEAD.kinds, *EMPTY.kinds), back=1)},
    )
    yield Damage(
        "second-newest offsets missing",
        _to(missing, "offsets", 1),
        LEFTOVER,
        Repaired((RepairKind.MISSING_OFFSETS,)),
        {"async": LEFTOVER},
    )
    yield Damage(
        "newest commit missing",
        _to(missing, "commits", 0),
        MISSING_COMMIT,
        replace(LEFTOVER, back=1),
        {"realTime": MISSING_COMMIT},
    )
    yield Damage(
        "second-newest commit missing",
        _to(missing, "commits", 1),
        LEFTOVER,
        LEFTOVER,
    )
    yield Damage(
        "`metadata` missing",
        partial(_to_metadata, missing),
        Repaired((RepairKind.MISSING_METADATA,)),
        Repaired((RepairKind.MISSING_METADATA,)),
    )


def _duplicated() -> Iterator[Damage]:
    yield Damage(
        "newest offsets copied as the next",
        _to(duplicated, "offsets", 0),
        Repaired((RepairKind.UNCOMMITTED_OFFSETS,)),
        Repaired(),
        {"realTime": Repaired((RepairKind.UNCOMMITTED_OFFSETS,))},
    )
    yield Damage(
        "second-newest offsets copied as the newest", _to(duplicated, "offsets", 1),
        Repaired(), Repaired(), {"state": Repaired(counts_twice=True)},
    )  # fmt: skip
    yield Damage(
        "third-newest offsets copied as the next",
        lambda files, newest: _copied(files, "offsets", newest - 2, newest + 1),
        BACKWARD,
        BACKWARD,
        {"parquet": _emptied(BACKWARD)},
    )
    yield Damage(
        "newest commit copied as the next",
        _to(duplicated, "commits", 0),
        COMMIT_AHEAD,
        COMMIT_AHEAD,
        {"parquet": _emptied(COMMIT_AHEAD)},
    )
    yield Damage(
        "second-newest commit copied as the newest", _to(duplicated, "commits", 1),
        Repaired(), Repaired(),
    )  # fmt: skip


def _copied(files: Contents, log: str, number: int, to: int) -> None:
    source, target = f"{log}/{number}", f"{log}/{to}"
    files[target], files[checksum_path(target)] = files[source], files[checksum_path(source)]


def _leftover_files() -> Iterator[Damage]:
    for log in ("offsets", "commits"):
        unfinished = replace(LEFTOVER, kinds=LEFTOVER.kinds * 2)
        row = "a stale temporary file, with its checksum"
        yield Damage(f"{row}, in {log}", partial(_temporary, log), unfinished, unfinished, {}, row)
        # The checksum of a file that is written goes with what was there before.
        next_one = _emptied(LEFTOVER) if log == "commits" else EMPTY
        row = f"a stale `.crc` of the next number in `{log}`"
        yield Damage(row, partial(_stale, log, 1), LEFTOVER, LEFTOVER, {"parquet": next_one})
        for row, harm in {
            "a stale `.crc` of a number far ahead": partial(_stale, log, 50),
            "the newest `.crc` cut short": partial(_cut, log),
        }.items():
            yield Damage(f"{row}, in {log}", harm, LEFTOVER, LEFTOVER, {}, row)
    yield Damage(
        "the newest offsets with the `.crc` of others",
        lambda files, n: files.update({f"offsets/.{n}.crc": files[f"offsets/.{n - 1}.crc"]}),
        TORN_BATCH,
        TORN_BATCH,
        {"parquet": _emptied(TORN_BATCH)},
    )


def _temporary(log: str, files: Contents, newest: int) -> None:
    """Named as Spark names them while it writes."""
    name = f"{newest + 1}.0a1b.tmp"
    files[f"{log}/.{name}"] = files[f"{log}/{newest}"]
    files[f"{log}/..{name}.crc"] = files[f"{log}/.{newest}.crc"]


def _stale(log: str, ahead: int, files: Contents, newest: int) -> None:
    files[f"{log}/.{newest + ahead}.crc"] = files[f"{log}/.{newest}.crc"]


def _cut(log: str, files: Contents, newest: int) -> None:
    truncated(files, f"{log}/.{newest}.crc")


def _everything() -> Iterator[Damage]:
    yield Damage(
        "all commits missing",
        lambda files, _: _drop(files, "commits/"),
        Refused(),
        Repaired((RepairKind.LOST_COMMITS,), commits=False),
        {"realTime": Repaired((RepairKind.LOST_COMMITS, RepairKind.UNCOMMITTED_OFFSETS), back=1)},
    )
    yield Damage(
        "all offsets missing", lambda files, _: _drop(files, "offsets/"), Refused(), Refused()
    )
    yield Damage("every file zero-filled", lambda files, _: _zero_all(files), Refused(), Refused())


def _drop(files: Contents, prefix: str) -> None:
    for path in [path for path in files if path.startswith(prefix)]:
        del files[path]


def _zero_all(files: Contents) -> None:
    for path in files:
        zero_filled(files, path)


TABLE: tuple[Damage, ...] = (
    Damage("nothing", lambda _, __: None, Repaired(), Repaired()),
    *_torn(),
    *_missing(),
    *_duplicated(),
    *_leftover_files(),
    *_everything(),
)


TITLES: dict[Engine, str] = {
    "continuous": "continuous",
    "microBatch": "micro-batch",
    "async": "asyncProgress",
    "realTime": "real-time",
    "parquet": "to Parquet",
    "state": "with state",
    "twoReads": "two reads",
}


def table() -> str:
    """The table of docs/testing.md."""
    rows = [
        "| damage | " + " | ".join(TITLES[engine] for engine in ENGINES) + " |",
        "| --- |" + " --- |" * len(ENGINES),
        *dict.fromkeys(_row(damage) for damage in TABLE),
    ]
    return "\n".join(rows) + "\n"


def _row(damage: Damage) -> str:
    others = (
        _words(damage.others[engine]) if engine in damage.others else "as micro-batch"
        for engine in ENGINES[2:]
    )
    cells = (damage.row or damage.name, _words(damage.continuous), _words(damage.micro_batch))
    return f"| {' | '.join((*cells, *others))} |"


def _words(outcome: Outcome) -> str:
    if isinstance(outcome, Refused):
        return f"**refused**: `{outcome.reason}`"
    where = f"N - {outcome.back}" if outcome.back else "N"
    if not outcome.commits:
        where = "the newest planned batch"
    kinds = dict.fromkeys(outcome.kinds)
    twice = ", **counts the records of N twice**" if outcome.counts_twice else ""
    return f"continues from {where}" + "".join(f", `{kind}`" for kind in kinds) + twice
