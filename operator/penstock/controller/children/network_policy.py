"""The NetworkPolicy of a stream's pods. Pure."""

from __future__ import annotations

from typing import Any

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.controller.children.desired_stream import DesiredStream
from penstock.controller.children.metadata import build_object


def network_policy(desired: DesiredStream) -> Manifest | None:
    """Who may connect to the stream's pods; None if the administrator wants no such policies.

    Only its own pods reach the ports of Spark: executors connect to the driver, and, to exchange
    the blocks of a shuffle, to each other. Policies add up: another one may allow more.
    """
    if not desired.settings.network_policies:
        return None
    own_pods = {"matchLabels": {naming.LABEL_STREAM: desired.name}}
    peers = [dict(each) for each in desired.settings.metrics_from]
    return {
        **build_object(kinds.NETWORK_POLICY, desired, naming.driver_name(desired.name)),
        "spec": {
            "podSelector": own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": own_pods}],
                    "ports": _ports(naming.DRIVER_PORT, naming.BLOCK_MANAGER_PORT),
                },
                # The kubelet, whose addresses are not known here.
                {"ports": _ports(naming.PROBES_PORT)},
                {**({"from": peers} if peers else {}), "ports": _ports(naming.METRICS_PORT)},
            ],
        },
    }


def _ports(*numbers: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": number} for number in numbers]
