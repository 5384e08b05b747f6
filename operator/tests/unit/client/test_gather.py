"""What is read of a driver's container, and what is said if that fails.

tests/integration/client has the same commands against a real API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from penstock.client.cluster_facts import ClusterFacts, OperatorFacts, Right
from penstock.client.doctor.diagnosis import diagnose
from penstock.client.reading.api_client import CommandResult, KubeApi
from penstock.client.reading.gather import NoStream, Selection, gather
from penstock.cluster import kinds
from penstock.cluster.kinds import Kind, Manifest
from penstock.cluster.rest_api import ApiError
from penstock.contract.pod_check import BrokerCheck, PodCheck, Reach
from testkit.controller.facts import operator
from testkit.controller.fake_cluster import FakeCluster

REACHED = PodCheck("0.1.0", (BrokerCheck("kafka.kafka:9092", Reach.CONNECTED),))


class Api(KubeApi):
    """Answers with the objects of a cluster in memory, and with one result of exec."""

    def __init__(self, ran: CommandResult | ApiError) -> None:
        cluster = FakeCluster()
        cluster.apply()
        cluster.settle()
        self.commands: list[Sequence[str]] = []
        self._ran = ran
        self.operator: OperatorFacts | None = None
        self.asked: list[tuple[Right, str]] = []
        self._stream = cluster.stream
        self._pods = [cluster.pod]

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        return self._stream if kind is kinds.STREAM and name == "flags" else None

    def serves(self, kind: Kind) -> bool:
        return True

    def list(
        self,
        kind: Kind,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        selector: str = "",
    ) -> list[Manifest]:
        if selector:
            return [{"metadata": {"name": f"of {selector}"}}]
        is_operators = "app.kubernetes.io/name" in (labels or {})
        if kind is kinds.DEPLOYMENT and self.operator is not None:
            return [self.operator.deployment.manifest]
        found = self._pods if kind is kinds.POD and not is_operators else []
        return [each for each in found if each is not None]

    def count(self, kind: Kind) -> int:
        return 1

    def page(self, path: str, seconds: float) -> str:
        raise ApiError(403, "Forbidden", "pods/proxy is forbidden")

    def allows(self, right: Right, user: str = "") -> bool:
        self.asked.append((right, user))
        return True

    def run(
        self, path: str, container: str, command: Sequence[str], seconds: float
    ) -> CommandResult:
        self.commands.append(command)
        if isinstance(self._ran, ApiError):
            raise self._ran
        return self._ran


def read(api: KubeApi) -> ClusterFacts:
    return gather(api, lambda it: it.diagnosis(Selection("default", "flags")))


def test_the_brokers_are_tried_inside_the_drivers_container() -> None:
    """Those of source and sink, each once."""
    api = Api(CommandResult(0, REACHED.to_json()))
    facts = read(api)
    assert facts.streams[0].inside == REACHED
    assert [list(each)[3:] for each in api.commands] == [["kafka.kafka:9092"]]


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (
            CommandResult(1, ""),
            "the image does not have penstock.driver.kafka.pod_check (exit code 1)",
        ),
        (CommandResult(0, "no JSON"), "not the output of penstock.driver.kafka.pod_check"),
        (CommandResult(0, "{}"), "not the output of penstock.driver.kafka.pod_check"),
        (ApiError(403, "Forbidden", "pods/exec is forbidden"), "pods/exec is forbidden"),
    ],
    ids=["older image", "text", "other JSON", "no right"],
)
def test_what_cannot_be_tried_inside_is_not_judged(ran: CommandResult | ApiError, why: str) -> None:
    """No wrong verdict, and everything else is judged."""
    facts = read(Api(ran))
    assert facts.streams[0].inside is None
    said = [each.message for each in diagnose(facts) if each.reason == "NotJudged"]
    (inside,) = [each for each in said if each.startswith("the network inside")]
    assert why in inside
    assert "the driver's metrics cannot be read: pods/proxy is forbidden" in said


def test_a_name_that_does_not_exist_is_no_empty_answer() -> None:
    with pytest.raises(NoStream, match="no stream absent in the namespace default"):
        gather(Api(CommandResult(0, "")), lambda it: it.details(Selection("default", "absent")))


def test_the_namespaces_that_an_operator_selects_are_asked_for() -> None:
    """And whether it may list and watch them."""
    api = Api(CommandResult(0, REACHED.to_json()))
    api.operator = operator(watchNamespaceSelector={"matchLabels": {"streams": "yes"}})
    (found,) = read(api).operators or ()
    assert found.selected == frozenset({"of streams=yes"})
    rights = {(right.verb, right.resource) for right, user in api.asked if user}
    assert {("list", "namespaces"), ("watch", "namespaces")} < rights
    assert ("delete", "networkpolicies") not in rights


def test_an_operator_without_network_policies_is_asked_whether_it_may_delete_them() -> None:
    api = Api(CommandResult(0, REACHED.to_json()))
    api.operator = operator(networkPolicies={"enabled": False})
    read(api)
    rights = {(right.verb, right.resource) for right, user in api.asked if user}
    assert ("delete", "networkpolicies") in rights
