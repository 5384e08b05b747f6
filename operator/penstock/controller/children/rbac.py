"""Who the driver is to the API server, and what it may do. Pure."""

from __future__ import annotations

from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children.desired_stream import Wanted
from penstock.controller.children.metadata import _object
from penstock.controller.objects import Manifest


def service_account(wanted: Wanted) -> Manifest | None:
    """Who the driver is to the API server, and whose rights the stream's SQL runs with.

    None is made where the user has one; one that was made before goes with its stream.
    """
    if wanted.stream.spec.service_account_name is not None:
        return None
    return _object(objects.SERVICE_ACCOUNT, wanted, wanted.account)


def role_binding(wanted: Wanted) -> Manifest:
    """Lets the driver make and remove executor pods in its own namespace."""
    name = naming.driver_name(wanted.name)
    return {
        **_object(objects.ROLE_BINDING, wanted, name),
        "roleRef": {
            "apiGroup": objects.ROLE_BINDING.group,
            "kind": "ClusterRole",
            "name": naming.DRIVER_CLUSTER_ROLE,
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": wanted.account, "namespace": wanted.namespace}
        ],
    }
