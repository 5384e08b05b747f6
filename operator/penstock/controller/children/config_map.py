"""The ConfigMap with the document that the driver reads. Pure."""

from __future__ import annotations

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.controller.children.desired_stream import DesiredStream
from penstock.controller.children.metadata import build_object


def config_map(desired: DesiredStream) -> Manifest:
    """An immutable ConfigMap with the driver's document, and its hash in the name.

    So a pod of one revision never reads the spec of another, however late the kubelet refreshes
    its volumes.
    """
    return {
        **build_object(
            kinds.CONFIG_MAP, desired, naming.config_name(desired.name, desired.spec_hash)
        ),
        "immutable": True,
        "data": {naming.SPEC_FILE: desired.document},
    }
