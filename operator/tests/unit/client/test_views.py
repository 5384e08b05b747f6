"""What `penstock status` and `penstock top` print."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from penstock.api.v1alpha1.status import Cause, LastFailure, LastRepair
from penstock.client.cluster_facts import ClusterFacts, DriverMetrics, StreamFacts
from penstock.client.formatting import printable, size, span
from penstock.client.view import status, top
from penstock.client.view.timeline import moments_of
from penstock.cluster.kinds import Key
from penstock.cluster.stream import Stream
from penstock.contract.driver_report import QueryState
from penstock.contract.remedies import remedy_for
from testkit.controller import samples, stream_faults
from testkit.controller.facts import facts_of, with_stream
from testkit.controller.fake_cluster import FakeCluster


def failed() -> ClusterFacts:
    """A stream that fails after it ran, and is tried again in 12 s."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    now = cluster.clock()
    failure = LastFailure(
        reason="TopicMissing", message="The topic in is gone.", permanent=False, time=now
    )
    repair = LastRepair(
        reason="Imported", cause=Cause.SWITCH, message="commits/7 was removed", time=now
    )
    cluster.report(
        state=QueryState.RESTARTING,
        last_failure=failure,
        last_repair=repair,
        next_retry_time=now + timedelta(seconds=42),
        committed=False,
        epoch=8112,
    )
    cluster.reconcile()
    cluster.clock.advance(30)
    metrics = DriverMetrics(last_commit=now, lag=1204, records=100.0, latency=0.91)
    return with_stream(facts_of(cluster), metrics=metrics)


def test_status_says_all_that_a_person_on_call_asks() -> None:
    """What runs, since when, how far behind, what failed, what comes next, what to do."""
    facts = failed()
    text = status.as_text(facts.streams[0], facts)
    lines = {each[:14].strip(): each[14:] for each in text.splitlines()}
    assert text.startswith(
        "default/flags: Restarting: The query failed, and restarts from its checkpoint"
    )
    assert lines["mode"] == "Continuous"
    assert lines["image"] == samples.IMAGE
    assert lines["revision"].endswith(", metadata.generation 1")
    assert lines["since"].startswith("not Ready for 30s, since 2026-11-21 00:")
    assert lines["progress"] == "epoch 8,112, committed 30s ago, 1,204 records behind"
    assert lines["latency"].startswith("0.91 s from a record's timestamp to its commit")
    assert lines["last failure"] == "30s ago: TopicMissing: The topic in is gone."
    assert lines["next attempt"].startswith("in 12s, at 2026-11-21 00:")
    assert lines["do"] == "Create the topic, or correct its name."
    assert lines["run"] == "kubectl get cstream flags -n default -o yaml"
    assert lines["checkpoint"].startswith("flags-checkpoint")
    assert lines["last repair"] == "30s ago: Switch: commits/7 was removed"
    assert "flags-driver-0   Running" in text


def in_store() -> FakeCluster:
    cluster = FakeCluster()
    cluster.apply(checkpoint={"objectStore": {"location": "s3a://bucket/prefix"}})
    cluster.settle()
    return cluster


@pytest.mark.parametrize("has_set", [True, False])
def test_status_says_where_in_an_object_store_a_checkpoint_is(has_set: bool) -> None:
    """Also without the StatefulSet, by the status."""
    facts = facts_of(in_store())
    if not has_set:
        facts = with_stream(facts, stateful_set=None)
    text = status.as_text(facts.streams[0], facts)
    assert re.search(r"^checkpoint +s3a://bucket/prefix/default/flags$", text, re.MULTILINE)
    assert "flags-checkpoint" not in text


def test_no_command_is_about_a_claim_that_a_stream_does_not_have() -> None:
    (stream,), (on_volume,) = facts_of(in_store()).streams, running().streams
    damaged = remedy_for("CheckpointDamaged", "Stalled")
    assert on_volume.command(damaged) == "kubectl describe pvc flags-checkpoint -n default"
    assert stream.command(damaged) == "kubectl penstock logs flags -n default"


def test_an_epoch_of_an_earlier_query_is_not_taken_for_this_ones() -> None:
    cluster = stream_faults.running()
    cluster.report(committed=False, epoch=137)
    cluster.settle()
    facts = facts_of(cluster)
    assert "epoch 137 of an earlier query" in status.as_text(facts.streams[0], facts)


def test_the_generation_of_the_checkpoint_is_not_that_of_the_object() -> None:
    cluster = stream_faults.running()
    cluster.report(checkpoint_generation=2)
    cluster.settle()
    facts = facts_of(cluster)
    text = status.as_text(facts.streams[0], facts)
    assert re.search(r"^checkpoint +checkpoint\.generation 2$", text, re.MULTILINE)


def test_the_story_is_in_order() -> None:
    (stream,) = failed().streams
    found = moments_of(stream)
    assert [each.time for each in found] == sorted(each.time for each in found)
    reasons = [each.reason for each in found]
    assert reasons[0] == "Created"
    assert {"Running", "Imported", "TopicMissing"} <= set(reasons)


@pytest.mark.parametrize(("seconds", "times"), [(0.3, 1), (60, 2)])
def test_the_story_says_once_what_is_a_condition_and_an_event(seconds: float, times: int) -> None:
    """And twice what happened twice."""
    (stream,) = running().streams
    later = timedelta(seconds=seconds)
    events = tuple(replace(each, time=each.time + later) for each in stream.events)
    reasons = [each.reason for each in moments_of(replace(stream, events=events))]
    assert reasons.count("Running") == times


def test_the_table_has_a_row_for_each_stream() -> None:
    head, row = status.as_table(failed()).splitlines()
    assert head.split() == list(status.HEAD)
    assert row.split() == [
        "default", "flags", "Restarting", "TopicMissing", "Continuous", "1,204", "8,112", "30s",
        "4/4", "0",
    ]  # fmt: skip


def test_the_json_has_the_status_and_what_was_read_besides() -> None:
    (stream,) = json.loads(status.as_json(failed()))["streams"]
    assert stream["status"]["state"] == "Restarting"
    assert stream["recordCommitLatencySeconds"] == 0.91
    assert stream["command"] == "kubectl get cstream flags -n default -o yaml"
    assert stream["story"][0]["reason"] == "Created"


def test_a_stream_without_a_status_is_shown() -> None:
    """Before the operator has looked at it, or while there is none."""
    facts = ClusterFacts(samples.T0, (StreamFacts(Stream(samples.stored())),))
    assert status.as_table(facts).split()[-10:-6] == ["default", "flags", "Unknown", "NoStatus"]
    text = status.as_text(facts.streams[0], facts)
    assert text.startswith("default/flags: Unknown: the operator has not looked at it yet")


def named(facts: ClusterFacts, name: str, state: str = "", lag: int = 0) -> StreamFacts:
    """The stream of the facts with another name, state and lag."""
    (stream,) = facts.streams
    raw = {
        **stream.resource.manifest,
        "metadata": {**stream.resource.manifest["metadata"], "name": name},
        "status": {
            **stream.resource.manifest["status"],
            **({"state": state} if state else {}),
            "lag": lag,
        },
    }
    return replace(stream, resource=Stream(raw), metrics=None)


def running() -> ClusterFacts:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    return facts_of(cluster)


def test_what_needs_a_person_comes_first() -> None:
    """Then what restarts, then what runs; among equals what is further behind."""
    well, ill = running(), failed()
    streams = (
        named(well, "quick", lag=1),
        named(well, "slow", lag=900),
        named(ill, "restarts"),
        named(ill, "later", state="Hibernating"),
        named(ill, "stalled", state="Stalled"),
    )
    facts = replace(well, streams=streams)
    order = [each.key.name for each in top.sorted_streams(facts)]
    assert order == ["stalled", "restarts", "later", "slow", "quick"]


def test_a_rate_needs_two_counts_of_the_same_process() -> None:
    facts = failed()
    rate = top.COLUMNS.index("RECORDS/S")
    assert top.frame(facts, {})[0][rate] == "-"
    key, before = Key("default", "flags"), facts.now - timedelta(seconds=2)
    assert top.frame(facts, {key: (before, 40.0)})[0][rate] == "30"
    assert top.frame(facts, {key: (before, 500.0)})[0][rate] == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (3_000, "50m"),
        (10_800, "3h"), (11_100, "3h5m"), (90_000, "25h"), (187_200, "2d4h"), (864_000, "10d"),
    ],
)  # fmt: skip
def test_a_span_is_written_as_kubectl_writes_it(seconds: int, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("octets", "text"), [(0, "0"), (512, "512"), (1536, "1.5Ki"), (2**30, "1Gi"), (2**41, "2.0Ti")]
)
def test_a_size_is_written_as_kubernetes_writes_it(octets: int, text: str) -> None:
    assert size(octets) == text


def test_a_message_moves_no_cursor() -> None:
    assert printable("a\x1b[2J\nb") == "a\\x1b[2J b"


def test_status_says_what_to_do_about_a_refused_edit_while_the_stream_runs() -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    facts = facts_of(cluster)
    assert "do            Nothing." in status.as_text(facts.streams[0], facts)
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    facts = facts_of(cluster)
    lines = {
        each[:14].strip(): each[14:]
        for each in status.as_text(facts.streams[0], facts).splitlines()
    }
    assert lines["stalled"].startswith("UnsupportedOperation")
    assert lines["do"] == remedy_for("UnsupportedOperation", None).action
    assert json.loads(status.as_json(facts))["streams"][0]["action"] == lines["do"]
