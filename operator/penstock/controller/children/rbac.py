"""The driver's service account and its rights. Pure."""

from __future__ import annotations

from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children.desired_stream import DesiredStream
from penstock.controller.children.metadata import build_object
from penstock.controller.objects import Manifest


def service_account(desired: DesiredStream) -> Manifest | None:
    """The account of the driver, with whose rights the stream's SQL runs.

    None if the spec names an account of the user. One that was created before is deleted with the
    stream.
    """
    if desired.stream.spec.service_account_name is not None:
        return None
    return build_object(objects.SERVICE_ACCOUNT, desired, desired.service_account)


def role_binding(desired: DesiredStream) -> Manifest:
    """Lets the driver create and delete executor pods in its own namespace."""
    name = naming.driver_name(desired.name)
    return {
        **build_object(objects.ROLE_BINDING, desired, name),
        "roleRef": {
            "apiGroup": objects.ROLE_BINDING.group,
            "kind": "ClusterRole",
            "name": naming.DRIVER_CLUSTER_ROLE,
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": desired.service_account,
                "namespace": desired.namespace,
            }
        ],
    }
