"""What somebody may do by hand to each object of a running stream, and what must follow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.chaos.faults import Target
from penstock.contract import naming
from testkit.cluster.install import NAMESPACE, OPERATOR
from testkit.cluster.stream import KIND
from testkit.kubernetes.kubectl import Kube, Object

USERS_SECRET = "rack"
_FROM_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_NO_LABELS = {"labels": None}
_NO_OWNER = {"ownerReferences": None}
_HELD = {"metadata": {"finalizers": ["example.com/held"]}}
_FREE = {"metadata": {"finalizers": None}}


@dataclass(frozen=True)
class ByHand:
    """kubectl on the objects of the stream under traffic."""

    target: Target

    @property
    def kube(self) -> Kube:
        return self.target.stream.kube

    @property
    def operators(self) -> Kube:
        return self.target.installation.kube(NAMESPACE)

    def named(self, kind: str) -> str:
        """The name of the stream's object of a kind."""
        stream = self.target.stream
        match kind:
            case "configmap" | "secret":
                found = self.kube.select(kind, stream.selector)
                newest = max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))
                return str(newest["metadata"]["name"])
            case "pvc":
                return naming.checkpoint_claim_name(stream.name)
            case "pod":
                return stream.driver_pod
            case "executor":
                return str(self.executor()["metadata"]["name"])
            case _ if kind == KIND:
                return stream.name
            case _:
                return naming.driver_name(stream.name)

    def there(self, kind: str) -> Object:
        found = self.kube.get(_of(kind), self.named(kind))
        assert found is not None, kind
        return found

    def delete(self, kind: str, *options: str) -> None:
        self.kube.run("delete", _of(kind), self.named(kind), "--wait=false", *options)

    def patch(self, kind: str, patch: object, *options: str) -> None:
        words = (_of(kind), self.named(kind), "--type=merge", "-p", json.dumps(patch))
        self.kube.run("patch", *words, *options)

    def replace(self, kind: str, **fields: Any) -> None:
        """Deletes an object and creates another one of its name, while the operator is paused."""
        new = self.there(kind)
        for field in _FROM_SERVER:
            new["metadata"].pop(field, None)
        new |= fields
        # Otherwise it would be restored between the two.
        stream = self.target.stream
        self.kube.run("annotate", KIND, stream.name, f"{naming.ANNOTATION_PAUSE}=true")
        stream.wait_for(
            "a paused operator",
            lambda: stream.condition("Reconciling").get("reason") == "ReconciliationPaused",
            60,
        )
        self.kube.run("replace", "--force", "-f", "-", stdin=json.dumps(new))
        self.kube.run("annotate", KIND, stream.name, f"{naming.ANNOTATION_PAUSE}-")

    def run_on_set(self, command: str, subcommand: str, *words: str) -> None:
        """A command of kubectl about the StatefulSet, such as `kubectl rollout restart`."""
        self.kube.run(command, subcommand, f"statefulset/{self.named('statefulset')}", *words)

    def executor(self) -> Object:
        """An executor, once there is one."""
        target = self.target
        target.stream.wait_for("an executor", target.executors, 60)
        return target.executor()

    def delete_executor(self) -> None:
        self.delete("executor", "--grace-period=0", "--force")

    def delete_driver(self) -> None:
        self.delete("pod", "--grace-period=0", "--force")

    def create_users_secret(self) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": USERS_SECRET}}
        self.kube.apply({**secret, "stringData": {"value": "east"}})


def _of(kind: str) -> str:
    return "pod" if kind == "executor" else kind


def shape(found: Object | None) -> Object:
    """What people write of an object: two of the same shape differ in nothing that counts.

    Of a pod its labels and owners: the rest is written by many.
    """
    if found is None:
        return {}
    if found["kind"] == "Pod":
        owners = found["metadata"].get("ownerReferences", [])
        return {"labels": found["metadata"].get("labels"), "owners": [it["name"] for it in owners]}
    meta = {name: v for name, v in found["metadata"].items() if name not in _FROM_SERVER}
    rest = {name: v for name, v in found.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": meta}


@dataclass(frozen=True)
class Act:
    """One thing that somebody does to one object."""

    kind: str
    name: str
    do: Callable[[ByHand], object]
    said: str = ""
    """What a condition must say, if somebody has to act; otherwise it heals."""
    remedy: Callable[[ByHand], object] | None = None
    replaces: str = ""
    """What may be replaced: `driver` (with its executors) or `executor`."""
    restored: bool = True
    """Whether the object of this kind must be as it was."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def _deleted(kind: str, *options: str, replaces: str = "") -> Act:
    name = " ".join(("deleted", *options))
    restored = kind != "executor"
    return Act(
        kind, name, lambda it: it.delete(kind, *options), replaces=replaces, restored=restored
    )


def _patched(kind: str, name: str, patch: object, replaces: str = "") -> Act:
    restored = kind not in ("executor", KIND)
    return Act(kind, name, lambda it: it.patch(kind, patch), replaces=replaces, restored=restored)


def _annotation(name: str, value: str | None) -> Object:
    return {"metadata": {"annotations": {name: value}}}


def _all(*acts: Callable[[ByHand], object]) -> Callable[[ByHand], None]:
    def do(it: ByHand) -> None:
        for each in acts:
            each(it)

    return do


def _held(kind: str, *options: str, replaces: str = "") -> Act:
    return Act(
        kind,
        "deleted, and held by a finalizer",
        _all(lambda it: it.patch(kind, _HELD), lambda it: it.delete(kind, *options)),
        said="example.com/held",
        remedy=lambda it: it.patch(kind, _FREE),
        replaces=replaces,
    )


_RBAC = "rbac.authorization.k8s.io"
_NOBODY = {"kind": "User", "apiGroup": _RBAC, "name": "nobody"}
_VIEW = {"kind": "ClusterRole", "apiGroup": _RBAC, "name": "view"}
_STALLED = {"status": {"state": "Stalled", "conditions": []}}
_STRANGER = json.dumps({"spec": {"holderIdentity": "stranger"}})
_LEASE = ("patch", "lease", OPERATOR, "--type=merge", "-p", _STRANGER)

ACTS = [
    _deleted("role"),
    _patched("role", "without rules", {"rules": []}),
    _patched("role", "without labels and owner", {"metadata": {**_NO_LABELS, **_NO_OWNER}}),
    _held("role"),
    _deleted("rolebinding"),
    _patched("rolebinding", "for another subject", {"subjects": [_NOBODY]}),
    Act(
        "rolebinding",
        "made again for another role",
        lambda it: it.replace("rolebinding", roleRef=_VIEW),
        said="delete it",
        remedy=lambda it: it.delete("rolebinding"),
    ),
    _deleted("networkpolicy"),
    _patched("networkpolicy", "lets nobody in", {"spec": {"ingress": []}}),
    _deleted("configmap"),
    _patched("configmap", "without labels", {"metadata": _NO_LABELS}),
    Act(
        "configmap",
        "made again with another content",
        lambda it: it.replace("configmap", data={naming.SPEC_FILE: "spec: {}"}),
    ),
    _patched("pvc", "without labels", {"metadata": _NO_LABELS}),
    Act(
        "secret",
        "deleted, and an executor",
        _all(lambda it: it.delete("secret"), ByHand.delete_executor),
        replaces="executor",
        restored=False,
    ),
    Act(
        "secret",
        "made again with another content, and an executor deleted",
        _all(
            lambda it: it.replace("secret", data={naming.RPC_KEY: "b3RoZXI="}),
            ByHand.delete_executor,
        ),
        replaces="executor",
        restored=False,
    ),
    _patched("pod", "without pod-hash", _annotation(naming.ANNOTATION_POD_HASH, None)),
    _patched("pod", "another pod-hash", _annotation(naming.ANNOTATION_POD_HASH, "0123456789")),
    _patched("pod", "without report", _annotation(naming.ANNOTATION_REPORT, None)),
    _patched("pod", "a report that cannot be read", _annotation(naming.ANNOTATION_REPORT, "{")),
    _patched("pod", "without labels", {"metadata": _NO_LABELS}),
    _patched("pod", "without owner", {"metadata": _NO_OWNER}),
    _deleted("pod", replaces="driver"),
    _held("pod", "--grace-period=1", replaces="driver"),
    _deleted("executor", "--grace-period=0", "--force", replaces="executor"),
    _patched("executor", "without labels", {"metadata": _NO_LABELS}, replaces="executor"),
    _patched("executor", "without owner", {"metadata": _NO_OWNER}),
    _patched("statefulset", "without labels", {"metadata": _NO_LABELS}),
    _patched("statefulset", "without owner", {"metadata": _NO_OWNER}),
    _deleted("statefulset", "--cascade=orphan"),
    _patched("statefulset", "scaled to 2", {"spec": {"replicas": 2}}),
    _patched("statefulset", "scaled to 0", {"spec": {"replicas": 0}}, replaces="driver"),
    Act(
        "statefulset",
        "another image",
        lambda it: it.run_on_set("set", "image", f"{naming.DRIVER_CONTAINER}=nowhere/other:1"),
        replaces="driver",
    ),
    _deleted("statefulset", replaces="driver"),
    Act(  # it annotates the template, and nobody takes that back
        "statefulset",
        "restarted by kubectl rollout",
        lambda it: it.run_on_set("rollout", "restart"),
        replaces="driver",
        restored=False,
    ),
    _deleted("serviceaccount", replaces="driver"),
    Act(
        "serviceaccount",
        "made again by somebody",
        lambda it: it.replace("serviceaccount", metadata={"name": it.named("serviceaccount")}),
        said="ForeignObject",
        remedy=lambda it: it.delete("serviceaccount"),
        replaces="driver",
    ),
    Act(
        KIND,
        "another status",
        lambda it: it.patch(KIND, _STALLED, "--subresource=status"),
        restored=False,
    ),
    Act(
        KIND,
        "no status",
        lambda it: it.patch(KIND, {"status": None}, "--subresource=status"),
        restored=False,
    ),
    Act(
        "users secret",
        "deleted, and the driver's pod",
        _all(lambda it: it.kube.run("delete", "secret", USERS_SECRET), ByHand.delete_driver),
        said="SecretMissing",
        remedy=ByHand.create_users_secret,
        replaces="driver",
        restored=False,
    ),
    Act(
        "lease",
        "deleted",
        lambda it: it.operators.run("delete", "lease", OPERATOR),
        restored=False,
    ),
    Act("lease", "held by a stranger", lambda it: it.operators.run(*_LEASE), restored=False),
    # The last one: Kubernetes keeps the claim while a pod uses it, and nobody can take this back.
    Act(
        "pvc",
        "deleted",
        lambda it: it.delete("pvc"),
        said="CheckpointTerminating",
        restored=False,
    ),
]
