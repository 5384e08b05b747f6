"""The table of damages to a checkpoint, with the expected result of each.

`test_damage_table.py` compares it with the planned repairs and with docs/testing.md,
`integration/checkpoint/test_damage.py` with Spark and a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.files import Files, checksum_path
from testkit.driver.checkpoints import checksum

Contents = dict[str, bytes]
Harm = Callable[[Contents, str], None]


@dataclass(frozen=True)
class Repaired:
    """The query continues from this many commits before the newest."""

    kinds: tuple[RepairKind, ...] = ()
    back: int = 0
    commits: bool = True
    """False: there is no commit, and the query continues from the newest planned batch."""


@dataclass(frozen=True)
class Refused:
    """The stream fails with this reason."""

    reason: str = "CheckpointDamaged"


Outcome = Repaired | Refused
Engine = Literal["continuous", "microBatch", "async", "realTime", "parquet"]
# What wrote the checkpoint and continues from it. Parquet is micro-batch with files as the sink,
# which knows the batches that it has; the sink of the others is Kafka.
ENGINES: tuple[Engine, ...] = ("continuous", "microBatch", "async", "realTime", "parquet")


@dataclass(frozen=True)
class Damage:
    """One row: damage to a checkpoint whose newest offsets and commit are N."""

    name: str
    harm: Callable[[Contents, int], None]
    continuous: Outcome
    micro_batch: Outcome
    others: Mapping[Engine, Outcome] = field(default_factory=dict)
    """Where they differ from micro_batch."""

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


TORN: dict[str, Harm] = {
    "empty": empty,
    "truncated": truncated,
    "zero-filled": zero_filled,
    "zero-filled, with a checksum that fits": zero_filled_and_checked,
}


TORN_BATCH = Repaired((RepairKind.COMMIT_WITHOUT_OFFSETS, RepairKind.TORN_OFFSETS), back=1)
MISSING_BATCH = Repaired((RepairKind.COMMIT_WITHOUT_OFFSETS, RepairKind.LEFTOVER_CHECKSUM), back=1)
MISSING_COMMIT = Repaired((RepairKind.UNCOMMITTED_OFFSETS, RepairKind.LEFTOVER_CHECKSUM), back=1)
COMMIT_AHEAD = Repaired((RepairKind.COMMIT_WITHOUT_OFFSETS,))
BACKWARD = Repaired((RepairKind.BACKWARD_OFFSETS,))
UNFINISHED = Repaired((RepairKind.TEMPORARY_FILE,) * 2)
LEFTOVER = Repaired((RepairKind.LEFTOVER_CHECKSUM,))


def _emptied(outcome: Repaired) -> Repaired:
    """The same with a sink that knows the batches it has: the lost one runs without records."""
    return replace(outcome, kinds=(*outcome.kinds, RepairKind.EMPTY_BATCH))


def _to(harm: Harm, log: str, behind: int) -> Callable[[Contents, int], None]:
    return lambda files, newest: harm(files, f"{log}/{newest - behind}")


def _to_metadata(harm: Harm, files: Contents, _: int) -> None:
    harm(files, "metadata")


def _torn() -> Iterator[Damage]:
    for name, harm in TORN.items():
        yield Damage(
            f"newest offsets {name}",
            _to(harm, "offsets", 0),
            TORN_BATCH,
            TORN_BATCH,
            {"parquet": _emptied(TORN_BATCH)},
        )
        yield Damage(
            f"second-newest offsets {name}",
            _to(harm, "offsets", 1),
            Repaired((RepairKind.TORN_OFFSETS,)),
            Repaired((RepairKind.TORN_OFFSETS, RepairKind.MISSING_OFFSETS)),
            {"async": Repaired((RepairKind.TORN_OFFSETS,))},
        )
        yield Damage(
            f"newest commit {name}",
            _to(harm, "commits", 0),
            Repaired((RepairKind.TORN_COMMIT, RepairKind.UNCOMMITTED_OFFSETS), back=1),
            Repaired((RepairKind.TORN_COMMIT,), back=1),
            {
                "realTime": Repaired(
                    (RepairKind.TORN_COMMIT, RepairKind.UNCOMMITTED_OFFSETS), back=1
                )
            },
        )
        yield Damage(
            f"second-newest commit {name}",
            _to(harm, "commits", 1),
            Repaired((RepairKind.TORN_COMMIT,)),
            Repaired((RepairKind.TORN_COMMIT,)),
        )
        yield Damage(
            f"`metadata` {name}",
            partial(_to_metadata, harm),
            Repaired((RepairKind.BROKEN_METADATA,)),
            Repaired((RepairKind.BROKEN_METADATA,)),
        )


def _missing() -> Iterator[Damage]:
    """The checksums of the missing files are left."""
    yield Damage(
        "newest offsets missing",
        _to(missing, "offsets", 0),
        MISSING_BATCH,
        MISSING_BATCH,
        {"parquet": _emptied(MISSING_BATCH)},
    )
    yield Damage(
        "second-newest offsets missing",
        _to(missing, "offsets", 1),
        Repaired((RepairKind.LEFTOVER_CHECKSUM,)),
        Repaired((RepairKind.LEFTOVER_CHECKSUM, RepairKind.MISSING_OFFSETS)),
        {"async": Repaired((RepairKind.LEFTOVER_CHECKSUM,))},
    )
    yield Damage(
        "newest commit missing",
        _to(missing, "commits", 0),
        MISSING_COMMIT,
        Repaired((RepairKind.LEFTOVER_CHECKSUM,), back=1),
        {"realTime": MISSING_COMMIT},
    )
    yield Damage(
        "second-newest commit missing",
        _to(missing, "commits", 1),
        Repaired((RepairKind.LEFTOVER_CHECKSUM,)),
        Repaired((RepairKind.LEFTOVER_CHECKSUM,)),
    )
    yield Damage(
        "`metadata` missing",
        partial(_to_metadata, missing),
        Repaired((RepairKind.BROKEN_METADATA,)),
        Repaired((RepairKind.BROKEN_METADATA,)),
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
        Repaired(), Repaired(),
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
        yield Damage(
            f"a stale temporary file in `{log}`, with its checksum",
            partial(_temporary, log),
            UNFINISHED,
            UNFINISHED,
        )
        for name, harm in {
            f"a stale `.crc` of the next number in `{log}`": partial(_stale, log, 1),
            f"a stale `.crc` of a number far ahead in `{log}`": partial(_stale, log, 50),
            f"the newest `.crc` in `{log}` cut short": partial(_cut, log),
        }.items():
            others: dict[Engine, Outcome] = (
                {"parquet": _emptied(LEFTOVER)} if "next number" in name else {}
            )
            yield Damage(name, harm, LEFTOVER, LEFTOVER, others)
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
    "parquet": "micro-batch to Parquet",
}


def table() -> str:
    """The table of docs/testing.md."""
    rows = [
        "| damage | " + " | ".join(TITLES[engine] for engine in ENGINES) + " |",
        "| --- |" + " --- |" * len(ENGINES),
        *(
            f"| {each.name} | {_words(each.continuous)} | {_words(each.micro_batch)} | "
            + " | ".join(
                _words(each.others[engine]) if engine in each.others else "as micro-batch"
                for engine in ENGINES[2:]
            )
            + " |"
            for each in TABLE
        ),
    ]
    return "\n".join(rows) + "\n"


def _words(outcome: Outcome) -> str:
    if isinstance(outcome, Refused):
        return f"**refused**: `{outcome.reason}`"
    where = f"N - {outcome.back}" if outcome.back else "N"
    if not outcome.commits:
        where = "the newest planned batch"
    kinds = dict.fromkeys(outcome.kinds)
    return f"continues from {where}" + "".join(f", `{kind}`" for kind in kinds)
