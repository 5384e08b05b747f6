"""The ConfigMap with the resolved spec. Pure."""

from __future__ import annotations

from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children.desired_stream import Wanted
from penstock.controller.children.metadata import _object
from penstock.controller.objects import Manifest


def config_map(wanted: Wanted) -> Manifest:
    """The resolved spec, under a name that carries its hash, and never changed.

    A pod of one revision can therefore never read the document of another, whenever the kubelet
    gets round to refreshing its volumes.
    """
    return {
        **_object(objects.CONFIG_MAP, wanted, naming.config_name(wanted.name, wanted.spec_hash)),
        "immutable": True,
        "data": {naming.SPEC_FILE: wanted.document},
    }
