"""The faults that the tests inject into a stream. Those that last do so during a `with` block."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from confluent_kafka import Producer

from penstock.cluster import kinds
from testkit.cluster.access import Cluster
from testkit.cluster.install import NAMESPACE, OPERATOR, Installation
from testkit.cluster.stream import Stream, small_stream
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Object
from testkit.kubernetes.looks import look_at
from testkit.wait import wait_for

# A transient failure in plain SQL: the key of a poisoned record says until when it fails, in
# milliseconds. (rand() is no alternative: the continuous engine gives it a new seed in each epoch.)
POISON = "poison"
# A loaded machine needs some seconds to read it. An idle one fails on it every two seconds, and
# from the tenth failure on the driver waits for minutes (RestartPolicy.max_poison_failures).
POISON_SECONDS = 14.0
SQL_THAT_POISON_FAILS = f"""
SELECT key,
       CASE WHEN CAST(key AS STRING) LIKE '{POISON} %'
             AND CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)
                 < CAST(substring(CAST(key AS STRING), {len(POISON) + 2}) AS BIGINT)
            THEN raise_error('injected failure') ELSE value END AS value
FROM source
"""

# A stream that does not flow by then needs a hand, and fails the test.
PATIENCE_SECONDS = 180.0
# With this many consecutive numbers every partition gets some, since their keys differ.
LATER = 40

# No sender reaches this number.
POISON_NUMBER = 10**9

# The processes of one pod with a name, found on its node by the pod's uid.
_PROCESSES = """
for process in /proc/[0-9]*; do
  grep -qxE '{name}' $process/comm 2>/dev/null || continue
  grep -qE '{uid}|{underscored}' $process/cgroup || continue
  {action}
done
"""

# Take memory in the container of an executor until the kernel kills a process of its cgroup. Each
# of them is smaller than the JVM, which is killed therefore. (Zeros would take no memory.)
_HOGS = """
for hog in 1 2 3 4 5 6; do
  python3 -c 'import time; held = [b"x" * (1 << 20) for _ in range(128)]; time.sleep(60)' &
done
wait
"""


# Packets between two pods of one node may pass its bridge only, and not its firewall.
_PORT = """
timeout 1 bash -c '</dev/tcp/{address}/1' 2>/dev/null
mac=$(ip neigh show to {address} | awk '{{print $5}}')
bridge fdb show | awk -v mac="$mac" '$1 == mac && / master / {{print $3; exit}}'
"""

# Kubernetes removes the pods of a node that is away after five minutes by default. The test only
# shows that it does.
QUICK_EVICTION = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    for taint in ("unreachable", "not-ready")
]


@dataclass(frozen=True)
class Target:
    """The stream under traffic, and what its faults need to know."""

    installation: Installation
    stream: Stream
    spec: Object
    topic: str
    out: Receiver

    @property
    def node(self) -> str:
        return self.installation.cluster.nodes[0]

    def on_node(self, script: str) -> str:
        return self.installation.cluster.on_node(self.node, "bash", "-c", script)

    def jvm(self, pod: Object, action: str) -> str:
        """Runs a shell command on a pod's node for its JVM, in $process."""
        return self.processes(pod, "java", action)

    def processes(self, pod: Object, name: str, action: str) -> str:
        """Runs a shell command on a pod's node for its processes of this name (an expression)."""
        uid = pod["metadata"]["uid"]
        underscored = uid.replace("-", "_")
        script = _PROCESSES.format(uid=uid, underscored=underscored, name=name, action=action)
        return self.installation.cluster.on_node(pod["spec"]["nodeName"], "bash", "-c", script)

    def signal(self, pod: Object, name: str) -> None:
        found = self.jvm(pod, f"kill -{name} ${{process#/proc/}} && echo sent")
        assert found.strip() == "sent", f"{pod['metadata']['name']} has no JVM"

    def driver(self) -> Object:
        pod = self.stream.kube.get("pod", self.stream.driver_pod)
        assert pod is not None
        return pod

    def executors(self) -> list[Object]:
        """The pods of executors that run and stay."""
        return [
            pod
            for pod in self.stream.executors()
            if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"
        ]

    def executor(self) -> Object:
        """The newest one of them."""
        return max(self.executors(), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def wait_until_flows(
        self, numbers: Sender, what: str, seconds: float = PATIENCE_SECONDS
    ) -> None:
        # Partitions keep their order: later numbers arrive after all the replayed ones.
        later = range(numbers.sent, numbers.sent + LATER)
        self.stream.wait_for(
            f"numbers {later} in the sink after: {what}",
            lambda: not self.out.arrivals.missing(later),
            seconds,
        )


def fail_query(target: Target) -> None:
    """Sends a poisoned record; waits until the query has failed on it and then processed it."""
    stream = target.stream
    before = stream.restarts("query")
    producer = Producer(
        {
            "bootstrap.servers": target.installation.kafka.external,
            "acks": "all",
            "log_level": 3,
        }
    )
    value = json.dumps({"n": POISON_NUMBER, "ms": 0})

    def fails() -> bool:
        """Sends a record, and waits until the query fails on it or it has become harmless."""
        until = time.time() + POISON_SECONDS
        producer.produce(target.topic, key=f"{POISON} {int(until * 1000)}", value=value)
        producer.flush(30)
        while stream.restarts("query") == before and time.time() < until + 10:
            time.sleep(0.5)
        return stream.restarts("query") > before

    stream.wait_for("one more restart of the query", fails, 90)
    passed = functools.partial(target.out.arrivals.has, POISON_NUMBER)
    stream.wait_for("the poisoned record out", passed, 120)


def kill_jvm(target: Target) -> None:
    target.signal(target.driver(), "KILL")


def delete_an_executor(target: Target) -> None:
    pod = target.executor()["metadata"]["name"]
    target.stream.kube.run("delete", "pod", pod, "--grace-period=0", "--force")


def exhaust_an_executor(target: Target) -> None:
    """Lets the kernel kill an executor's JVM because its pod needs more memory than its limit."""
    _exhaust(target, target.executor())


def exhaust_driver(target: Target) -> None:
    """The same of the driver's pod."""
    _exhaust(target, target.driver())


def _exhaust(target: Target, pod: Object) -> None:
    target.jvm(pod, "echo 1000 > $process/oom_score_adj")  # it, and not what grows
    with contextlib.suppress(Exception):  # the container ends under the command
        target.stream.kube.run("exec", pod["metadata"]["name"], "--", "sh", "-c", _HOGS)


@contextlib.contextmanager
def suspended(target: Target) -> Iterator[None]:
    stream = target.stream
    stream.edit(suspend=True)
    stream.wait_for(
        "a suspended stream without pods",
        lambda: stream.condition("Ready").get("reason") == "Suspended" and not stream.pods(),
        120,
    )
    yield
    stream.edit(suspend=False)


def restart(target: Target) -> None:
    """Restarts the stream as a person does."""
    before = target.driver()["metadata"]["uid"]
    target.stream.edit(restartedAt=str(time.time()))
    wait_for_another_driver(target, before)


@contextlib.contextmanager
def edit_without_operator(target: Target) -> Iterator[None]:
    """Edits the query while the operator has no pod; then waits until the edited one runs."""
    stream = target.stream
    before = stream.status()["effective"]["revision"]
    with operator_stopped(target):
        edited = {**target.spec, "trigger": {"continuous": {"checkpointInterval": "2s"}}}
        stream.kube.apply(small_stream(stream.name, edited))
        yield
    wait_for_another_revision(target, before)


def edit_while_leader_dies(target: Target) -> None:
    """Kills the operator that leads, and edits the query before another one takes over."""
    before = target.stream.status()["effective"]["revision"]
    kill_leader(target)
    target.stream.edit(trigger={"continuous": {"checkpointInterval": "1s"}})
    wait_for_another_revision(target, before)


def kill_leader(target: Target) -> None:
    """Kills the operator's process that leads; one that was just killed has none for a while."""
    wait_for("the leader's process killed", lambda: _kill_leader(target), 60)


def _kill_leader(target: Target) -> bool:
    kube = replace(target.stream.kube, namespace=NAMESPACE)
    lease = kube.get("lease", OPERATOR)
    assert lease is not None
    pod = kube.get("pod", lease["spec"]["holderIdentity"].rpartition("-")[0])
    assert pod is not None
    # Its children end with it, perhaps before their turn.
    kill = "kill -KILL ${process#/proc/} && echo sent || :"
    return "sent" in target.processes(pod, "penstock|python.*", kill)


def wait_for_another_revision(target: Target, revision: str) -> None:
    def runs() -> bool:
        return bool(target.stream.status()["effective"]["revision"] != revision)

    target.stream.wait_for("another revision", runs, 120)


def wait_for_another_driver(target: Target, uid: str) -> None:
    def replaced() -> bool:
        pod = look_at(target.stream.kube, kinds.POD, target.stream.driver_pod)
        return pod is not None and pod["metadata"]["uid"] != uid

    target.stream.wait_for("another pod of the driver", replaced, 120)


@contextlib.contextmanager
def operator_stopped(target: Target) -> Iterator[None]:
    """The operator's Deployment has no pods during the block."""
    operator = f"deployment/{OPERATOR}"
    with _scaled_to_zero(target, NAMESPACE, operator, "app.kubernetes.io/component=operator"):
        yield


@contextlib.contextmanager
def no_dns_and_executor_deleted(target: Target) -> Iterator[None]:
    """No name is resolved, and an executor dies meanwhile."""
    with _scaled_to_zero(target, "kube-system", "deployment/coredns", "k8s-app=kube-dns"):
        delete_an_executor(target)
        yield


@contextlib.contextmanager
def broker_moved(target: Target) -> Iterator[None]:
    """The broker is killed; later another pod continues with its volume."""
    with _scaled_to_zero(target, "kafka", "statefulset/kafka", "app=kafka"):
        yield


@contextlib.contextmanager
def _scaled_to_zero(target: Target, namespace: str, owner: str, selector: str) -> Iterator[None]:
    """The owner of these pods, such as deployment/NAME, has none during the block."""
    kube = replace(target.stream.kube, namespace=namespace)
    replicas = kube.run("get", owner, "-o", "jsonpath={.spec.replicas}")
    kube.run("scale", owner, "--replicas=0")
    kube.run("delete", "pod", "-l", selector, "--grace-period=0", "--force", "--ignore-not-found")
    wait_for(f"no pod of {owner}", lambda: not kube.select("pods", selector), 60, every=0.5)
    try:
        yield
    finally:
        kube.run("scale", owner, f"--replicas={replicas}")
        kube.run("rollout", "status", owner, "--timeout=120s", timeout=130)


@contextlib.contextmanager
def executor_frozen(target: Target) -> Iterator[None]:
    """An executor's processes get no processor time."""
    with _frozen(target, target.executor()):
        yield


@contextlib.contextmanager
def driver_frozen(target: Target) -> Iterator[None]:
    """The driver's JVM gets no processor time."""
    with _frozen(target, target.driver()):
        yield


@contextlib.contextmanager
def _frozen(target: Target, pod: Object) -> Iterator[None]:
    target.signal(pod, "STOP")
    try:
        yield
    finally:
        target.jvm(pod, "kill -CONT ${process#/proc/}")  # it may be gone


@contextlib.contextmanager
def executor_cut_off(target: Target) -> Iterator[None]:
    """No packet reaches an executor or leaves it."""
    address = target.executor()["status"]["podIP"]
    with firewall_rules(
        target.installation.cluster, *(f"FORWARD {way} {address} -j DROP" for way in ("-s", "-d"))
    ):
        port = target.on_node(_PORT.format(address=address)).strip()
        # A no-op for a network without a bridge, whose packets all pass the firewall.
        close = f"bridge link set dev {port} state 0" if port else ":"
        target.on_node(close)  # the pod still sees a carrier
        try:
            yield
        finally:
            # The port may be gone with the executor, which exits without its driver.
            opened = close.replace("state 0", "state 3")
            target.on_node(f"{opened} || ! ip link show {port}")


@contextlib.contextmanager
def no_api_server_and_jvm_killed(target: Target) -> Iterator[None]:
    """The API server refuses the connections of all pods, and the driver's JVM dies meanwhile."""
    pod = target.driver()
    range_of_pods = target.stream.kube.run(
        "get", "node", target.node, "-o", "jsonpath={.spec.podCIDR}"
    )
    rule = f"INPUT -s {range_of_pods} -p tcp --dport 6443 -j REJECT --reject-with tcp-reset"
    with firewall_rules(target.installation.cluster, rule):
        target.signal(pod, "KILL")
        yield


@contextlib.contextmanager
def firewall_rules(cluster: Cluster, *rules: str) -> Iterator[None]:
    """Rules of the firewall of the node that runs all pods, during the block."""
    node = cluster.nodes[0]
    for rule in rules:
        cluster.on_node(node, "bash", "-c", f"iptables -w -I {rule}")
    try:
        yield
    finally:
        for rule in rules:
            cluster.on_node(node, "bash", "-c", f"iptables -w -D {rule}")


@contextlib.contextmanager
def kubelet_restarted(target: Target) -> Iterator[None]:
    """The kubelet of the node starts again; the containers run on."""
    target.on_node("systemctl restart kubelet")
    time.sleep(1)
    yield
