"""Who may connect to a stream's pods, and what its driver may do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.contract import naming
from penstock.contract.operator_settings import NetworkPolicies, NetworkPolicyPeer
from penstock.controller.children import rbac_and_network, revision
from penstock.controller.children.rbac_and_network import network_policy
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

MONITORING: NetworkPolicyPeer = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
}


def peers_by_port(policies: NetworkPolicies) -> dict[int | None, Any]:
    """Who may connect to each port; None is every port, or everyone."""
    desired = samples.desired()
    settings = replace(desired.settings, network_policies=policies)
    policy = network_policy(replace(desired, settings=settings))
    assert policy is not None
    spec = policy["spec"]
    assert spec["podSelector"] == {"matchLabels": {naming.LABEL_STREAM: samples.NAME}}
    assert spec["policyTypes"] == ["Ingress"]
    return {
        port["port"]: rule.get("from")
        for rule in spec["ingress"]
        for port in rule.get("ports", [{"port": None}])
    }


def test_only_pods_of_the_stream_reach_the_ports_of_spark() -> None:
    own = [{"podSelector": {"matchLabels": {naming.LABEL_STREAM: samples.NAME}}}]
    assert peers_by_port(NetworkPolicies()) == {
        None: own,
        naming.PROBES_PORT: None,
        naming.METRICS_PORT: None,
    }


def test_metrics_are_for_whom_the_administrator_names() -> None:
    found = peers_by_port(NetworkPolicies(metrics_from=(MONITORING,)))
    assert found[naming.METRICS_PORT] == [MONITORING]
    assert found[naming.PROBES_PORT] is None


def test_another_setting_changes_the_policy_and_restarts_no_driver() -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    for policies in (NetworkPolicies(metrics_from=(MONITORING,)), NetworkPolicies(enabled=False)):
        cluster.settings = replace(cluster.settings, network_policies=policies)
        cluster.restart_operator()
        assert [each for each in cluster.reconcile() if "NetworkPolicy" in each]
        cluster.settle()
    assert "NetworkPolicy flags-driver" not in cluster.children()
    assert len(cluster.drivers_started) == 1


def test_a_driver_may_change_its_own_pod_read_its_own_stream_and_no_secret() -> None:
    rules = rbac_and_network.role(samples.desired())["rules"]
    (patching,) = [each for each in rules if "patch" in each["verbs"]]
    assert patching["resourceNames"] == [naming.driver_pod_name(samples.NAME)]
    (on_secrets,) = [each for each in rules if "secrets" in each["resources"]]
    assert on_secrets["verbs"] == ["create"]
    (on_streams,) = [each for each in rules if "continuousstreams" in each["resources"]]
    assert (on_streams["verbs"], on_streams["resourceNames"]) == (["get", "watch"], [samples.NAME])
    (on_config_maps,) = [each for each in rules if "configmaps" in each["resources"]]
    document = revision.config_map(samples.desired())["metadata"]["name"]
    assert (on_config_maps["verbs"], on_config_maps["resourceNames"]) == (["get"], [document])
    assert len(rules) == 5
    assert not any("*" in each["verbs"] or "update" in each["verbs"] for each in rules)


def test_a_driver_that_will_have_no_executors_creates_nothing() -> None:
    """Whoever may create pods can mount any Secret of the namespace."""
    for mode, creates in (("InDriver", False), ("Auto", True), ("Pods", True)):
        rules = rbac_and_network.role(samples.desired(executor={"mode": mode}))["rules"]
        assert any("create" in each["verbs"] for each in rules) == creates
        # Those of the pod before may still be there.
        assert any({"list", "delete"} <= set(each["verbs"]) for each in rules)
