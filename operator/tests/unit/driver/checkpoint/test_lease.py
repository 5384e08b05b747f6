"""Who may take the lease of checkpoints in an object store, with a store that the test plays."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from penstock.driver.checkpoint.storage import lease
from penstock.driver.checkpoint.storage.lease import CheckpointLease, StoredLease, may_take
from penstock.driver.checkpoint.storage.object_store import StoreError, failure_of
from penstock.driver.failures import DriverError, Failure

OURS, OTHERS = StoredLease("1", "pod", False), StoredLease("1", "other", False)


@pytest.mark.parametrize(
    ("lease", "unchanged", "expected"),
    [
        (None, 0, True),
        (OURS, 0, True),
        (StoredLease("1", "other", True), 0, True),
        (OTHERS, lease.ABANDONED_SECONDS - 1, False),
        (OTHERS, lease.ABANDONED_SECONDS, True),
    ],
)
def test_who_may_take_it(lease: StoredLease | None, unchanged: float, expected: bool) -> None:
    assert may_take(lease, "pod", unchanged) is expected


class PlayedStore:
    """As ObjectStoreCheckpoints, over a lease that changes as the test says."""

    location, holder = "s3a://bucket/payments/flags", "pod"

    def __init__(self, *looks: str | StoreError | None, takes: bool = True) -> None:
        self._looks = list(looks)
        self._takes = takes
        self.taken: list[Any] = []

    def on_lease(self, name: str, *arguments: Any) -> Any:
        if name == "take":
            self.taken.append(arguments[0])
            return self._takes or len(self.taken) > 1
        look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(look, StoreError):
            raise look
        return look

    def call(self, name: str, *arguments: Any) -> Any:
        return name == "honoursConditions"


def acquire(
    store: PlayedStore,
    monkeypatch: pytest.MonkeyPatch,
    timeout: float,
    said: list[Failure] | None = None,
) -> bool:
    """Without real seconds: each look is a second after the one before."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(lease, "_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(lease, "_STORE_SECONDS", 0.0)
    waits = said if said is not None else []
    return CheckpointLease(store).acquire(threading.Event(), waits.append, timeout)  # type: ignore[arg-type]


def test_one_that_is_renewed_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PlayedStore(*(f"{n // 10}\tother\tfalse" for n in range(200)))
    with pytest.raises(DriverError, match=r"CheckpointInUse: Another driver of pod other"):
        acquire(store, monkeypatch, 70)
    assert store.taken == []


def test_one_that_nobody_renews_is_taken_once_it_is_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after the time for which another driver is waited for."""
    store = PlayedStore(*(f"{n // 10}\tother\tfalse" for n in range(50)), "last\tother\tfalse")
    assert acquire(store, monkeypatch, 70)
    assert store.taken == ["last"]


def test_one_that_another_driver_takes_first_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = PlayedStore(None, "1\tother\ttrue", takes=False)
    assert acquire(store, monkeypatch, 70)
    assert store.taken == [None, "1"]


def test_a_store_that_does_not_answer_is_waited_for_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = StoreError("connection refused", ("java.net.ConnectException",))
    said: list[Failure] = []
    assert acquire(PlayedStore(*([away] * 200), None), monkeypatch, 70, said)
    assert {failure.reason for failure in said} == {"ObjectStoreNotAccessible"}
    assert "connection refused" in said[0].message


def test_an_outage_of_the_store_makes_no_lease_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder could not renew it, and may do so again now."""
    away = StoreError("connection refused", ("java.net.ConnectException",))
    looks: list[str | StoreError] = ["1\tother\tfalse", *([away] * 60), *(["1\tother\tfalse"] * 40)]
    store = PlayedStore(*looks, "2\tother\ttrue")
    assert acquire(store, monkeypatch, 70)
    assert store.taken == ["2"]


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        (["org.apache.hadoop.fs.s3a.UnknownStoreException"], "BucketNotFound"),
        (["java.nio.file.AccessDeniedException"], "ObjectStoreDenied"),
        (["java.io.IOException", "java.nio.file.AccessDeniedException"], "ObjectStoreDenied"),
        (["java.net.UnknownHostException"], "ObjectStoreNotAccessible"),
    ],
)
def test_each_failure_has_its_reason(classes: list[str], reason: str) -> None:
    failure = failure_of(StoreError("why", tuple(classes)), "s3a://bucket/flags/")
    assert (failure.reason, failure.recoverable) == (reason, True)
    assert "s3a://bucket/flags: why" in failure.message
