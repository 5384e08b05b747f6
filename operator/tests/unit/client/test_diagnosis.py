"""What `penstock doctor` finds beside the cause of a fault: warnings, and what is no finding."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure, StreamStatus
from penstock.client.cluster_facts import NotRead, Right
from penstock.client.doctor.diagnosis import diagnose
from penstock.client.doctor.finding import Finding, Severity
from penstock.client.view.findings import as_json, as_text, exit_code
from penstock.client.view.status import as_text as as_status
from penstock.cluster import kinds
from penstock.cluster.objects import Claim, Lease
from penstock.cluster.stream import Stream
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.contract.pod_check import BrokerCheck, PodCheck, Reach
from scripts.codegen import crd
from testkit.controller import samples
from testkit.controller.facts import facts_of, operator, warning, with_stream
from testkit.controller.fake_cluster import FakeCluster
from testkit.controller.stream_faults import (
    broker_down,
    broker_refuses,
    checked_inside,
    pod_waits,
    reports,
    running,
    topic_missing,
)

SELECTOR = {"matchLabels": {"streams": "yes"}}


def test_a_stream_that_runs_has_no_finding() -> None:
    facts = facts_of(running())
    findings = diagnose(facts)
    assert findings == ()
    assert exit_code(findings) == 0
    assert as_text(facts, findings).startswith("ok: default/flags is Running for ")


def test_what_explains_a_status_is_not_said_twice() -> None:
    """The broker's port is the cause; that the driver cannot reach it follows."""
    reasons = [each.reason for each in diagnose(broker_refuses())]
    assert reasons == ["BrokerUnreachable"]


def test_brokers_that_can_be_reached_point_to_what_else_it_may_be() -> None:
    (finding,) = diagnose(checked_inside(broker_down(), Reach.CONNECTED))
    assert "accept connections now. If the stream does not continue, look at" in finding.message
    assert ".." not in finding.message


def test_a_query_without_progress_has_a_next_command_and_no_guess() -> None:
    """The brokers answer, and nothing points to TLS."""
    stuck = reports(QueryState.RESTARTING, "NoProgress", "No progress", query_runs=True)
    (finding,) = diagnose(checked_inside(stuck, Reach.CONNECTED))
    assert "TLS" not in finding.message
    assert not finding.action.startswith("Nothing")
    assert finding.command == "kubectl penstock logs flags -n default --executors"


def test_a_warning_hides_no_problem() -> None:
    """One of two brokers answers, so the other one is not why the stream does not run."""
    facts = broker_down()
    raw = facts.streams[0].resource.manifest
    two = {"kafka": {"bootstrapServers": "kafka-0:9092, kafka-1:9092"}}
    raw = {**raw, "spec": {**raw["spec"], "source": two, "sink": two}}
    brokers = (
        BrokerCheck("kafka-0:9092", Reach.CONNECTED),
        BrokerCheck("kafka-1:9092", Reach.REFUSED),
    )
    findings = diagnose(with_stream(facts, resource=Stream(raw), inside=PodCheck("0.1.0", brokers)))
    assert [each.severity for each in findings] == [Severity.PROBLEM, Severity.WARNING]


def test_a_stream_that_starts_is_a_warning_for_two_minutes() -> None:
    """Which the first line says."""
    cluster = running()
    pod = cluster.pod
    assert pod is not None
    cluster.api.remove(pod)
    cluster.reconcile()
    facts = facts_of(cluster)
    findings = diagnose(facts)
    first = as_text(facts, findings).splitlines()[0]
    assert first.startswith("warning: default/flags: NoDriverPod: Restarting for 0s: ")
    assert exit_code(findings) == 0
    assert exit_code(diagnose(replace(facts, now=facts.now + timedelta(minutes=3)))) == 1


def _starts_after_a_failure(seconds_between: float) -> tuple[Finding, ...]:
    """What is found when a driver starts so long after the failure of its JVM."""
    cluster = running()
    killed = LastFailure(
        reason="DriverKilled",
        message="The JVM was killed.",
        permanent=False,
        time=cluster.clock(),
    )
    cluster.clock.advance(seconds_between)
    cluster.report(state=QueryState.STARTING, last_failure=killed, committed=False)
    cluster.reconcile()
    return diagnose(facts_of(cluster))


def test_a_driver_that_starts_after_a_failure_names_the_failure() -> None:
    """That it starts is what follows."""
    (finding,) = _starts_after_a_failure(10)
    assert (finding.severity, finding.reason) == (Severity.WARNING, "DriverKilled")
    assert "The JVM was killed; now: " in finding.message


def test_a_failure_that_had_passed_is_no_cause_of_a_start() -> None:
    """Somebody has edited the spec since, for example."""
    (finding,) = _starts_after_a_failure(100)
    assert finding.reason != "DriverKilled"


def test_a_failure_of_the_pod_before_an_edit_is_no_cause_of_a_start() -> None:
    """The pod of the new spec has not failed."""
    cluster = running()
    lost = LastFailure(
        reason="ExecutorLost", message="1 of 4", permanent=False, time=cluster.clock()
    )
    cluster.report(last_failure=lost, query_restarts=1)
    cluster.reconcile()
    cluster.clock.advance(5)
    cluster.apply(executor={"cores": 2})
    cluster.reconcile()
    said = set()
    for _ in range(5):
        cluster.step()
        cluster.clock.advance(1)
        cluster.reconcile()
        said |= {each.reason for each in diagnose(facts_of(cluster)) if "ago" not in each.message}
    cluster.report(state=QueryState.STARTING, last_failure=None, committed=False)
    cluster.reconcile()
    said |= {each.reason for each in diagnose(facts_of(cluster))}
    assert {"RollingOut", "QueryStarting"} <= said
    assert "ExecutorLost" not in said


def test_a_failure_that_has_passed_is_a_warning_for_an_hour() -> None:
    cluster = running()
    failure = LastFailure(
        reason="ExecutorLost", message="1 of 4", permanent=False, time=cluster.clock()
    )
    cluster.report(last_failure=failure, query_restarts=1)
    cluster.settle()
    facts = facts_of(cluster)
    (finding,) = diagnose(facts)
    assert (finding.severity, finding.reason) == (Severity.WARNING, "ExecutorLost")
    assert exit_code((finding,)) == 0
    assert diagnose(replace(facts, now=facts.now + timedelta(hours=2))) == ()


def test_a_failure_that_the_present_spec_has_cured_is_not_warned_of() -> None:
    """The topic that it names is not in the spec any more."""
    cluster = running()
    missing = LastFailure(
        reason="TopicMissing", message="no out", permanent=True, time=cluster.clock()
    )
    cluster.report(state=QueryState.FAILED, last_failure=missing, committed=False)
    cluster.settle()
    facts = facts_of(cluster)
    assert [each.reason for each in diagnose(facts)] == ["TopicMissing"]
    assert "last failure" in as_status(facts.streams[0], facts)
    cluster.apply(trigger={"continuous": {"checkpointInterval": "7s"}})
    cluster.settle()
    facts = facts_of(cluster)
    assert diagnose(facts) == ()
    assert "last failure" not in as_status(facts.streams[0], facts)


def test_an_operator_that_watches_other_namespaces_is_named() -> None:
    facts = facts_of(running(), operators=(operator(watchNamespaces=["team-a"]),))
    assert diagnose(facts)[0].reason == "NamespaceNotWatched"


@pytest.mark.parametrize(
    ("selected", "reasons"),
    [(None, []), ({"default"}, []), ({"shop"}, ["NamespaceNotWatched"])],
)
def test_an_operator_that_selects_other_namespaces_is_named(
    selected: set[str] | None, reasons: list[str]
) -> None:
    """Not if nobody could read what it selects."""
    names = None if selected is None else frozenset(selected)
    selecting = replace(operator(watchNamespaceSelector=SELECTOR), selected=names)
    findings = diagnose(facts_of(running(), operators=(selecting,)))
    assert [finding.reason for finding in findings] == reasons
    assert all("streams=yes" in finding.action for finding in findings)


@pytest.mark.parametrize(("selected", "reasons"), [(None, []), ({"default"}, ["TwoOperators"])])
def test_two_operators_are_named_only_if_both_select_the_namespace(
    selected: set[str] | None, reasons: list[str]
) -> None:
    """Whoever may not list namespaces does not know, and doctor says what it could not read."""
    names = None if selected is None else frozenset(selected)
    second = replace(operator(watchNamespaceSelector=SELECTOR), selected=names)
    findings = diagnose(facts_of(running(), operators=(operator(), second)))
    assert [finding.reason for finding in findings] == reasons


def test_a_class_that_no_operator_has_is_named() -> None:
    facts = facts_of(running(), operators=(operator(className="blue"),))
    (finding,) = diagnose(facts)
    assert finding.reason == "ClassMissing"
    assert "Streams in the namespace default name no class" in finding.message
    assert "penstock/penstock-operator: blue" in finding.message


@pytest.mark.parametrize(
    ("second", "reasons"),
    [
        ({"className": "blue"}, []),
        ({"watchNamespaces": ["team-a"]}, []),
        ({"watchNamespaces": ["default"]}, ["TwoOperators"]),
    ],
)
def test_operators_side_by_side_differ_in_class_or_namespaces(
    second: dict[str, Any], reasons: list[str]
) -> None:
    facts = facts_of(running(), operators=(operator(), operator(**second)))
    assert [each.reason for each in diagnose(facts)] == reasons


def test_a_lease_that_is_renewed_is_no_problem() -> None:
    cluster = running()
    lease = {"spec": {"holderIdentity": "penstock-0", "renewTime": cluster.clock.text()}}
    found = operator(lease=Lease(lease))
    assert diagnose(facts_of(cluster, operators=(found,))) == ()


def test_what_somebody_asked_for_is_a_warning() -> None:
    """A suspended stream, and one that the operator leaves alone."""
    cluster = running()
    cluster.apply(suspend=True)
    cluster.settle()
    pod = cluster.pod
    if pod is not None:
        cluster.api.remove(pod)
        cluster.settle()
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.settle()
    findings = diagnose(facts_of(cluster))
    assert [each.reason for each in findings] == ["Suspended", "ReconciliationPaused"]
    assert exit_code(findings) == 0
    assert findings[0].command.endswith("""-p '{"spec":{"suspend":false}}'""")


@pytest.mark.parametrize(("missing", "reasons"), [(set(), []), ({"lag"}, ["CrdOutdated"])])
def test_a_resource_type_without_a_status_field_is_a_warning(
    missing: set[str], reasons: list[str]
) -> None:
    schema = crd.structural(StreamStatus)
    installed = frozenset(schema["properties"]) - missing
    findings = diagnose(facts_of(running(), crd_properties=installed))
    assert [each.reason for each in findings] == reasons


def test_versions_that_differ_are_a_warning() -> None:
    facts = with_stream(
        facts_of(running(), operators=(operator(version="9.9.9"),)), inside=PodCheck("0.0.1")
    )
    findings = diagnose(facts)
    assert [each.reason for each in findings] == ["VersionsApart", "VersionsApart"]
    assert exit_code(findings) == 0


def test_a_claim_that_waits_without_a_reason_names_its_storage_class() -> None:
    """Nothing provisions for that class, so nothing says why."""
    facts = pod_waits(phase="Pending", conditions=[], containerStatuses=[])
    stream = facts.streams[0]
    assert stream.claim is not None
    spec = {**stream.claim.manifest["spec"], "storageClassName": "fast"}
    claim = Claim({**stream.claim.manifest, "spec": spec, "status": {"phase": "Pending"}})
    finding = diagnose(with_stream(facts, claim=claim))[0]
    assert (finding.severity, finding.reason) == (Severity.PROBLEM, "ProvisioningFailed")
    assert "flags-checkpoint is not bound (class fast)" in finding.message


def test_a_refused_pod_is_named_while_no_operator_runs() -> None:
    """The status still says that the stream is Ready."""
    cluster = running()
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
    assert cluster.pod is not None
    cluster.api.remove(cluster.pod)
    said = warning(owner, "FailedCreate", "exceeded quota: team", cluster.clock.text())
    cluster.api.cluster_events.append(said)
    cluster.clock.advance(120)
    findings = diagnose(facts_of(cluster))
    assert findings[0].reason == "FailedCreate"
    assert "exceeded quota: team" in findings[0].message


def test_a_nearly_full_volume_is_a_warning() -> None:
    inside = PodCheck("0.1.0", volume_bytes=1000, volume_used_bytes=950)
    (finding,) = diagnose(with_stream(facts_of(running()), inside=inside))
    assert finding.reason == "CheckpointFull"
    assert finding.severity is Severity.WARNING


def test_the_disk_of_a_stream_in_an_object_store_is_no_volume() -> None:
    """The container has a file system of its own."""
    cluster = FakeCluster()
    cluster.apply(checkpoint={"objectStore": {"location": "s3a://bucket/prefix"}})
    cluster.settle()
    inside = PodCheck("0.1.0", volume_bytes=1000, volume_used_bytes=950)
    assert diagnose(with_stream(facts_of(cluster), inside=inside)) == ()


@pytest.mark.parametrize(
    ("of_state", "trigger", "reasons"),
    [
        (None, "microBatch", []),
        (4, "microBatch", []),
        (3, "microBatch", ["FewStatePartitions"]),
        (3, "realTime", []),  # the other cores read
    ],
)
def test_state_with_fewer_partitions_than_cores_is_a_warning(
    of_state: int | None, trigger: str, reasons: list[str]
) -> None:
    cluster = FakeCluster()
    cluster.apply(trigger={trigger: {}})
    cluster.settle()
    cluster.report(cores=4, registered_cores=4, state_partitions=of_state)
    cluster.settle()
    facts = facts_of(cluster)
    assert [each.reason for each in diagnose(facts)] == reasons
    (stream,) = facts.streams
    assert stream.status.state_partitions == of_state


def test_what_may_not_be_read_is_said_and_not_judged() -> None:
    """No wrong verdict for somebody who has few rights."""
    not_read = NotRead("the operator's deployment", "403 Forbidden")
    facts = facts_of(
        running(),
        operators=None,
        not_read=(not_read,),
        missing_rights={"": (Right("get", "nodes"),)},
    )
    findings = diagnose(facts)
    assert {each.severity for each in findings} == {Severity.NOT_JUDGED}
    assert exit_code(findings) == 0
    text = as_text(facts, findings)
    assert "not judged: cluster: NotJudged: the operator's deployment cannot be read" in text
    assert "You may not get nodes in all namespaces" in text


def test_the_findings_are_json_for_programs() -> None:
    facts = topic_missing()
    assert '"reason": "TopicMissing"' in as_json(facts, diagnose(facts))
