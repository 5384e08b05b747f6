"""The rights that the operator and a person on call need.

The operator's are those of the chart; `test_reading.py` compares them.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.api import group_version
from penstock.client.cluster_facts import Right

_APPLY = ("get", "list", "watch", "create", "patch")
_RBAC = "rbac.authorization.k8s.io"


def _rights(
    verbs: Iterable[str], resource: str, group: str = "", subresource: str = ""
) -> tuple[Right, ...]:
    return tuple(Right(verb, resource, group, subresource) for verb in verbs)


OF_OPERATOR: tuple[Right, ...] = (
    *_rights(("get", "list", "watch"), group_version.PLURAL, group_version.GROUP),
    *_rights(("patch",), group_version.PLURAL, group_version.GROUP, "status"),
    *_rights(_APPLY, "statefulsets", "apps"),
    *_rights(("get", "list", "create", "patch", "delete"), "controllerrevisions", "apps"),
    *_rights(_APPLY, "serviceaccounts"),
    *_rights(_APPLY, "persistentvolumeclaims"),
    *_rights((*_APPLY, "delete"), "configmaps"),
    *_rights((*_APPLY, "delete", "deletecollection"), "pods"),
    *_rights(("create",), "secrets"),
    *_rights(_APPLY, "roles", _RBAC),
    *_rights(_APPLY, "rolebindings", _RBAC),
    *_rights(_APPLY, "networkpolicies", "networking.k8s.io"),
    *_rights(("create", "list"), "events", "events.k8s.io"),
)

# Only an operator that wants no such policies deletes those of before.
WITHOUT_NETWORK_POLICIES = _rights(("delete",), "networkpolicies", "networking.k8s.io")
OF_NAMESPACE_SELECTOR = _rights(("list", "watch"), "namespaces")

# What the commands read in the streams' namespaces; docs/on-call.md has them, and what is shared.
# With --all-namespaces these are needed in all of them:
OF_LISTS: tuple[Right, ...] = (
    *_rights(("get", "list"), group_version.PLURAL, group_version.GROUP),
    *_rights(("list",), "pods"),
    *_rights(("list",), "statefulsets", "apps"),
    *_rights(("list",), "persistentvolumeclaims"),
    *_rights(("list",), "events", "events.k8s.io"),
    *_rights(("list",), "resourcequotas"),
)
# And these only where there are streams:
OF_STREAMS: tuple[Right, ...] = (
    *_rights(("get",), "pods", subresource="log"),
    *_rights(("get",), "pods", subresource="proxy"),
    # A WebSocket begins with a GET; newer releases ask for create as well.
    *_rights(("get", "create"), "pods", subresource="exec"),
    *_rights(("list",), "controllerrevisions", "apps"),
)
OF_PEOPLE = (*OF_LISTS, *OF_STREAMS)
