"""What `penstock plan` says of an edit: what the operator would do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from penstock.api.v1alpha1.restarts_by_field import Change
from penstock.api.v1alpha1.status import LastFailure
from penstock.client.plan import RESTARTS, LiveStream, plan, plan_edit
from penstock.cluster import kinds
from penstock.cluster.objects import ControllerRevision
from penstock.cluster.stream import Stream
from penstock.contract.driver_report import QueryState
from penstock.contract.edit_effects import change_of_edit
from penstock.validation.reading.documents import load
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

SPEC = samples.stream()["spec"]
SQL = {"transform": {"sql": "SELECT key, value FROM source"}}
PYTHON = {"transform": {"python": {"function": "a:b", "inline": "def b(source): return source"}}}


def stream(status: dict[str, Any] | None = None, **spec: Any) -> LiveStream:
    return LiveStream(Stream({**samples.stored(**spec), "status": status or {}}))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ({}, "Unchanged"),
        ({"restart": {"maxAttempts": 3}}, "NothingRestarts"),
        (SQL, "QueryRestarts"),
        ({**SQL, "restart": {"maxAttempts": 3}}, "QueryRestarts"),
        ({**SQL, "executor": {"cores": 2}}, "PodRestarts"),
        (PYTHON, "PodRestarts"),
        ({"trigger": {"microBatch": {}}}, "PodRestarts"),
        ({"suspend": True}, "DriverStops"),
        ({"className": "blue"}, "Refused"),
        ({"checkpoint": {"objectStore": {"location": "s3a://bucket"}}}, "Refused"),
    ],
)
def test_each_edit_has_an_outcome(edit: dict[str, Any], reason: str) -> None:
    outcome, *fields = plan_edit(stream(), samples.stream(**edit)["spec"])
    assert outcome.reason == reason
    assert len(fields) >= len(edit)
    assert (outcome.severity == "warning") is (reason in RESTARTS)


def test_a_new_pod_takes_about_as_long_as_the_last_one() -> None:
    edited = samples.stream(executor={"cores": 2})["spec"]
    status = {"epoch": 7, "rollout": {"revision": "a", "podSeconds": 41}}
    outcome, *_ = plan_edit(stream(status), edited)
    assert outcome.message.endswith("; last time this took 41 s")
    outcome, *_ = plan_edit(stream({"rollout": {"revision": "a"}}), edited)
    assert "took" not in outcome.message


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (
            {"timestamp": "2026-11-26T08:00:00Z"},
            "records that the sink got after that are written twice",
        ),
        (
            {"generation": 1},
            "only records that that generation has not committed are written twice",
        ),
        ({"offsets": "latest"}, "records that the query has not read by then are skipped"),
    ],
)
def test_another_checkpoint_is_said(start: dict[str, Any], said: str) -> None:
    """Not that the query goes on from its last commit."""
    begun: dict[str, Any] = {"checkpoint": {"generation": 3, "startFrom": start}}
    for edit in (begun, {**begun, "executor": {"cores": 2}}):
        outcome, *fields = plan_edit(stream({"epoch": 7}), samples.stream(**edit)["spec"])
        assert outcome.severity == "warning"
        assert f"it begins without state at startFrom.{next(iter(start))}, and {said}; if" in (
            outcome.message
        )
        assert "epoch 7" not in outcome.message
        assert "spec.checkpoint.generation: added (query)" in [it.message for it in fields]
    back, *_ = plan_edit(stream({"epoch": 7}, **begun), SPEC)
    assert "generation 0 of the checkpoint: it begins anew, and" in back.message


def test_other_partitions_of_state_are_said() -> None:
    edited = samples.stream(checkpoint={"statePartitions": 8})["spec"]
    outcome, *_ = plan_edit(stream({"epoch": 7, "statePartitions": 4}), edited)
    assert outcome.reason == "QueryRestarts"
    assert outcome.message.endswith("divides its state, which has 4 partitions, into 8")
    for status in ({"epoch": 7}, {"epoch": 7, "statePartitions": 8}):
        outcome, *_ = plan_edit(stream(status), edited)
        assert outcome.message.endswith("; it takes seconds")


def test_a_start_of_a_generation_that_runs_counts_no_more() -> None:
    begun: dict[str, Any] = {"generation": 3, "startFrom": {"offsets": "latest"}}
    edited = {**begun, "startFrom": {"offsets": "earliest"}}
    spec = samples.stream(checkpoint=edited)["spec"]
    _, field = plan_edit(stream({"epoch": 7}, checkpoint=begun), spec)
    assert field.message.endswith("; it has no effect, because the checkpoint has commits")


@pytest.mark.proves("ci.md#what-an-apply-would-restart")
def test_the_outcome_is_what_the_operator_does() -> None:
    """It compares hashes."""
    before = samples.desired()
    for edit in ({}, SQL, PYTHON, {"executor": {"cores": 2}}, {"restart": {"maxAttempts": 3}}):
        after = samples.desired(**edit)
        change = change_of_edit(SPEC, samples.stream(**edit)["spec"])
        assert (before.pod_hash != after.pod_hash) is (change is Change.POD)
        is_another = before.spec_hash != after.spec_hash
        assert is_another is (change in (Change.POD, Change.QUERY))


def test_each_edited_field_is_named_without_its_value() -> None:
    edited = {**SPEC, "queryName": "a", "restart": {"maxAttempts": 3}}
    del edited["transform"]
    assert [it.message for it in plan_edit(stream(), edited)][1:] == [
        "spec.queryName: added (query)",
        "spec.restart.maxAttempts: added (live)",
        "spec.transform.functions: removed (query)",
        "spec.transform.sql: removed (query)",
    ]


def test_an_edit_of_a_stream_that_is_stopped_restarts_nothing() -> None:
    """Until it is resumed."""
    edited = samples.stream(suspend=True, executor={"cores": 2})["spec"]
    outcome, *_ = plan_edit(stream(suspend=True), edited)
    assert (outcome.reason, outcome.severity) == ("Suspended", "notice")
    outcome, *_ = plan_edit(stream(suspend=True), SPEC)
    assert outcome.reason == "DriverStarts"


def test_an_edit_of_a_stream_that_has_finished_runs_it_again() -> None:
    """Nothing of it stands still meanwhile, and live fields run nothing."""
    done = stream({"epoch": 7, "completionTime": "2026-11-21T00:00:00Z"})
    for edit in (SQL, {"restartedAt": "now"}):
        outcome, *_ = plan_edit(done, samples.stream(**edit)["spec"])
        assert (outcome.reason, outcome.severity) == ("RunsAgain", "notice")
    outcome, *_ = plan_edit(done, samples.stream(ttlSecondsAfterFinished=5)["spec"])
    assert outcome.reason == "NothingRestarts"


@pytest.mark.parametrize(
    ("mode", "ready", "again"),
    [
        ("MicroBatch", "True", False),
        ("MicroBatch", "False", True),
        ("AsyncMicroBatch", "True", True),
        ("Continuous", "True", True),
        ("RealTime", "True", True),
    ],
)
def test_what_is_written_again_is_said(mode: str, ready: str, again: bool) -> None:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Running",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-21T00:00:00Z",
    }
    status = {"epoch": 7, "mode": mode, "conditions": [condition]}
    outcome, *_ = plan_edit(stream(status), samples.stream(**SQL)["spec"])
    assert ("since then are written twice" in outcome.message) is again
    assert ("nothing is written twice" in outcome.message) is not again


def test_a_start_that_counts_no_more_is_said() -> None:
    source = {"kafka": {**SPEC["source"]["kafka"], "startingOffsets": "earliest"}}
    edited = samples.stream(source=source)["spec"]
    outcome, field = plan_edit(stream({"epoch": 7}), edited)
    assert "from its last commit (now epoch 7); records written since then" in outcome.message
    assert "; it has no effect" in field.message
    _, field = plan_edit(stream(), edited)
    assert "; it has no effect" not in field.message


def test_a_file_is_planned_by_its_streams() -> None:
    """An invalid one is refused, with what `penstock validate` says."""
    there, new, wrong = samples.stream(**SQL), samples.stream(), samples.stream(trigger={})
    new["metadata"]["name"], wrong["metadata"]["name"] = "new", "wrong"
    text = yaml.safe_dump_all([there, new, wrong])
    asked = []

    def live(key: Any) -> LiveStream | None:
        asked.append(str(key))
        return stream() if key.name == samples.NAME else None

    report = plan(load(text.encode(), "streams.yaml"), "payments", live)
    found = {(it.stream, it.reason) for it in report.findings if it.reason != "FieldEdited"}
    assert found >= {(samples.NAME, "QueryRestarts"), ("new", "Created")}
    assert {it.stream for it in report.findings if it.severity == "error"} == {"wrong"}
    assert asked == [f"default/{samples.NAME}", "default/new"]
    edits = [it for it in report.findings if it.reason == "FieldEdited"]
    lines = [text.splitlines()[it.line - 1].strip() for it in edits]
    assert any(line.startswith("sql:") for line in lines)
    assert not report.passed


CORES: dict[str, Any] = {"executor": {"cores": 2}}
NAMED: dict[str, Any] = {"queryName": "other"}
INVALID: dict[str, Any] = {"transform": {"sql": "SELECT nothing FROM nowhere"}}
BROKEN = LastFailure(reason="Boom", message="it broke", permanent=True, time=samples.T0)


def cluster_with(edit: dict[str, Any]) -> FakeCluster:
    """A stream that is Ready with the sample's spec; an edit of it is refused, or taken back."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.fails_with[samples.desired(**edit).spec_hash] = {
        "state": QueryState.FAILED, "last_failure": BROKEN
    }  # fmt: skip
    cluster.apply(**edit)
    cluster.settle()
    assert cluster.condition("Stalled").status == "True"
    assert cluster.condition("Ready").status == "True"
    return cluster


def planned(cluster: FakeCluster, edit: dict[str, Any]) -> list[Any]:
    records = tuple(map(ControllerRevision, cluster.api.of_kind(kinds.CONTROLLER_REVISION)))
    live = LiveStream(Stream(cluster.stream), records)
    return list(plan_edit(live, samples.stream(**edit)["spec"]))


def done(cluster: FakeCluster, edit: dict[str, Any]) -> str:
    """What the operator does, as the outcome of a plan."""

    def runs() -> tuple[str, str]:
        found = cluster.api.one(kinds.STATEFUL_SET, f"{samples.NAME}-driver")
        annotations = found["spec"]["template"]["metadata"]["annotations"]
        return annotations["penstock.dev/pod-hash"], cluster.applied_hash

    before = runs()
    cluster.fails_with.clear()
    cluster.apply(**edit)
    cluster.settle()
    after = runs()
    if before[0] != after[0]:
        return "PodRestarts"
    return "QueryRestarts" if before != after else "NothingRestarts"


@pytest.mark.proves("ci.md#what-an-apply-would-restart")
@pytest.mark.parametrize(
    "failed",
    [NAMED, CORES, {**INVALID, **CORES}],
    ids=["query", "pod", "invalid"],
)
@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        pytest.param({}, "NothingRestarts", id="back to what runs"),
        pytest.param({"restart": {"maxAttempts": 3}}, "NothingRestarts", id="nearly"),
        pytest.param(SQL, "QueryRestarts", id="query"),
        pytest.param({**SQL, **CORES}, "PodRestarts", id="a pod, which the edit before named"),
    ],
)
def test_an_edit_is_compared_with_what_runs(
    failed: dict[str, Any], edit: dict[str, Any], reason: str
) -> None:
    """And not with the resource, if that was refused or taken back: the operator does the same."""
    cluster = cluster_with(failed)
    outcome, *_ = planned(cluster, edit)
    assert outcome.reason == reason
    assert "which runs: the resource's spec does not run" in outcome.message
    assert done(cluster, edit) == reason


def test_the_same_manifest_again_changes_nothing() -> None:
    """Though another spec runs."""
    outcome, *fields = planned(cluster_with(CORES), CORES)
    assert (outcome.reason, fields) == ("Unchanged", [])


def test_what_runs_may_not_be_known() -> None:
    """The stream was not Ready for long enough to be recorded, or the records may not be read."""
    live = LiveStream(Stream(cluster_with({**INVALID, **CORES}).stream))
    outcome, *_ = plan_edit(live, samples.stream(**SQL, **CORES)["spec"])
    assert "Not compared with what runs" in outcome.message


def test_an_edit_that_is_not_done_counts_as_well() -> None:
    """The pod that runs is being replaced."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.apply(**CORES)
    for edit, reason in (({}, "PodRestarts"), (SQL, "PodRestarts"), ({**CORES}, "Unchanged")):
        outcome, *_ = planned(cluster, edit)
        assert outcome.reason == reason
    assert "the resource's spec is not applied yet" in planned(cluster, SQL)[0].message


def test_an_image_that_runs_already_replaces_nothing_when_a_spec_names_it() -> None:
    """As a rollback does after a default image that does not run."""
    cluster = cluster_with(CORES)
    outcome, *_ = planned(cluster, {"image": samples.IMAGE})
    assert outcome.reason == done(cluster, {"image": samples.IMAGE}) == "NothingRestarts"
