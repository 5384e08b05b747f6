"""Each restart is counted once, at its level, even if the operator was away."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.v1alpha1.status import Internal, LastFailure, Restarts, StreamStatus
from penstock.cluster.pods import DriverPod
from penstock.controller.status.restart_history import ANY_DRIVER, WantedDriver, update_history
from testkit.controller import samples

HASH = "0123456789"


def pod(uid: str = "pod-1", restarts: int = 0, spec_hash: str = HASH, **report: Any) -> DriverPod:
    raw = samples.driver_pod(
        spec_hash,
        samples.report(spec_hash, **report),
        containerStatuses=[samples.container(restartCount=restarts, state={"running": {}})],
    )
    raw["metadata"]["uid"] = uid
    raw["metadata"]["labels"]["controller-revision-hash"] = f"of-{spec_hash}"
    return DriverPod(raw)


def after(*pods: DriverPod | None, wanted: Sequence[WantedDriver] = ()) -> StreamStatus:
    """The status after the operator observed these pods, while these were wanted."""
    status = StreamStatus()
    for each, wants in itertools.zip_longest(pods, wanted, fillvalue=ANY_DRIVER):
        assert not isinstance(each, WantedDriver)
        history = update_history(status, each, wants)
        status = StreamStatus(
            restarts=history.restarts,
            internal=history.internal,
            last_failure=history.last_failure,
        )
    return status


def counts(status: StreamStatus) -> tuple[int, int, int]:
    assert status.restarts is not None
    assert status.restarts.total == sum(
        (status.restarts.query, status.restarts.process, status.restarts.pod)
    )
    return status.restarts.query, status.restarts.process, status.restarts.pod


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([None, pod()], (0, 0, 0)),  # the first pod is no restart
        ([pod(), pod(query_restarts=2)], (2, 0, 0)),
        ([pod(), pod(restarts=3)], (0, 3, 0)),
        ([pod(), None, pod(uid="pod-2")], (0, 0, 1)),
        ([pod(query_restarts=2, restarts=1)] * 3, (2, 1, 0)),  # seen twice, counted once
        ([pod(), pod(uid="pod-2", spec_hash="another")], (0, 0, 0)),  # a new spec
        # A new driver process counts from zero.
        ([pod(query_restarts=3), pod(restarts=1, query_restarts=1)], (4, 1, 0)),
        # The annotation outlives the container that wrote it.
        ([pod(query_restarts=3), pod(restarts=1, query_restarts=3)], (3, 1, 0)),
        # A process that starts itself anew in its container, and one that the kubelet starts.
        ([pod(), pod(process_restarts=1, query_restarts=1), pod(process_restarts=2)], (1, 2, 0)),
        (
            [pod(process_restarts=2), pod(restarts=1), pod(restarts=1, process_restarts=1)],
            (0, 4, 0),
        ),
        # While the operator was away.
        ([pod(), pod(uid="pod-2", restarts=2, query_restarts=1)], (1, 2, 1)),
    ],
)
def test_each_level_counts_its_own_restarts(
    pods: list[DriverPod | None], expected: tuple[int, int, int]
) -> None:
    assert counts(after(*pods)) == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 5))))
def test_counts_never_decrease(seen: list[tuple[str, int, int]]) -> None:
    pods = [pod(uid=uid, restarts=one, query_restarts=two) for uid, one, two in seen]
    totals = [after(*pods[:length]).restarts for length in range(1, len(pods) + 1)]
    for one, two in itertools.pairwise(totals):
        assert one is not None
        assert two is not None
        assert (one.query, one.process, one.pod) <= (two.query, two.process, two.pod)
        assert one.total <= two.total


def test_the_pod_of_an_undone_edit_counts_when_it_is_lost() -> None:
    """The edit was undone before the StatefulSet deleted the pod."""
    first, other = WantedDriver(frozenset({HASH})), WantedDriver(frozenset({"b"}))
    pods, edits = (pod(), pod(), pod()), (first, other, first)
    seen = replace(first, revision=pods[0].revision)
    assert counts(after(*pods, pod("pod-2"), wanted=(*edits, seen))) == (0, 0, 0)
    lost = (*pods, pod(), pod("pod-2"))
    assert counts(after(*lost, wanted=(*edits, seen, seen))) == (0, 0, 1)


def test_the_last_failure_is_the_latest() -> None:
    late = LastFailure(
        reason="Late",
        message="",
        permanent=False,
        time=samples.T0.replace(year=2027),
        revision=HASH,
    )
    early = late.model_copy(update={"reason": "Early", "time": samples.T0})
    assert after(pod(last_failure=late), pod(last_failure=early)).last_failure == late
    assert after(pod(last_failure=early), pod(last_failure=late)).last_failure == late
    assert after(pod(last_failure=early), None).last_failure == early


def test_of_two_failures_in_the_same_second_the_report_has_the_later_one() -> None:
    """Kubernetes' times have whole seconds, and a cause may follow what was seen first."""
    seen = LastFailure(reason="NoProgress", message="", permanent=False, time=samples.T0)
    cause = LastFailure(
        reason="ExecutorLost", message="", permanent=False, time=samples.T0, revision=HASH
    )
    assert after(pod(last_failure=seen), pod(last_failure=cause)).last_failure == cause


def test_an_evicted_pod_has_the_nodes_message() -> None:
    raw = samples.driver_pod(HASH, phase="Failed", reason="Evicted", message="low on memory")
    failure = DriverPod(raw).failure
    assert failure is not None
    assert (failure.reason, failure.message) == ("Evicted", "low on memory")


def test_an_unreadable_report_counts_as_none() -> None:
    raw = samples.driver_pod(HASH)
    raw["metadata"]["annotations"]["penstock.dev/report"] = "{not json"
    assert DriverPod(raw).report is None


def test_the_bookkeeping_names_its_pod() -> None:
    status = after(pod(restarts=1, query_restarts=2))
    assert status.internal == Internal(
        driver_pod_uid="pod-1", pod_hash=HASH, container_restarts=1, query_restarts=2
    )
    assert isinstance(status.restarts, Restarts)
