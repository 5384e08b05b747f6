"""What `penstock history` shows of a stream's specs, and `penstock rollback` writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure, Rollout
from penstock.client.history import (
    NoRevision,
    RecordedSpec,
    as_json,
    as_table,
    history,
    spec_to_restore,
)
from penstock.cluster.objects import ControllerRevision
from penstock.cluster.stream import Stream
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

ONE: dict[str, Any] = {}
TWO: dict[str, Any] = {"transform": {"sql": "SELECT key, value FROM source"}, "queryName": "two"}
BROKEN = LastFailure(reason="Boom", message="it broke", permanent=True, time=samples.T0)


@pytest.fixture
def cluster() -> FakeCluster:
    """A stream that was Ready with two specs."""
    cluster = FakeCluster()
    for spec in (ONE, TWO):
        cluster.apply(**spec)
        cluster.settle()
    return cluster


def look(cluster: FakeCluster) -> tuple[Stream, list[ControllerRevision]]:
    found = [
        ControllerRevision(each)
        for each in cluster.api.objects.values()
        if each["kind"] == "ControllerRevision"
    ]
    return Stream(cluster.stream), found


def revision(**spec: Any) -> str:
    return samples.desired(**spec).spec_hash


def shown(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(it.revision, it.state) for it in history(*look(cluster))]


def test_the_specs_are_shown_the_latest_first(cluster: FakeCluster) -> None:
    newest, oldest = history(*look(cluster))
    assert (newest.revision, newest.state) == (revision(**TWO), "Running")
    assert newest.changed == ("queryName", "transform.functions", "transform.sql")
    assert (oldest.revision, oldest.state, oldest.changed) == (revision(), "", ())
    assert newest.image == oldest.image == samples.IMAGE


def test_one_that_is_ready_again_is_the_latest(cluster: FakeCluster) -> None:
    cluster.apply(**ONE)
    cluster.settle()
    assert shown(cluster) == [(revision(), "Running"), (revision(**TWO), "")]


def test_one_that_was_given_up_is_shown_first(cluster: FakeCluster) -> None:
    three = {"executor": {"cores": 2}}
    cluster.fails_with[revision(**three)] = {"state": QueryState.FAILED, "last_failure": BROKEN}
    cluster.apply(**three)
    cluster.settle()
    first, second, _ = history(*look(cluster))
    assert (first.revision, first.state, first.recorded) == (revision(**three), "GivenUp", None)
    assert first.changed == (
        "executor.cores", "queryName", "transform.functions", "transform.sql"
    )  # fmt: skip
    assert second.state == "Running"


def test_one_that_is_tried_is_said_to_be(cluster: FakeCluster) -> None:
    three = {"executor": {"cores": 2}}
    cluster.fails_with[revision(**three)] = {"state": QueryState.STARTING}
    cluster.apply(**three)
    for _ in range(4):
        cluster.reconcile()
        cluster.step()
    first, second, _ = history(*look(cluster))
    assert (first.revision, first.state) == (revision(**three), "Trying")
    assert (second.revision, second.state) == (revision(**TWO), "LastReady")


def test_records_of_others_are_no_specs(cluster: FakeCluster) -> None:
    """A StatefulSet has its own, and so had a deleted stream of the same name."""
    stream, records = look(cluster)
    foreign = {**records[0].manifest["metadata"], "ownerReferences": [{"uid": "another"}]}
    records.append(ControllerRevision({**records[0].manifest, "metadata": foreign}))
    assert len(history(stream, records)) == 2


def test_the_table_has_the_first_fields_and_says_how_many_more() -> None:
    later = samples.T0 + timedelta(minutes=5)
    entries = [
        RecordedSpec("aaa", None, "GivenUp", "image:2", ("a", "b", "c", "d", "e")),
        RecordedSpec("bbb", samples.T0, "Running", "image:1", ()),
    ]
    assert as_table(entries, later).splitlines() == [
        "REVISION   STATE     READY   IMAGE     CHANGED",
        "aaa        GivenUp   -       image:2   a, b, c, 2 more",
        "bbb        Running   5m      image:1   -",
    ]
    assert as_json(entries)[1]["readyTime"] == "2026-11-21T00:00:00Z"


def test_a_rollback_writes_the_spec_before_with_the_live_fields_of_now(
    cluster: FakeCluster,
) -> None:
    cluster.apply(**TWO, restart={"maxAttempts": 3})
    cluster.settle()
    stream, records = look(cluster)
    found, manifest = spec_to_restore(stream, records, None)
    assert found == revision()
    assert manifest["spec"] == samples.stream(restart={"maxAttempts": 3})["spec"]
    assert manifest["metadata"] == stream.manifest["metadata"]


def test_a_rollback_of_what_was_given_up_leads_to_what_runs(cluster: FakeCluster) -> None:
    three = {"executor": {"cores": 2}}
    cluster.fails_with[revision(**three)] = {"state": QueryState.FAILED, "last_failure": BROKEN}
    cluster.apply(**three)
    cluster.settle()
    found, manifest = spec_to_restore(*look(cluster), None)
    assert found == revision(**TWO)
    assert manifest["spec"] == samples.stream(**TWO)["spec"]


def test_an_image_comes_and_goes_as_the_spec_named_it(cluster: FakeCluster) -> None:
    cluster.apply(image="another:image")
    cluster.settle()
    _, manifest = spec_to_restore(*look(cluster), None)
    assert "image" not in manifest["spec"]
    cluster.apply(queryName="three")
    cluster.settle()
    _, manifest = spec_to_restore(*look(cluster), None)
    assert manifest["spec"]["image"] == "another:image"


def test_what_runs_under_an_invalid_edit_is_the_one_to_go_back_to(cluster: FakeCluster) -> None:
    """Also while no operator has seen the edit."""
    cluster.apply(trigger={"continuous": {"checkpointInterval": "soon"}})
    assert spec_to_restore(*look(cluster), None)[0] == revision(**TWO)
    cluster.settle()
    assert spec_to_restore(*look(cluster), None)[0] == revision(**TWO)


def test_an_image_is_written_where_only_the_operators_has_changed(cluster: FakeCluster) -> None:
    stream, records = look(cluster)
    rollout = Rollout(revision="0123456789", last_ready_revision=revision(**TWO))
    status = {**stream.manifest["status"], "rollout": rollout.model_dump(by_alias=True)}
    _, manifest = spec_to_restore(Stream({**stream.manifest, "status": status}), records, None)
    assert manifest["spec"] == {**samples.stream(**TWO)["spec"], "image": samples.IMAGE}


def test_a_certain_revision_can_be_asked_for(cluster: FakeCluster) -> None:
    assert spec_to_restore(*look(cluster), revision())[0] == revision()
    with pytest.raises(NoRevision, match=f"never Ready with other: known are {revision(**TWO)}"):
        spec_to_restore(*look(cluster), "other")


def test_the_only_spec_has_no_earlier_one() -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    with pytest.raises(NoRevision, match="default/flags was never Ready with another spec"):
        spec_to_restore(*look(cluster), None)
