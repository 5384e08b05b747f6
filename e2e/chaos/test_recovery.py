"""Faults hit one stream under numbered traffic, one after another; no record is lost.

`make test` makes those of every day. `make test-all` makes all of them, and a person answers the
alerts: a real Prometheus watches the stream.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.chaos import faults
from e2e.chaos.alerting import Alerting
from e2e.chaos.faults import Target
from e2e.chaos.observers import StatusLog, commits_on_node
from e2e.chaos.on_call import Call, PersonOnCall
from testkit.cluster.install import Installation
from testkit.cluster.stream import (
    IN_DRIVER,
    KIND,
    SMALL_EXECUTORS,
    Stopwatch,
    Stream,
    small_stream,
)
from testkit.errors import WaitTimeout
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_to_kafka

pytestmark = pytest.mark.timeout(2400)

PER_SECOND = 50
RECORDS_AT_MOST = PER_SECOND * 2400
PARTITIONS = 4
# What is over by then may have no alert: status, scrape, rule and its wait take two seconds each.
ALERTING_SECONDS = 15.0


@dataclass(frozen=True)
class Fault:
    """One fault: what injects it, how long it lasts, and the restarts that it must cause."""

    name: str
    inject: Callable[[Target], AbstractContextManager[None] | None]
    seconds: float = 0.0
    """How long it lasts; 0 if `inject` does it all."""
    level: str | None = None
    """Where the operator counts a restart: query, process or pod. None if it need not."""
    alert: str = "PenstockStreamNotReady"
    """The alert that must fire, and be resolved after the fault; empty if none must."""
    finds: str = "no alert"
    """What doctor answers when that alert fires: an expression."""
    ends_container: bool = False
    """Whether the container may end with the driver's process, and the kubelet restarts it."""


# Kubernetes restarts a container after a delay that grows with each restart and ends with its pod.
# So the faults that end the driver's process stand between those that replace its pod.
FAULTS = [
    Fault("query failed", faults.fail_query, finds="UserRaisedException: "),
    Fault("driver's JVM killed", faults.kill_jvm, level="process", finds="DriverKilled: "),
    Fault(
        "spec edited while the operator is down",
        faults.edit_without_operator,
        20,
        alert="PenstockOperatorAbsent",
        # It may be back, and at work, when the person asks.
        finds="(OperatorNotReady|RollingOut): ",
    ),
    Fault("suspended and continued", faults.suspended, 2, alert=""),
    Fault(
        "driver's JVM frozen",
        faults.driver_frozen,
        100,
        "process",
        finds="(DriverNotReady: .* is not ready|DriverHung: )",
    ),
    Fault(
        "driver's pod deleted",
        lambda target: target.stream.delete_driver_pod(),
        level="pod",
        finds="DriverPodReplaced: ",
    ),
    Fault(
        "restarted by a person",
        faults.restart,
        finds="(RollingOut|(Driver|Query)(Starting|Stopping)): ",
    ),
    Fault(
        "executor deleted",
        faults.delete_an_executor,
        level="query",
        alert="PenstockStreamCoresShort",
        finds="ExecutorLost: ",
    ),
    Fault(
        "leading operator killed, spec edited",
        faults.edit_while_leader_dies,
        alert="PenstockLeaderLost",
        finds="ok: ",  # another one leads within seconds, and the alert says so
    ),
    Fault(
        "executor out of memory",
        faults.exhaust_an_executor,
        level="query",
        alert="PenstockStreamCoresShort",
        finds="ExecutorOutOfMemory: ",
    ),
    Fault(
        "executor frozen",
        faults.executor_frozen,
        45,
        finds="(ExecutorLost|WaitingForCores): ",
    ),
    Fault(
        "driver out of memory",
        faults.exhaust_driver,
        level="process",
        finds="(OOMKilled|DriverKilled): ",
        ends_container=True,
    ),
    Fault("executor cut off", faults.executor_cut_off, 60, finds="ExecutorLost: "),
    Fault(
        "no DNS, executor deleted",
        faults.no_dns_and_executor_deleted,
        60,
        finds="NameServersDown: ",
    ),
    Fault("kubelet restarted", faults.kubelet_restarted, 2, alert=""),
    Fault(
        "broker killed and moved",
        faults.broker_moved,
        30,  # so long that the alert fires: the stream is not ready after nine seconds
        # The broker may be back before the driver has asked it.
        finds="(BrokerUnreachable: |ok: .* NoProgress: It runs, and)",
    ),
    Fault(
        "no API server, driver's JVM killed",
        faults.no_api_server_and_jvm_killed,
        60,
        # What the operator sees first when it is back: a driver that starts.
        finds="(NoLeader|ApiServerUnreachable|DriverKilled|DriverNotReady): ",
    ),
]

# One for each of the parts that come back: container, pod, executor.
EVERY_DAY = ["driver's JVM killed", "driver's pod deleted", "executor deleted"]
EVERY_DAY_IN_ONE_POD = ["driver's JVM killed", "driver's pod deleted", "driver out of memory"]


@dataclass
class Outcome:
    fault: str
    unready: float | None
    """Seconds from the fault to Ready False; None if the stream stayed Ready."""
    flows: float | None
    """Seconds from the end of the fault until new records of every partition arrived; None if
    that needed help."""
    duplicates: int = 0
    in_doubt: int = 0
    """The most records of one commit in this time: the bound of the duplicates of one replay."""
    said: str = ""
    call: Call = field(default_factory=lambda: Call(""))

    def row(self) -> str:
        unready = "stayed Ready" if self.unready is None else f"{self.unready:5.1f} s"
        flows = "NEVER" if self.flows is None else f"{self.flows:5.1f} s"
        return (
            f"unready after {unready}, flows after {flows}, duplicates {self.duplicates} "
            f"(in doubt {self.in_doubt}); {self.said}"
        )


@pytest.mark.proves(
    1, 2, "failures.md#an-executor-is-frozen-or-cut-off-from-the-network", "on-call.md#doctor"
)
@pytest.mark.parametrize(
    ("executor", "all_faults"),
    [
        pytest.param(SMALL_EXECUTORS, False, id="every day"),
        pytest.param(IN_DRIVER, False, id="every day, in one pod"),
        pytest.param(SMALL_EXECUTORS, True, id="all faults", marks=pytest.mark.full),
        pytest.param(IN_DRIVER, True, id="all faults, in one pod", marks=pytest.mark.full),
    ],
)
def test_nothing_is_lost_whatever_fails(
    executor: Object,
    all_faults: bool,
    request: pytest.FixtureRequest,
    installation: Installation,
    kube: Kube,
    topic: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Every number arrives, the stream flows again by itself, and nothing committed comes twice."""
    alerts: Alerting | None = request.getfixturevalue("alerts") if all_faults else None
    in_one_pod = executor == IN_DRIVER
    every_day = EVERY_DAY_IN_ONE_POD if in_one_pod else EVERY_DAY
    possible = [it for it in FAULTS if not (in_one_pod and "executor" in it.name)]
    chosen = _chosen(possible if all_faults else [it for it in FAULTS if it.name in every_day])
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: PARTITIONS})
    stream = Stream(kube, f"numbers-{topic[-4:]}")
    sql = faults.SQL_THAT_POISON_FAILS
    spec = kafka_to_kafka(
        installation.kafka.internal, source, sink, transform={"sql": sql}, executor=executor
    )
    start = Stopwatch()
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    record_figure("seconds until the first Ready", start.seconds)
    with (
        StatusLog(stream) as status,
        commits_on_node(installation.cluster, stream, tmp_path / "checkpoint") as commits,
        Receiver(external, sink) as out,
        Sender(external, source, PER_SECOND, RECORDS_AT_MOST) as numbers,
    ):
        # A spec has not proved itself until it has committed records: some faults would end it.
        stream.wait_for("the first records committed", stream.has_committed_records, 60)
        target = Target(installation, stream, spec, source, out)
        person = PersonOnCall(installation, stream, alerts) if alerts else None
        outcomes = []
        windows = []
        for fault in chosen:
            began, duplicates = time.time(), out.arrivals.duplicates
            by_kubelet = stream.container_restarts()
            with person.waiting_for(fault.alert) if person else nullcontext(Call("")) as call:
                outcome = _inject(fault, target, numbers, status)
            outcome.call, outcome.duplicates = call, out.arrivals.duplicates - duplicates
            if alerts and call.fired is not None:
                alerts.wait_resolved(call.fired)
            if (
                fault.level == "process" and not fault.ends_container
            ):  # it starts itself anew: the kubelet would wait longer
                assert stream.container_restarts() == by_kubelet
            print(f"{fault.name}: {outcome.row()}\n  {call}", flush=True)
            outcomes.append(outcome)
            windows.append((began, time.time()))
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    for outcome, window in zip(outcomes, windows, strict=True):
        outcome.in_doubt = commits.most_in_doubt(*window)
        record_figure(outcome.fault, outcome.row())
        if alerts:
            record_figure(f"doctor about {outcome.fault}", outcome.call)
    replays = commits.replays_of_committed(
        source,
        numbers.places,
        [copy for copy in out.arrivals.copies if copy.number != faults.POISON_NUMBER],
    )
    record_figure("health in Argo CD", ", ".join(sorted(status.healths())))
    record_figure("records sent", sent)
    record_figure("records lost", len(lost))
    record_figure("committed records written again", len(replays))
    record_figure("pods of executors", len(stream.executors()))
    assert bool(stream.executors()) is not in_one_pod
    kube.delete(KIND, stream.name)
    if len(chosen) == len(possible):
        assert status.healths() == {"Healthy", "Progressing", "Suspended", "Degraded"}
    assert lost == []
    assert replays == []
    assert [outcome.fault for outcome in outcomes if outcome.flows is None] == []
    if alerts:
        assert {
            fault.name: str(outcome.call)
            for fault, outcome in zip(chosen, outcomes, strict=True)
            if not _is_answered(fault, outcome)
        } == {}


def _is_answered(fault: Fault, outcome: Outcome) -> bool:
    """Whether doctor named the cause, or the stream had recovered from a fault of a moment.

    An idle machine recovers from some before an alert can fire (test_alerts.py makes them last).
    """
    answer, flows = str(outcome.call), outcome.flows
    if fault.seconds == 0 and flows is not None:
        is_over = answer.startswith("ok: ")
        is_too_short = outcome.call.fired is None and flows < ALERTING_SECONDS
        if is_over or is_too_short:
            return True
    return re.search(fault.finds, answer) is not None


def _chosen(faults: list[Fault]) -> list[Fault]:
    """Those whose name PENSTOCK_FAULT (an expression) matches; all without it."""
    wanted = os.environ.get("PENSTOCK_FAULT", "")
    return [fault for fault in faults if re.search(wanted, fault.name)]


def _inject(fault: Fault, target: Target, numbers: Sender, status: StatusLog) -> Outcome:
    """Injects a fault, and waits until the stream flows again, or helps it."""
    stream = target.stream
    restarts = stream.restarts(fault.level or "query")
    began = time.time()
    with fault.inject(target) or nullcontext():
        time.sleep(fault.seconds)
    ended = time.time() if fault.seconds else began
    flows: float | None = None
    try:
        if fault.level is not None:
            stream.wait_for(
                f"{fault.name}: a counted restart",
                lambda: stream.restarts(str(fault.level)) > restarts,
                faults.PATIENCE_SECONDS,
            )
        target.wait_until_flows(numbers, fault.name)
        flows = time.time() - ended
        stream.wait_ready(faults.PATIENCE_SECONDS)
    except WaitTimeout as error:
        print(f"\n{fault.name}: {error}")
        stream.delete_driver_pod()
        stream.wait_ready()
        target.wait_until_flows(numbers, "help")
    unready = status.unready_at(began)
    return Outcome(
        fault.name,
        None if unready is None else unready - began,
        flows,
        said=" ".join(status.said(began)),
    )
