"""The first line of `penstock doctor` names the cause: a table of faults.

The operator's own code writes the status of each fault, in a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure, StreamStatus
from penstock.client.checks.diagnosis import diagnose
from penstock.client.checks.finding import Finding, Severity
from penstock.client.facts import ClusterFacts, Right, Unread
from penstock.client.view.findings import as_json, as_text, exit_code
from penstock.cluster import objects
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.contract.pod_check import BrokerCheck, Outcome, PodCheck
from scripts.codegen import crd
from testkit.controller import samples
from testkit.controller.facts import NODE, facts_of, node, operator, warning, with_stream
from testkit.controller.fake_cluster import FakeCluster

BROKER = "kafka.kafka:9092"


def running() -> FakeCluster:
    """A cluster with a stream that runs."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    assert cluster.state == "Running"
    return cluster


def reports(state: QueryState, reason: str, message: str, **fields: Any) -> ClusterFacts:
    """What is read after the driver has reported a failure."""
    cluster = running()
    failure = LastFailure(
        reason=reason,
        message=message,
        permanent=state is QueryState.FAILED,
        time=cluster.clock(),
    )
    committed = {"committed": False} if state is QueryState.FAILED else {}
    cluster.report(**{"state": state, "last_failure": failure, **committed, **fields})
    cluster.reconcile()
    cluster.clock.advance(30)
    return facts_of(cluster)


def pod_waits(**status: Any) -> ClusterFacts:
    """What is read after a new driver's pod does not start."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.reconcile()
    cluster.step()
    cluster.put_pod(**{"phase": "Pending", "conditions": [], "containerStatuses": [], **status})
    cluster.reconcile()
    return facts_of(cluster)


def checked_inside(facts: ClusterFacts, outcome: Outcome) -> ClusterFacts:
    """The same, with what a check in the driver's container found about its broker."""
    brokers = (BrokerCheck(BROKER, outcome, ()),)
    return with_stream(facts, inside=PodCheck("0.1.0", brokers))


def topic_missing() -> ClusterFacts:
    return reports(QueryState.FAILED, "TopicMissing", "The topic in does not exist.")


def acl_missing() -> ClusterFacts:
    return reports(QueryState.FAILED, "KafkaAuthorization", "Not authorized to access topics: [in]")


def poison_record() -> ClusterFacts:
    message = "[DIVIDE_BY_ZERO] A record could not be processed."
    return reports(QueryState.RESTARTING, "DivideByZero", message)


def broker_down() -> ClusterFacts:
    return reports(QueryState.RESTARTING, "BrokerUnreachable", "No answer within 10 s")


def broker_refuses() -> ClusterFacts:
    return checked_inside(broker_down(), Outcome.REFUSED)


def name_unknown() -> ClusterFacts:
    return checked_inside(broker_down(), Outcome.NAME_UNKNOWN)


def name_servers_down() -> ClusterFacts:
    return replace(checked_inside(broker_down(), Outcome.NAME_SERVER_SILENT), dns_endpoints=0)


def driver_killed() -> ClusterFacts:
    """Its container waits for the next start, and said why it ended."""
    cluster = running()
    killed = LastFailure(
        reason="DriverKilled", message="The JVM was killed", permanent=False, time=cluster.clock()
    )
    ended = {"exitCode": 1, "message": killed.model_dump_json(by_alias=True), "reason": "Error"}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    cluster.put_pod(
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=[samples.container(state=waits, lastState={"terminated": ended})],
    )
    cluster.reconcile()
    return facts_of(cluster)


def executor_out_of_memory() -> ClusterFacts:
    cluster = running()
    killed = LastFailure(
        reason="ExecutorLost", message="1 of 4 executors", permanent=False, time=cluster.clock()
    )
    cluster.report(state=QueryState.RESTARTING, last_failure=killed, committed=False)
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    cluster.api.put(
        samples.executor_pod(1, containerStatuses=[{"name": "executor", "state": ended}])
    )
    cluster.reconcile()
    return facts_of(cluster)


def unschedulable() -> ClusterFacts:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory.",
    }
    return pod_waits(conditions=[condition])


def executors_unschedulable() -> ClusterFacts:
    cluster = running()
    cluster.report(state=QueryState.WAITING_FOR_CORES, registered_cores=2, committed=False)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }
    cluster.api.put(samples.executor_pod(3, phase="Pending", conditions=[condition]))
    cluster.reconcile()
    return facts_of(cluster)


def image_missing() -> ClusterFacts:
    waits = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    return pod_waits(containerStatuses=[samples.container(state=waits)])


def quota_used_up() -> ClusterFacts:
    cluster = FakeCluster()
    cluster.apply()
    cluster.reconcile()
    owner = cluster.api.one(objects.STATEFUL_SET, naming.driver_name(samples.NAME))
    note = 'create Pod failed: pods "flags-driver-0" is forbidden: exceeded quota: team'
    cluster.api.cluster_events.append(warning(owner, "FailedCreate", note, cluster.clock.text()))
    cluster.reconcile()
    return facts_of(cluster)


def executors_beyond_the_quota() -> ClusterFacts:
    """Spark's log has the refusal, and no event: two cores are left, and none for a third pod."""
    cluster = running()
    cluster.report(state=QueryState.WAITING_FOR_CORES, registered_cores=2, committed=False)
    cluster.reconcile()
    status = {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "3500m"}}
    quota = {"metadata": {"name": "team", "namespace": "default"}, "status": status}
    return facts_of(cluster, quotas=(quota,))


def claim_unbound() -> ClusterFacts:
    cluster = FakeCluster()
    cluster.apply()
    cluster.reconcile()
    cluster.step()
    cluster.put_pod(phase="Pending", conditions=[], containerStatuses=[])
    claim = cluster.api.one(objects.CLAIM, naming.checkpoint_claim_name(samples.NAME))
    cluster.api.put({**claim, "status": {"phase": "Pending"}})
    note = 'storageclass.storage.k8s.io "fast" not found'
    cluster.api.cluster_events.append(
        warning(claim, "ProvisioningFailed", note, cluster.clock.text())
    )
    cluster.reconcile()
    return facts_of(cluster)


def node_lost() -> ClusterFacts:
    cluster = running()
    pod = cluster.pod
    assert pod is not None
    pod["spec"]["nodeName"] = NODE
    pod["metadata"]["deletionTimestamp"] = cluster.clock.text()
    cluster.api.put(pod)
    cluster.clock.advance(60)
    cluster.reconcile()
    return facts_of(cluster, nodes={NODE: node(ready=False)})


def operator_away() -> ClusterFacts:
    """The spec was edited, and no operator has looked at it."""
    cluster = running()
    cluster.apply(executor={"cores": 2})
    cluster.clock.advance(60)
    return facts_of(cluster, operators=(operator(ready=False),))


def operator_silent() -> ClusterFacts:
    """It is Ready and does not reconcile."""
    cluster = running()
    cluster.apply(executor={"cores": 2})
    cluster.clock.advance(60)
    return facts_of(cluster)


def operator_frozen() -> ClusterFacts:
    """It is Ready, and does not look at the driver's reports either."""
    cluster = running()
    cluster.report(epoch=900)
    cluster.clock.advance(180)
    return facts_of(cluster)


def operator_without_leader() -> ClusterFacts:
    """Its pods are Ready, and none of them has renewed the Lease."""
    cluster = running()
    lease = {"spec": {"holderIdentity": "penstock-0", "renewTime": cluster.clock.text()}}
    cluster.clock.advance(120)
    return facts_of(cluster, operators=(operator("--lease=penstock", lease=lease),))


def operator_without_rights() -> ClusterFacts:
    user = "system:serviceaccount:penstock:penstock-operator"
    missing = {user: (Right("patch", "statefulsets", "apps"),)}
    return facts_of(running(), missing_rights=missing)


def crd_missing() -> ClusterFacts:
    return ClusterFacts(samples.T0, serves_streams=False, operators=(operator(),))


def invalid_edit() -> ClusterFacts:
    """The earlier spec keeps running."""
    cluster = running()
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    assert cluster.condition("Ready").status == "True"
    return facts_of(cluster)


def claim_gone() -> ClusterFacts:
    cluster = running()
    cluster.api.remove(cluster.api.one(objects.CLAIM, naming.checkpoint_claim_name(samples.NAME)))
    pod = cluster.pod
    assert pod is not None
    cluster.api.remove(pod)
    cluster.reconcile()
    return facts_of(cluster)


@dataclass(frozen=True)
class Fault:
    """A fault, and how the first line begins."""

    facts: Callable[[], ClusterFacts]
    first_line: str


STREAM = "problem: default/flags: "
INSIDE = f"From inside the driver's container, the broker {BROKER} of the source and sink"
FAULTS = (
    Fault(topic_missing, f"{STREAM}TopicMissing: Stalled for 30s: The topic in does not exist."),
    Fault(acl_missing, f"{STREAM}KafkaAuthorization: Stalled for 30s: Not authorized"),
    Fault(poison_record, f"{STREAM}DivideByZero: Restarting for"),
    Fault(broker_down, f"{STREAM}BrokerUnreachable: Restarting for"),
    Fault(
        broker_refuses,
        f"{STREAM}BrokerUnreachable: {INSIDE}: the host answers, and nothing listens at the port",
    ),
    Fault(
        name_unknown,
        f"{STREAM}BrokerNameUnresolved: {INSIDE}: the name server does not know the host",
    ),
    Fault(name_servers_down, "problem: cluster: NameServersDown: The Service kube-dns has no"),
    Fault(driver_killed, f"{STREAM}DriverKilled: Restarting for 0s: The driver exited and"),
    Fault(executor_out_of_memory, f"{STREAM}OOMKilled: The executor flags-exec-1 used more memory"),
    Fault(unschedulable, f"{STREAM}Unschedulable: The pod flags-driver-0 waits: 0/1 nodes are"),
    Fault(executors_unschedulable, f"{STREAM}Unschedulable: The pod flags-exec-3 waits: 0/1 nodes"),
    Fault(image_missing, f"{STREAM}ImagePullBackOff: The pod flags-driver-0 cannot pull its image"),
    Fault(quota_used_up, f"{STREAM}FailedCreate: Kubernetes refuses a pod of the StatefulSet"),
    Fault(
        executors_beyond_the_quota,
        f"{STREAM}FailedCreate: The ResourceQuota team is used up: 3500m of 4 requests.cpu",
    ),
    Fault(claim_unbound, f"{STREAM}ProvisioningFailed: The PersistentVolumeClaim flags-checkpoint"),
    Fault(node_lost, f"{STREAM}DriverNodeUnreachable: The node node-1 of flags-driver-0 is not"),
    Fault(operator_away, "problem: operator penstock/penstock-operator: OperatorNotReady: "),
    Fault(operator_silent, f"{STREAM}StatusStale: The operator has not looked at the newest spec"),
    Fault(
        operator_frozen,
        f"{STREAM}StatusStale: The operator has not written the status for 3m",
    ),
    Fault(
        operator_without_leader,
        "problem: operator penstock/penstock-operator: NoLeader: No pod of the operator leads: the "
        "Lease penstock was last renewed 2m ago, by penstock-0",
    ),
    Fault(
        operator_without_rights,
        "problem: operator penstock/penstock-operator: OperatorRightsMissing: The operator may "
        "not: patch statefulsets.apps in all namespaces",
    ),
    Fault(crd_missing, "problem: cluster: CrdMissing: The API server does not know"),
    Fault(
        invalid_edit, f"{STREAM}UnsupportedOperation: The newest spec is not applied, an earlier"
    ),
    Fault(claim_gone, f"{STREAM}CheckpointMissing: "),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.facts.__name__)
def test_the_first_line_names_the_cause(fault: Fault) -> None:
    """With a remedy, and the exit code of a problem."""
    facts = fault.facts()
    findings = diagnose(facts)
    first = as_text(facts, findings).splitlines()[0]
    assert first.startswith(fault.first_line), first
    assert exit_code(findings) == 1
    assert findings[0].action or "do" in findings[0].message, findings[0]
    assert "{" not in findings[0].command


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
    (finding,) = diagnose(checked_inside(broker_down(), Outcome.CONNECTED))
    assert "accept connections now. If the stream does not continue, look at" in finding.message
    assert ".." not in finding.message


def test_a_warning_hides_no_problem() -> None:
    """One of two brokers answers, so the other one is not why the stream does not run."""
    facts = broker_down()
    raw = facts.streams[0].raw
    two = {"kafka": {"bootstrapServers": "kafka-0:9092, kafka-1:9092"}}
    raw = {**raw, "spec": {**raw["spec"], "source": two, "sink": two}}
    brokers = (
        BrokerCheck("kafka-0:9092", Outcome.CONNECTED),
        BrokerCheck("kafka-1:9092", Outcome.REFUSED),
    )
    findings = diagnose(with_stream(facts, raw=raw, inside=PodCheck("0.1.0", brokers)))
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
    cluster.apply(trigger={"continuous": {"checkpointInterval": "7s"}})
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


def test_an_operator_that_watches_other_namespaces_is_named() -> None:
    facts = facts_of(running(), operators=(operator("--namespace=team-a"),))
    assert diagnose(facts)[0].reason == "NamespaceNotWatched"


def test_a_class_that_no_operator_has_is_named() -> None:
    facts = facts_of(running(), operators=(operator("--class-name=blue"),))
    (finding,) = diagnose(facts)
    assert finding.reason == "ClassMissing"
    assert "Streams in the namespace default name no class" in finding.message
    assert "penstock/penstock-operator: blue" in finding.message


@pytest.mark.parametrize(
    ("second", "reasons"),
    [
        ("--class-name=blue", []),
        ("--namespace=team-a", []),
        ("--namespace=default", ["TwoOperators"]),
    ],
)
def test_operators_side_by_side_differ_in_class_or_namespaces(
    second: str, reasons: list[str]
) -> None:
    facts = facts_of(running(), operators=(operator(), operator(second)))
    assert [each.reason for each in diagnose(facts)] == reasons


def test_a_lease_that_is_renewed_is_no_problem() -> None:
    cluster = running()
    lease = {"spec": {"holderIdentity": "penstock-0", "renewTime": cluster.clock.text()}}
    found = operator("--lease=penstock", lease=lease)
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


def test_a_nearly_full_volume_is_a_warning() -> None:
    inside = PodCheck("0.1.0", volume_bytes=1000, volume_used_bytes=950)
    (finding,) = diagnose(with_stream(facts_of(running()), inside=inside))
    assert finding.reason == "CheckpointFull"
    assert finding.severity is Severity.WARNING


def test_what_may_not_be_read_is_said_and_not_judged() -> None:
    """No wrong verdict for somebody who has few rights."""
    unread = Unread("the operator's deployment", "403 Forbidden")
    facts = facts_of(
        running(), operators=None, unread=(unread,), missing_rights={"": (Right("get", "nodes"),)}
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
