"""The first line of `penstock doctor` names the cause: a table of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.client.cluster_facts import ClusterFacts
from penstock.client.doctor.diagnosis import diagnose
from penstock.client.view.findings import as_text, exit_code
from testkit.controller.facts import operator
from testkit.controller.stream_faults import (
    BROKER,
    acl_missing,
    broker_down,
    broker_down_after_a_memory_kill,
    broker_refuses,
    claim_gone,
    claim_unbound,
    crd_missing,
    driver_killed,
    executor_out_of_memory,
    executors_beyond_the_quota,
    executors_unschedulable,
    image_missing,
    invalid_edit,
    name_servers_down,
    name_unknown,
    node_lost,
    operator_away,
    operator_frozen,
    operator_silent,
    operator_without_leader,
    operator_without_rights,
    poison_record,
    quota_used_up,
    service_account_recreated,
    token_rejected,
    topic_missing,
    unschedulable,
    unschedulable_with_late_binding,
)


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
    Fault(broker_down_after_a_memory_kill, f"{STREAM}BrokerUnreachable: Restarting for"),
    Fault(
        broker_refuses,
        f"{STREAM}BrokerUnreachable: {INSIDE}: the host answers, and nothing listens at the port",
    ),
    Fault(
        name_unknown,
        f"{STREAM}BrokerNameUnresolved: {INSIDE}: the name server does not know the host",
    ),
    Fault(name_servers_down, "problem: cluster: NameServersDown: The Service kube-dns has no"),
    Fault(token_rejected, f"{STREAM}ApiServerUnauthorized: Restarting for 0s: The API server"),
    Fault(
        service_account_recreated,
        f"{STREAM}ServiceAccountRecreated: Restarting for 0s: The ServiceAccount",
    ),
    Fault(driver_killed, f"{STREAM}DriverKilled: Restarting for 0s: The driver exited and"),
    Fault(executor_out_of_memory, f"{STREAM}OOMKilled: The executor flags-exec-1 used more memory"),
    Fault(unschedulable, f"{STREAM}Unschedulable: The pod flags-driver-0 waits: 0/1 nodes are"),
    Fault(
        unschedulable_with_late_binding,
        f"{STREAM}Unschedulable: The pod flags-driver-0 waits: 0/1 nodes are",
    ),
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


@pytest.mark.proves("on-call.md#doctor")
@pytest.mark.parametrize(
    ("settings", "streams", "minutes", "is_stale"),
    [
        ({}, 1, 4, True),
        ({"numbersIntervalSeconds": 300}, 1, 4, False),
        ({"numbersIntervalSeconds": 300}, 1, 8, True),
        ({"ofALaterVersion": 1}, 1, 4, True),
        ({}, 8_000, 4, False),
        ({}, 8_000, 7, True),
        ({}, None, 30, False),
        ({}, None, 63, True),
    ],
)
def test_numbers_are_old_by_the_interval_of_the_operator(
    settings: dict[str, Any], streams: int | None, minutes: int, is_stale: bool
) -> None:
    """And by the number of streams: a fleet whose numbers are rare is well."""
    facts = operator_frozen(minutes, operator(**settings), streams)
    found = [each.reason for each in diagnose(facts)]
    assert ("StatusStale" in found) is is_stale, found


@pytest.mark.proves("on-call.md#doctor")
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
