"""The driver's service account and its rights. Pure."""

from __future__ import annotations

from penstock.api import group_version
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.controller.children.desired_stream import DesiredStream
from penstock.controller.children.metadata import build_object


def service_account(desired: DesiredStream) -> Manifest | None:
    """The account of the driver, with whose rights the stream's SQL runs.

    None if the spec names an account of the user. One that was created before is deleted with the
    stream.
    """
    if desired.stream.spec.service_account_name is not None:
        return None
    return build_object(kinds.SERVICE_ACCOUNT, desired, desired.service_account)


def role(desired: DesiredStream) -> Manifest:
    """What a driver may do; docs/rbac.md gives the reasons.

    RBAC can limit a request to a name only if the request has one: `create`, `list`, `watch` and
    `deletecollection` have none, and the names of executors are not known before.
    """
    own_pod = naming.driver_pod_name(desired.name)
    return {
        **build_object(kinds.ROLE, desired, naming.driver_name(desired.name)),
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
            },
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "resourceNames": [own_pod],
                "verbs": ["patch"],
            },
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {
                "apiGroups": [group_version.GROUP],
                "resources": [group_version.PLURAL],
                "resourceNames": [desired.name],
                "verbs": ["get"],
            },
        ],
    }


def role_binding(desired: DesiredStream) -> Manifest:
    """Gives the stream's role to its driver's account."""
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
