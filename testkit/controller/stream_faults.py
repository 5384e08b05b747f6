"""What `penstock doctor` reads after a fault of a stream, of the operator or of the cluster.

The operator's own code writes the status of each fault, in a cluster in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.api.v1alpha1.status import LastFailure
from penstock.client.cluster_facts import ClusterFacts, OperatorFacts, Right
from penstock.cluster import kinds
from penstock.cluster.objects import Claim, Event, Lease, Quota
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.contract.pod_check import BrokerCheck, PodCheck, Reach
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


def checked_inside(facts: ClusterFacts, outcome: Reach) -> ClusterFacts:
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
    return reports(
        QueryState.RESTARTING, "BrokerUnreachable", "No answer within 10 s", query_runs=True
    )


def broker_down_after_a_memory_kill() -> ClusterFacts:
    """The driver's container was killed a while ago, and the stream had recovered."""
    cluster = running()
    killed = cluster.clock()
    cluster.clock.advance(300)
    failure = LastFailure(
        reason="BrokerUnreachable",
        message="No answer within 10 s",
        permanent=False,
        time=cluster.clock(),
    )
    report = samples.report(
        spec_hash=cluster.applied_hash, state=QueryState.RESTARTING, last_failure=failure
    )
    finished = f"{killed:%Y-%m-%dT%H:%M:%SZ}"
    terminated = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": finished}
    container = samples.container(
        ready=False, state={"running": {}}, lastState={"terminated": terminated}
    )
    cluster.put_pod(report, containerStatuses=[container])
    cluster.reconcile()
    return facts_of(cluster)


def broker_refuses() -> ClusterFacts:
    return checked_inside(broker_down(), Reach.REFUSED)


def name_unknown() -> ClusterFacts:
    return checked_inside(broker_down(), Reach.NAME_UNKNOWN)


def name_servers_down() -> ClusterFacts:
    return replace(checked_inside(broker_down(), Reach.NAME_SERVER_SILENT), dns_endpoints=0)


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


def token_rejected() -> ClusterFacts:
    """Its driver runs again, and cannot report; the process before said why it ended."""
    cluster = running()
    rejected = LastFailure(
        reason="ApiServerUnauthorized",
        message="The API server rejects the token",
        permanent=False,
        time=cluster.clock(),
    )
    ended = {"exitCode": 1, "message": rejected.model_dump_json(by_alias=True), "reason": "Error"}
    cluster.put_pod(
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=[
            samples.container(state={"running": {}}, lastState={"terminated": ended})
        ],
    )
    cluster.reconcile()
    return facts_of(cluster)


def service_account_recreated() -> ClusterFacts:
    cluster = running()
    cluster.api.remove(cluster.api.one(kinds.SERVICE_ACCOUNT, naming.driver_name(samples.NAME)))
    cluster.clock.advance(1)
    cluster.reconcile()
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


def unschedulable_with_late_binding() -> ClusterFacts:
    """The volume is bound when the pod is scheduled (volumeBindingMode WaitForFirstConsumer)."""
    facts = unschedulable()
    (stream,) = facts.streams
    assert stream.claim is not None
    claim = {**stream.claim.manifest, "status": {"phase": "Pending"}}
    note = "waiting for pod flags-driver-0 to be scheduled"
    time = facts.now.isoformat()
    said = {**warning(claim, "WaitForPodScheduled", note, time), "type": "Normal"}
    events = (*stream.events, Event.parse(said))
    return with_stream(facts, claim=Claim(claim), events=events)


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
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
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
    quota = {
        "apiVersion": kinds.RESOURCE_QUOTA.api_version,
        "kind": kinds.RESOURCE_QUOTA.kind,
        "metadata": {"name": "team", "namespace": "default"},
        "status": status,
    }
    return facts_of(cluster, quotas=(Quota(quota),))


def claim_unbound() -> ClusterFacts:
    cluster = FakeCluster()
    cluster.apply()
    cluster.reconcile()
    cluster.step()
    cluster.put_pod(phase="Pending", conditions=[], containerStatuses=[])
    claim = cluster.api.one(kinds.CLAIM, naming.checkpoint_claim_name(samples.NAME))
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


def operator_frozen(
    minutes: int = 3, of: OperatorFacts | None = None, streams: int | None = 1
) -> ClusterFacts:
    """It is Ready, and does not look at the driver's reports either."""
    cluster = running()
    cluster.report(epoch=900)
    cluster.clock.advance(60 * minutes)
    return facts_of(cluster, operators=(of or operator(),), stream_count=streams)


def operator_without_leader() -> ClusterFacts:
    """Its pods are Ready, and none of them has renewed the Lease."""
    cluster = running()
    lease = {"spec": {"holderIdentity": "penstock-0", "renewTime": cluster.clock.text()}}
    cluster.clock.advance(120)
    return facts_of(cluster, operators=(operator(lease=Lease(lease)),))


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
    cluster.api.remove(cluster.api.one(kinds.CLAIM, naming.checkpoint_claim_name(samples.NAME)))
    pod = cluster.pod
    assert pod is not None
    cluster.api.remove(pod)
    cluster.reconcile()
    return facts_of(cluster)
