"""The table of damages to a checkpoint, with the expected result of each.

docs/testing.md shows it (scripts.generate). `test_damage_table.py` compares it with the planned
repairs, `integration/checkpoint/test_damage.py` with Spark and a broker.

connector/ leaves no part of a file, and no checksum: those are from Spark's own file manager and a
crash of the machine. A checkpoint with checksums is imported; in one without, damage is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.plain_spark import checksum_path
from testkit.driver.checkpoints import (
    BATCH_LINE,
    checkpoint,
    checksum,
    offsets,
)

Contents = dict[str, bytes]
Harm = Callable[[Contents, str], None]


@dataclass(frozen=True)
class Repaired:
    """The query continues from this many commits before the newest."""

    kinds: frozenset[RepairKind] = frozenset()
    """Beside Imported, which is always there for a checkpoint of plain Spark."""
    back: int = 0
    commits: bool = True
    """False: there is no commit, and the query continues from the newest planned batch."""
    counts_twice: bool = False
    """The state has the records that come again: no file shows that it is ahead."""

    def and_(self, *kinds: RepairKind) -> Repaired:
        """With more kinds of repair."""
        return replace(self, kinds=self.kinds | {*kinds})


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
    """Of a checkpoint that plain Spark has written, as the next two."""
    micro_batch: Outcome
    others: Mapping[Engine, Outcome] = field(default_factory=dict)
    """Where they differ from micro_batch."""
    own: Outcome | None = Refused()
    """Of a checkpoint that Penstock has written; None: as of plain Spark."""
    row: str = ""
    """The row of the table, which may be that of several."""

    def done_to(self, files: Files, newest: int) -> Contents:
        """The checkpoint after the damage."""
        harmed = dict(files)
        self.harm(harmed, newest)
        return harmed

    def outcome(self, engine: Engine, *, own: bool = False) -> Outcome:
        """The expected result; `own`: Penstock has written the checkpoint."""
        if own and self.own is not None:
            return self.own
        if engine == "continuous":
            return self.continuous
        return self.others.get(engine, self.micro_batch)


def undamaged(engine: Engine, epochs: range) -> dict[str, bytes]:
    """A whole checkpoint of an engine, with all of these epochs committed."""
    if engine == "continuous":
        return checkpoint(epochs, epochs)
    reads = 2 if engine == "twoReads" else 1
    entries = {f"offsets/{n}": offsets(n, BATCH_LINE, reads) for n in epochs}
    return checkpoint(epochs, [], epochs) | entries


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
    if checksum_path(path) in files:
        files[checksum_path(path)] = checksum(files[path])


def duplicated(files: Contents, path: str) -> None:
    log, _, number = path.rpartition("/")
    _copied(files, log, int(number), int(number) + 1)


HARMS: dict[str, Harm] = {
    "truncated": truncated,
    "zero-filled": zero_filled,
    "zero-filled, with a checksum that fits": zero_filled_and_checked,
}

N, BEFORE = Repaired(), Repaired(back=1)
PLANNED_ANEW = BEFORE.and_(RepairKind.UNCOMMITTED_OFFSETS)
EMPTIED = BEFORE.and_(RepairKind.EMPTY_BATCH)
GAP = N.and_(RepairKind.ASYNC_GAP)
LEFTOVER = N.and_(RepairKind.LEFTOVER_FILE)


def _to(harm: Harm, log: str, behind: int) -> Callable[[Contents, int], None]:
    return lambda files, newest: harm(files, f"{log}/{newest - behind}")


def _to_metadata(harm: Harm, files: Contents, _: int) -> None:
    harm(files, "metadata")


def _torn() -> Iterator[Damage]:
    for name, harm in {"empty": empty, **HARMS}.items():
        of = partial(_torn_file, name)
        yield of("newest offsets", _to(harm, "offsets", 0), BEFORE, BEFORE, parquet=EMPTIED)
        yield of("newest commit", _to(harm, "commits", 0), PLANNED_ANEW, BEFORE,
                 realTime=PLANNED_ANEW)  # fmt: skip
        yield of("`metadata`", partial(_to_metadata, harm), N, N)


def _torn_file(
    how: str, file: str, harm: Callable[[Contents, int], None], continuous: Outcome,
    micro_batch: Outcome, **others: Outcome,
) -> Damage:  # fmt: skip
    by_engine = {engine: others[engine] for engine in ENGINES if engine in others}
    # A repair that was interrupted leaves an empty file, but no empty offsets with a commit.
    own = None if how == "empty" and file != "newest offsets" else Refused()
    row = f"{file} empty" if own is None else f"{file} torn"
    return Damage(f"{file} {how}", harm, continuous, micro_batch, by_engine, own, row)


def _of_no_use() -> Iterator[Damage]:
    """Files that Spark does not read any more, or only for its own check."""
    for name, harm in {"torn": truncated, "missing": missing}.items():
        yield Damage(f"second-newest offsets {name}", _to(harm, "offsets", 1), N, GAP,
                     {"async": N}, own=None)  # fmt: skip
        yield Damage(f"second-newest commit {name}", _to(harm, "commits", 1), N, N, own=None)


def _missing() -> Iterator[Damage]:
    """The checksums of the missing files are left."""
    yield Damage("newest offsets missing", _to(missing, "offsets", 0), BEFORE, BEFORE,
                 {"parquet": EMPTIED})  # fmt: skip
    yield Damage("newest commit missing", _to(missing, "commits", 0), PLANNED_ANEW, BEFORE,
                 {"realTime": PLANNED_ANEW}, own=None)  # fmt: skip
    yield Damage("`metadata` missing", partial(_to_metadata, missing), N, N, own=None)


def _duplicated() -> Iterator[Damage]:
    again = N.and_(RepairKind.UNCOMMITTED_OFFSETS)
    yield Damage("newest offsets copied as the next", _to(duplicated, "offsets", 0), again, N,
                 {"realTime": again}, own=None)  # fmt: skip
    yield Damage("second-newest offsets copied as the newest", _to(duplicated, "offsets", 1), N, N,
                 {"state": Repaired(counts_twice=True)}, own=None)  # fmt: skip
    # As a driver leaves them that is gone and has written too late.
    yield Damage(
        "third-newest offsets copied as the next",
        lambda files, newest: _copied(files, "offsets", newest - 2, newest + 1),
        again, again, {"parquet": N.and_(RepairKind.EMPTY_BATCH)}, own=None,
    )  # fmt: skip
    yield Damage("newest commit copied as the next", _to(duplicated, "commits", 0), N, N,
                 {"parquet": N.and_(RepairKind.EMPTY_BATCH)})  # fmt: skip
    yield Damage("second-newest commit copied as the newest", _to(duplicated, "commits", 1), N, N,
                 own=None)  # fmt: skip


def _copied(files: Contents, log: str, number: int, to: int) -> None:
    for source in (f"{log}/{number}", f"{log}/.{number}.crc"):
        if source in files:
            files[source.replace(str(number), str(to))] = files[source]


def _leftover_files() -> Iterator[Damage]:
    for log in ("offsets", "commits"):
        row = "a stale temporary file, with its checksum"
        yield Damage(
            f"{row}, in {log}", partial(_temporary, log), LEFTOVER, LEFTOVER, own=None, row=row
        )
        # The checksum of a file that is written goes with what was there before.
        row = f"a stale `.crc` of the next number in `{log}`"
        next_one: dict[Engine, Outcome] = {"parquet": N.and_(RepairKind.EMPTY_BATCH)}
        yield Damage(row, partial(_stale, log, 1), N, N, next_one, own=None)
        row = "a stale `.crc` of a number far ahead"
        yield Damage(f"{row}, in {log}", partial(_stale, log, 50), N, N, own=None, row=row)
    yield Damage(
        "the newest offsets with the `.crc` of others",
        lambda files, n: files.update({f"offsets/.{n}.crc": checksum(b"others")}),
        BEFORE, BEFORE, {"parquet": EMPTIED}, own=None,
    )  # fmt: skip


def _temporary(log: str, files: Contents, newest: int) -> None:
    """Named as Spark names them while it writes."""
    name = f"{newest + 1}.0a1b.tmp"
    files[f"{log}/.{name}"] = files[f"{log}/{newest}"]
    files[f"{log}/..{name}.crc"] = checksum(files[f"{log}/{newest}"])


def _stale(log: str, ahead: int, files: Contents, newest: int) -> None:
    files[f"{log}/.{newest + ahead}.crc"] = checksum(files[f"{log}/{newest}"])


def _everything() -> Iterator[Damage]:
    yield Damage(
        "all commits missing",
        lambda files, _: _drop(files, "commits/"),
        Refused(),
        Repaired(commits=False),
        {"realTime": Refused()},
        own=None,
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
    Damage("nothing", lambda _, __: None, N, N, own=None),
    *_torn(),
    *_of_no_use(),
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
        "| damage | Penstock's | plain Spark's, continuous | plain Spark's, batches | otherwise |",
        "| --- | --- | --- | --- | --- |",
        *dict.fromkeys(_row(damage) for damage in TABLE),
    ]
    return "\n".join(rows) + "\n"


def _row(damage: Damage) -> str:
    others = "; ".join(f"{TITLES[it]}: {_words(of)}" for it, of in damage.others.items())
    own = "the same" if damage.own is None else _words(damage.own)
    cells = (damage.row or damage.name, own, _words(damage.continuous))
    return f"| {' | '.join((*cells, _words(damage.micro_batch), others))} |"


def _words(outcome: Outcome) -> str:
    if isinstance(outcome, Refused):
        return "**refused**"
    where = f"N - {outcome.back}" if outcome.back else "N"
    if not outcome.commits:
        where = "the newest planned batch"
    kinds = "".join(f", `{kind}`" for kind in sorted(outcome.kinds))
    twice = ", **counts the records of N twice**" if outcome.counts_twice else ""
    return f"{where}{kinds}{twice}"
