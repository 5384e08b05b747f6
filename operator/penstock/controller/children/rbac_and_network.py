"""What a driver may do, and who may connect to a stream's pods. Pure."""

from __future__ import annotations

from typing import Any

from penstock.api import group_version
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at
from penstock.contract import naming
from penstock.controller.children.revision import Revision, build_object


def service_account(desired: Revision) -> Manifest | None:
    """The account of the driver, with whose rights the stream's SQL runs.

    None if the spec names an account of the user. One that was created before is deleted with the
    stream.
    """
    if desired.stream.spec.service_account_name is not None:
        return None
    return build_object(kinds.SERVICE_ACCOUNT, desired, desired.service_account)


def role(desired: Revision) -> Manifest:
    """What a driver may do; docs/rbac.md gives the reasons.

    RBAC can limit a request to a name only if the request has one: `create`, `list` and
    `deletecollection` have none, `watch` only with a field selector (the stream's has one), and
    the names of executors are not known before.
    """
    own_pod = naming.driver_pod_name(desired.name)
    # By the document: a default of the operator's reaches a driver with its next pod only.
    mode = at(desired.spec, "executor", "mode")
    creates = [] if mode == "InDriver" else ["create"]
    return {
        **build_object(kinds.ROLE, desired, naming.driver_name(desired.name)),
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["pods"],
                # Also without executors of its own: those of the pod before may still be there.
                "verbs": ["get", "list", "watch", *creates, "delete", "deletecollection"],
            },
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "resourceNames": [own_pod],
                "verbs": ["patch"],
            },
            *({"apiGroups": [""], "resources": ["secrets"], "verbs": [it]} for it in creates),
            {
                "apiGroups": [group_version.GROUP],
                "resources": [group_version.PLURAL],
                "resourceNames": [desired.name],
                "verbs": ["get", "watch"],
            },
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": [naming.config_name(desired.name, desired.pod_hash)],
                "verbs": ["get"],
            },
        ],
    }


def role_binding(desired: Revision) -> Manifest:
    name = naming.driver_name(desired.name)
    return {
        **build_object(kinds.ROLE_BINDING, desired, name),
        "roleRef": {"apiGroup": kinds.ROLE.group, "kind": kinds.ROLE.kind, "name": name},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": desired.service_account,
                "namespace": desired.namespace,
            }
        ],
    }


def network_policy(desired: Revision) -> Manifest | None:
    """Who may connect to the stream's pods; None if the administrator wants no such policies.

    Only its own pods reach the ports of Spark: executors connect to the driver, and, for a shuffle,
    to each other. In real-time mode each task that writes to a shuffle opens a port that nobody
    can choose, without authentication (StreamingShuffleWriter, Spark 4.3). Policies add up: another
    one may allow more.
    """
    if not desired.settings.network_policies.enabled:
        return None
    own_pods = {"matchLabels": {naming.LABEL_STREAM: desired.name}}
    peers = [dict(peer) for peer in desired.settings.network_policies.metrics_from]
    return {
        **build_object(kinds.NETWORK_POLICY, desired, naming.driver_name(desired.name)),
        "spec": {
            "podSelector": own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": own_pods}]},
                # The kubelet, whose addresses are not known here.
                {"ports": _ports(naming.PROBES_PORT)},
                {**({"from": peers} if peers else {}), "ports": _ports(naming.METRICS_PORT)},
            ],
        },
    }


def _ports(*numbers: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": number} for number in numbers]
