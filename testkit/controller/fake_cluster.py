"""A cluster in memory: API server, garbage collector, StatefulSets, kubelet and driver."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from penstock.api import group_version
from penstock.api.v1alpha1.status import Condition, EditVerdict, StreamStatus
from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.objects import Object
from penstock.cluster.pods import DriverPod
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.kubernetes.object_cache import WATCHED_LABELS, ObjectCache
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.reconciler import Reconciler, StreamChanged
from testkit.controller import samples
from testkit.controller.fake_kubernetes_api import Clock, FakeKubernetesApi, copied

KEY = Key("default", samples.NAME)
# Far more steps than any test needs. A stream that has not settled by then never will.
_MAX_STEPS = 30


class FakeCluster:
    """A cluster with one stream. The operator can be restarted, or away, at any time.

    One `beside` another has the same clock, API server and operator.
    """

    def __init__(self, name: str = samples.NAME, beside: FakeCluster | None = None) -> None:
        self.key = Key("default", name)
        self._first = beside or self
        self.clock: Clock = beside.clock if beside else Clock()
        self.api: FakeKubernetesApi = beside.api if beside else FakeKubernetesApi(self.clock)
        self.metrics = OperatorMetrics()
        self.settings = samples.SETTINGS
        self.drivers_started: list[str] = []
        # Whether the StatefulSet controller keeps a pod that was never ready.
        self.keeps_unready_pods = False
        # Whether a driver takes the edits that are applied.
        self.takes_edits = True
        # What a driver says instead of that it runs, by the hash of its spec.
        self.fails_with: dict[str, dict[str, Any]] = {}
        # A driver whose executors have so many cores fails for good.
        self.breaks_with_cores = 0
        # Images that cannot be pulled.
        self.missing_images: set[str] = set()
        self.failure: Exception | None = None
        # What the watches have yet to show, while they are behind, and what was there before.
        self.behind: list[tuple[str, Manifest]] | None = None
        self._shown_until: list[Manifest] = []
        if beside is None:
            self.api.listeners.append(self._shown)
            self.restart_operator()

    # What people do.

    def apply(self, **spec: Any) -> None:
        """kubectl apply."""
        desired = samples.stream(**spec)
        desired["metadata"]["name"] = self.key.name
        there = self.api.objects.get((group_version.KIND, self.key.namespace, self.key.name))
        fields: Manifest = {"f:metadata": {}, "f:spec": {}}
        edit = {"manager": "kubectl", "time": self.clock.text(), "fieldsV1": fields}
        if there is not None:
            spec, desired = desired["spec"], copied(there)
            if spec == desired["spec"]:
                return
            desired["spec"] = spec
        others = [each for each in Object(desired).managed if each.get("subresource")]
        desired["metadata"]["managedFields"] = [edit, *others]
        self.api.put(desired)

    def annotate(self, annotation: str, value: str) -> None:
        """kubectl annotate --overwrite."""
        stream, manager = self.stream, "kubectl-annotate"
        others = [each for each in Object(stream).managed if each["manager"] != manager]
        written = {"manager": manager, "time": self.clock.text(), "fieldsV1": {"f:metadata": {}}}
        changed = {
            "annotations": {**Object(stream).annotations, annotation: value},
            "managedFields": [*others, written],
        }
        self.api.put({**stream, "metadata": {**stream["metadata"], **changed}})

    def delete(self) -> None:
        """kubectl delete."""
        self.api.remove(self.stream)

    # What the operator does.

    def restart_operator(self) -> None:
        """A new process, which lists all objects at its start."""
        self.behind = None
        self._new_operator(list(self.api.objects.values()))

    def another_operator_takes_over(self) -> None:
        """One that has watched all the time, and whose watches are as far behind."""
        self._new_operator(
            list(self.api.objects.values()) if self.behind is None else self._shown_until
        )

    def _new_operator(self, listed: list[Manifest]) -> None:
        self.cache = ObjectCache(self.api, lambda: self.clock.time.timestamp())
        self._list(listed)
        self.woken: list[Key] = []
        self.reconciler = Reconciler(
            self.api, self.cache, self.metrics, self.settings, self.clock, self.woken.append
        )

    def _list(self, objects: list[Manifest]) -> None:
        watched = list(filter(_is_watched, objects))
        for found in watched:
            self.cache.put(found, listed=True)
        for kind in kinds.CHILDREN:
            same = [found for found in watched if found["kind"] == kind.kind]
            self.cache.retain(kind, "", map(_key, same))

    def fall_behind(self) -> None:
        """From now on the watches show nothing."""
        if self.behind is None:
            self.behind = []
            self._shown_until = copied(list(self.api.objects.values()))

    def show(self, count: int, times: int = 1) -> None:
        """The watches show some of what they are behind, perhaps several times."""
        changes = (self.behind or [])[:count]
        self.behind = (self.behind or [])[count:]
        for _ in range(times):
            for change, found in changes:
                self._show(change, found)

    def show_but(self, kind: Kind) -> None:
        """All watches but one show what they are behind."""
        changes, self.behind = self.behind or [], []
        for change, found in changes:
            if found["kind"] == kind.kind:
                self.behind.append((change, found))
            else:
                self._show(change, found)

    def catch_up(self) -> None:
        """The watches show all that they are behind."""
        if self.behind is not None:
            self.show(len(self.behind))
            self.behind = None

    def lose_events(self) -> None:
        """What the watches are behind is lost, and all is listed anew: as after error 410.

        kopf does not say what a list no longer has.
        """
        self.behind = None
        self._list(list(self.api.objects.values()))

    def _shown(self, change: str, manifest: Manifest) -> None:
        if self.behind is not None:
            self.behind.append((change, copied(manifest)))
        else:
            self._show(change, manifest)

    def _show(self, change: str, manifest: Manifest) -> None:
        if change == "DELETED" or not _is_watched(manifest):
            self.cache.remove(manifest)
        else:
            self.cache.put(manifest)

    def reconcile(self) -> list[str]:
        """Reconciles the stream once, and returns what was written."""
        before = len(self.api.writes)
        try:
            self.reconcile_once()
        except (ApiError, StreamChanged) as error:  # the queue tries again
            self.failure = error
        return self.api.writes[before:]

    def reconcile_once(self) -> timedelta | None:
        """Reconciles the stream once, and raises what fails. Returns when to do it again."""
        return _run(self._first.reconciler.reconcile(self.key))

    def settle(self) -> None:
        """Runs operator and cluster in turn until neither changes anything."""
        for _ in range(_MAX_STEPS):
            self.clock.advance(31)
            wrote, moved = self.reconcile(), self.step()
            if not wrote and not moved:
                return
        raise AssertionError(f"the stream does not settle: {self.api.writes[-20:]}")

    # What the cluster does.

    def step(self) -> bool:
        """Runs all controllers and the kubelet once. Returns whether anything changed."""
        before = self._own_objects()
        self.collect_garbage()
        if self.api.has(kinds.STATEFUL_SET, self._driver):
            owner = self.api.one(kinds.STATEFUL_SET, self._driver)
            if "template" in owner["spec"]:
                self._stateful_set(owner)
        if self.pod is not None:
            self._kubelet_and_driver(self.pod)
        return self._own_objects() != before

    def _own_objects(self) -> list[tuple[str, str]]:
        """The names and versions of the stream and its objects."""
        name = self.key.name
        return [
            (f"{kind} {of}", found["metadata"]["resourceVersion"])
            for (kind, _, of), found in self.api.objects.items()
            if of == name or of.startswith(f"{name}-")
        ]

    def collect_garbage(self) -> None:
        uids = {each["metadata"]["uid"] for each in self.api.objects.values()}
        for each in list(self.api.objects.values()):
            owners = Object(each).owners
            if owners and all(owner["uid"] not in uids for owner in owners):
                self.api.remove(each)

    def _stateful_set(self, owner: Manifest) -> None:
        """Runs one pod of the newest revision, or none. A pod of another is deleted first."""
        template = owner["spec"]["template"]
        text = json.dumps(template, sort_keys=True).encode()
        revision = f"{owner['metadata']['name']}-{hashlib.sha256(text).hexdigest()[:10]}"
        status = {
            "observedGeneration": owner["metadata"]["generation"],
            "updateRevision": revision,
        }
        self.api.put({**owner, "status": status})
        pod = self.pod
        if owner["spec"]["replicas"] == 0:
            if pod is not None:
                self.api.remove(pod)
        elif pod is None:
            self._create_pod(owner, template, revision)
        elif DriverPod(pod).revision != revision and not (
            self.keeps_unready_pods and not DriverPod(pod).ready
        ):
            self.api.remove(pod)

    def _create_pod(self, owner: Manifest, template: Manifest, revision: str) -> None:
        meta = copied(template["metadata"])
        meta["labels"]["controller-revision-hash"] = revision
        meta |= {
            "name": f"{owner['metadata']['name']}-0",
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [{"kind": "StatefulSet", "uid": owner["metadata"]["uid"]}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        self.api.put(pod)
        self.drivers_started.append(DriverPod(pod).pod_hash)

    def _kubelet_and_driver(self, pod: Manifest) -> None:
        """Starts a new pod if everything that it mounts exists. The driver then runs its query.

        It also takes the edits that are applied for its pod.
        """
        report = DriverPod(pod).report
        if not self._mounts_exist(pod):
            return
        if pod["spec"]["containers"][0]["image"] in self.missing_images:
            waiting = {"waiting": {"reason": "ImagePullBackOff"}}
            self.put_pod(
                None, phase="Pending", containerStatuses=[samples.container(state=waiting)]
            )
        elif pod.get("status", {}).get("phase", "Pending") == "Pending":
            self._driver_says(None)
        elif report and self.takes_edits and report.spec_hash != self.applied_hash:
            self._driver_says(report.edit)

    def _driver_says(self, edit: EditVerdict | None) -> None:
        """That it runs what is applied, or what a test makes of that."""
        fails = self.fails_with.get(self.applied_hash, {})
        if self.breaks_with_cores and f"cores: {self.breaks_with_cores}\n" in self._document:
            broken = samples.FAILURE.model_copy(update={"permanent": True})
            fails = {"state": QueryState.FAILED, "last_failure": broken}
        report = samples.report(**{"spec_hash": self.applied_hash, "edit": edit, **fails})
        works = report.state in (QueryState.RUNNING, QueryState.COMPLETED)
        self.put_pod(report, conditions=[{"type": "Ready", "status": str(works)}])

    def _mounts_exist(self, pod: Manifest) -> bool:
        for volume in pod["spec"]["volumes"]:
            config, claim = volume.get("configMap"), volume.get("persistentVolumeClaim")
            if config and not self.api.has(kinds.CONFIG_MAP, config["name"]):
                return False
            if claim and not self.api.has(kinds.CLAIM, claim["claimName"]):
                return False
        return True

    def put_pod(self, report: DriverReport | None = None, **status: Any) -> None:
        """Writes the driver's pod as the kubelet and the driver would."""
        pod = self.pod
        assert pod is not None
        like = samples.driver_pod("", report, **status)
        annotations = {**Object(pod).annotations}
        if report is not None:
            annotations[naming.ANNOTATION_REPORT] = Object(like).annotations[
                naming.ANNOTATION_REPORT
            ]
        meta = {**pod["metadata"], "annotations": annotations}
        self.api.put({**pod, "metadata": meta, "status": like["status"]})

    def report(self, **fields: Any) -> None:
        """Publishes a new report of the driver."""
        pod = self.pod
        assert pod is not None
        self.put_pod(samples.report(**{"spec_hash": self.applied_hash, **fields}))

    # What tests look at.

    @property
    def stream(self) -> Manifest:
        return self.api.one(kinds.STREAM, self.key.name)

    @property
    def _driver(self) -> str:
        return naming.driver_name(self.key.name)

    @property
    def status(self) -> StreamStatus:
        return StreamStatus.model_validate(self.stream["status"])

    @property
    def state(self) -> str:
        return str(self.status.state)

    def condition(self, kind: str) -> Condition:
        return next(each for each in self.status.conditions if each.type == kind)

    @property
    def pod(self) -> Manifest | None:
        name = naming.driver_pod_name(self.key.name)
        return self.api.one(kinds.POD, name) if self.api.has(kinds.POD, name) else None

    @property
    def pod_hash(self) -> str:
        pod = self.pod
        return DriverPod(pod).pod_hash if pod else ""

    @property
    def applied_hash(self) -> str:
        """Of the document that the driver's pod mounts; of what it has read, if that is gone."""
        document = self._document
        return naming.spec_hash(document) if document else DriverPod(self.pod or {}).spec_hash or ""

    @property
    def _document(self) -> str:
        name = naming.config_name(self.key.name, self.pod_hash)
        if not self.api.has(kinds.CONFIG_MAP, name):
            return ""
        return str(self.api.one(kinds.CONFIG_MAP, name)["data"][naming.SPEC_FILE])

    def children(self) -> set[str]:
        """All objects except the stream, and except the records of what was Ready."""
        others = (group_version.KIND, kinds.CONTROLLER_REVISION.kind)
        return {
            f"{each['kind']} {each['metadata']['name']}"
            for each in self.api.objects.values()
            if each["kind"] not in others
        }


# A loop of its own for each reconcile, and the threads of that, would take a sixth of the time.
_runner = asyncio.Runner()


def _run(work: Coroutine[Any, Any, timedelta | None]) -> timedelta | None:
    """`asyncio.run`, in one loop until something fails: a process that dies ends all its tasks."""
    global _runner
    try:
        return _runner.run(work)
    except BaseException:
        _runner.close()
        _runner = asyncio.Runner()
        raise


def _key(manifest: Manifest) -> Key:
    return Object(manifest).key


def _is_watched(manifest: Manifest) -> bool:
    """Whether a watch shows it: of the objects, those of streams, and of pods, the drivers'."""
    found = Object(manifest)
    wanted = WATCHED_LABELS.get(found.kind, {})
    is_of_stream = naming.LABEL_STREAM in found.labels and wanted.items() <= found.labels.items()
    return found.kind is kinds.STREAM or is_of_stream
