"""Random histories of edits, crashes, reports and restarts, with invariants after every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.api.v1alpha1.status import LastFailure, Restarts, StreamState
from penstock.cluster import kinds
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster
from testkit.controller.fake_kubernetes_api import Killed, drop_empty

pytestmark = pytest.mark.proves(26)

GOOD = st.sampled_from(
    [
        {},
        {"executor": {"cores": 2}},
        {"driver": {"resources": {"limits": {"memory": "2Gi"}}}},
        {"checkpoint": {"volume": {"size": "3Gi"}}},
        {"checkpoint": {"volume": {"reclaimPolicy": "Delete"}}},
        {"image": "another:image"},
        {"suspend": True},
        {"restartedAt": "now"},
        {"trigger": {"availableNow": {}}, "ttlSecondsAfterFinished": 9},
        {"driver": {"podTemplate": {"spec": {"tolerations": [], "nodeSelector": {}}}}},
    ]
)
BAD = st.sampled_from(
    [samples.AGGREGATE, {"trigger": {"continuous": {"checkpointInterval": "soon"}}}]
)
KINDS = [
    "ServiceAccount", "RoleBinding", "ConfigMap", "PersistentVolumeClaim", "StatefulSet", "Event",
    "ContinuousStream", "ControllerRevision",
]  # fmt: skip
STATES = st.sampled_from(list(QueryState))


class Histories(RuleBasedStateMachine):
    """One stream, and all that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster()
        self.good = True
        self.seen = Restarts()
        self.uid = ""
        self.replaced = False

    @property
    def paused(self) -> bool:
        annotations = Object(self.cluster.stream).annotations
        return annotations.get(naming.ANNOTATION_PAUSE) == "true"

    @initialize(spec=GOOD)
    def apply_first(self, spec: dict[str, Any]) -> None:
        self.cluster.apply(**spec)

    @rule(spec=GOOD)
    def edit(self, spec: dict[str, Any]) -> None:
        self.cluster.apply(**spec)
        self.good = True

    @rule(spec=GOOD, state=st.sampled_from([QueryState.FAILED, QueryState.STARTING]))
    def edit_with_what_does_not_run(self, spec: dict[str, Any], state: QueryState) -> None:
        """A driver of this spec fails at its start, for good or again and again."""
        failure = LastFailure(
            reason="Boom", message="boom", permanent=True, time=self.cluster.clock.time
        )
        fails = {"state": state, "last_failure": failure}
        self.cluster.fails_with[samples.desired(**spec).spec_hash] = fails
        self.cluster.apply(**spec)
        self.good = True

    @rule()
    def everything_runs_again(self) -> None:
        self.cluster.fails_with.clear()

    @rule()
    def suspend_or_resume(self) -> None:
        spec = dict(self.cluster.stream["spec"])
        spec["suspend"] = not spec.get("suspend", False)
        self.cluster.apply(**spec)

    @rule(paused=st.booleans())
    def pause_or_continue(self, paused: bool) -> None:
        self.cluster.annotate(naming.ANNOTATION_PAUSE, str(paused).lower())

    @rule(spec=BAD)
    def edit_with_an_invalid_spec(self, spec: dict[str, Any]) -> None:
        self.cluster.apply(**spec)
        self.good = False

    @rule(spec=GOOD)
    def delete_and_apply_again(self, spec: dict[str, Any]) -> None:
        self.cluster.delete()
        self.cluster.apply(**spec)
        self.good, self.seen = True, Restarts()

    @rule()
    def replace_by_force(self) -> None:
        """As `kubectl replace --force`: the same spec, as another stream, before anybody looks."""
        spec = self.cluster.stream["spec"]
        self.cluster.delete()
        self.cluster.apply(**spec)
        self.seen = Restarts()

    @rule(chance=st.integers(0, 3))
    @precondition(lambda self: self.good and not self.replaced)
    def a_bad_edit_is_given_up_before_and_after_a_replacement(self, chance: int) -> None:
        """What the operator remembers of the stream before is of no use to the next one.

        Once in some histories, for it takes long.
        """
        if chance:
            return
        self.replaced = True
        spec = dict(self.cluster.stream["spec"])
        failing = {**spec, "queryName": "fails"}
        for _ in range(2):
            self.everything_settles()
            self.edit_with_what_does_not_run(failing, QueryState.FAILED)
            self.everything_settles()
            self.replace_by_force()
            self.cluster.apply(**spec)

    @rule()
    def operator_reconciles(self) -> None:
        """Ready is only True while a pod with the last applied spec exists."""
        behind = self.cluster.behind
        knows_pause = self.paused and not behind
        writes = self.cluster.reconcile()
        if knows_pause:
            assert set(writes) <= {"status", "event"}
        if behind:
            return  # the status is of what the watches have shown
        if self.cluster.api.refuse(self.cluster.stream) is not None:
            return  # the status is older than this reconcile
        conditions = {each.type: each.status for each in self.cluster.status.conditions}
        assert (conditions["Stalled"], conditions["Reconciling"]) != ("True", "True")
        if conditions["Ready"] == "True":
            driver = self.cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
            desired = Object(driver["spec"]["template"]).annotations
            is_let_go = self.cluster.state == StreamState.COMPLETED and self.cluster.pod is None
            assert is_let_go or self.cluster.pod_hash == desired[naming.ANNOTATION_POD_HASH]
        if not self.good:
            assert conditions["Stalled"] == "True" or conditions["Reconciling"] == "True"

    @rule(kind=st.sampled_from(KINDS), code=st.sampled_from([0, 403, 409, 422, 429, 500]))
    def the_api_server_refuses(self, kind: str, code: int) -> None:
        error = ApiError(code, "Refused", "no", retry_after=5 if code == 429 else None)
        self.cluster.api.refuse = lambda each: error if each["kind"] == kind else None

    @rule()
    def the_api_server_recovers(self) -> None:
        self.cluster.api.refuse = lambda _: None

    @rule()
    def the_api_server_drops_empty_values(self) -> None:
        self.cluster.api.mutate = drop_empty

    @rule()
    def the_status_is_lost(self) -> None:
        """As after a restore from a backup. The operator counts anew."""
        stream = self.cluster.stream
        stream.pop("status", None)
        self.cluster.api.put(stream)
        self.seen = Restarts()

    @rule()
    @precondition(lambda self: self.cluster.pod is not None and "status" in self.cluster.pod)
    def the_node_reboots(self) -> None:
        end = {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": None}
        self.cluster.put_pod(
            containerStatuses=[
                samples.container(
                    restartCount=1, state={"running": {}}, lastState={"terminated": end}
                )
            ]
        )

    @rule(number=st.integers(1, 6), side=st.sampled_from(["before", "after"]))
    def operator_dies(self, number: int, side: str) -> None:
        api = self.cluster.api
        api.kill_at = (len(api.writes) + number, side)
        try:
            self.cluster.reconcile()
        except Killed:
            self.cluster.restart_operator()
        api.kill_at = None

    @rule()
    def the_watches_fall_behind(self) -> None:
        self.cluster.fall_behind()

    @rule(count=st.integers(1, 10), times=st.integers(1, 2))
    @precondition(lambda self: self.cluster.behind)
    def the_watches_show_some(self, count: int, times: int) -> None:
        """Perhaps twice, as after a broken connection."""
        self.cluster.show(count, times)

    @rule()
    def the_watches_catch_up(self) -> None:
        self.cluster.catch_up()

    @rule()
    def events_are_lost(self) -> None:
        self.cluster.lose_events()

    @rule()
    def another_operator_takes_over(self) -> None:
        self.cluster.another_operator_takes_over()

    @rule(seconds=st.integers(0, 30))
    def time_passes(self, seconds: int) -> None:
        self.cluster.clock.advance(seconds)

    @rule()
    def cluster_steps(self) -> None:
        self.cluster.step()

    @rule()
    @precondition(lambda self: self.cluster.pod is not None)
    def pod_dies(self) -> None:
        pod = self.cluster.pod
        assert pod is not None
        self.cluster.api.remove(pod)

    @rule(state=STATES, restarts=st.integers(0, 5), permanent=st.booleans())
    @precondition(lambda self: self.cluster.pod is not None and "status" in self.cluster.pod)
    def driver_reports(self, state: QueryState, restarts: int, permanent: bool) -> None:
        failure = LastFailure(
            reason="Boom", message="boom", permanent=permanent, time=self.cluster.clock.time
        )
        self.cluster.report(state=state, query_restarts=restarts, last_failure=failure)

    @rule(times=st.integers(1, 3))
    @precondition(lambda self: self.cluster.pod is not None and "status" in self.cluster.pod)
    def container_restarts(self, times: int) -> None:
        end = {
            "exitCode": 137,
            "reason": "OOMKilled",
            "finishedAt": self.cluster.clock.text(),
        }
        self.cluster.put_pod(
            containerStatuses=[
                samples.container(
                    restartCount=times, state={"running": {}}, lastState={"terminated": end}
                )
            ]
        )

    @rule()
    def everything_settles(self) -> None:
        """A valid stream always converges, and is then not written again."""
        self.cluster.catch_up()
        self.cluster.api.refuse = lambda _: None
        self.cluster.clock.advance(600)
        self.cluster.settle()
        assert self.cluster.reconcile() == []
        stalled = self.cluster.condition("Stalled")
        assert (stalled.status == "True") == (
            (not self.good and not self.paused)
            or self.cluster.state == StreamState.STALLED
            or stalled.reason == "RolledBack"
        )
        assert (self.cluster.condition("Ready").status == "True") == (
            self.cluster.state in (StreamState.RUNNING, StreamState.COMPLETED)
        )

    def teardown(self) -> None:
        """After any history, a valid spec with a working driver becomes Ready."""
        self.cluster.lose_events()
        self.cluster.api.refuse = lambda _: None
        self.cluster.fails_with.clear()
        self.cluster.clock.advance(600)
        self.cluster.annotate(naming.ANNOTATION_PAUSE, "false")
        self.cluster.apply()
        self.cluster.settle()
        pod = self.cluster.pod
        if pod is not None:
            self.cluster.api.remove(pod)
        self.cluster.settle()
        assert self.cluster.state == StreamState.RUNNING, self.cluster.status

    @invariant()
    def never_two_drivers(self) -> None:
        sets = self.cluster.api.of_kind(kinds.STATEFUL_SET)
        assert len(sets) <= 1
        assert all(each["spec"]["replicas"] in (0, 1) for each in sets)

    @invariant()
    def what_was_ready_is_recorded_and_never_given_up(self) -> None:
        raw = self.cluster.stream.get("status", {}).get("rollout", {})
        last = raw.get("lastReadyRevision")
        if last is not None:
            name = naming.revision_name(samples.NAME, last)
            assert self.cluster.api.has(kinds.CONTROLLER_REVISION, name)
            assert "failure" not in raw or raw["revision"] != last

    @invariant()
    def restarts_never_decrease(self) -> None:
        stream = self.cluster.stream
        if stream["metadata"]["uid"] != self.uid:
            self.uid, self.seen = stream["metadata"]["uid"], Restarts()
        if not stream.get("status"):
            return
        now = self.cluster.status.restarts or Restarts()
        assert now.query >= self.seen.query
        assert now.process >= self.seen.process
        assert now.pod >= self.seen.pod
        assert now.total == now.query + now.process + now.pod
        self.seen = now

    @invariant()
    def the_config_map_of_a_pod_exists_as_long_as_the_pod(self) -> None:
        """Unless its StatefulSet is deleted, and the ConfigMap with it."""
        pod, sets = self.cluster.pod, self.cluster.api.of_kind(kinds.STATEFUL_SET)
        owners = {each["metadata"]["uid"] for each in sets}
        if pod is None or Object(pod).owners[0]["uid"] not in owners:
            return
        names = {each["metadata"]["name"] for each in self.cluster.api.of_kind(kinds.CONFIG_MAP)}
        (config,) = [each["configMap"] for each in pod["spec"]["volumes"] if "configMap" in each]
        assert config["name"] in names


Histories.TestCase.settings = settings(
    max_examples=50,  # others in each run
    stateful_step_count=30,
    deadline=None,
    print_blob=True,  # a failure prints what repeats it
    # To shrink a history of this length takes minutes, and the whole one is clear enough.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
TestHistories = Histories.TestCase
