"""`make demo-cluster`: a stream on a real cluster, its driver killed, and the recovery."""

from __future__ import annotations

import sys

import yaml

from demo.payments import EXAMPLE, PARTITIONS, SINK, SOURCE, Count
from demo.steps import kill_and_count, print_line
from testkit.cluster.install import Installation, install
from testkit.cluster.kind_cluster import ensure_cluster
from testkit.cluster.stream import KIND, Stopwatch, Stream
from testkit.errors import ClusterError, WaitTimeout
from testkit.kafka.topic_admin import create_topics, delete_topics
from testkit.kubernetes.kubectl import Kube

NAMESPACE = "demo"


def main(watch_seconds: float = 12) -> int:
    """Shows the flags for some seconds before the fault, and half as long after it.

    Returns 0 if every flag arrived, and 1 if flags were lost or the demo took too long."""
    name = yaml.safe_load(EXAMPLE.read_text())["metadata"]["name"]
    try:
        installation = install(ensure_cluster())
        kube = installation.kube(NAMESPACE)
        stream = Stream(kube, name)
        _remove_earlier_demo(installation, kube, stream)
        count = _run(installation, stream, watch_seconds)
    except WaitTimeout as error:
        print_line(f"The demo took too long:\n{error}")
        return 1
    except ClusterError as error:
        print_line(f"The demo cannot continue: {error}")
        return 1
    print_line(str(count))
    _print_next_steps(installation)
    return 0 if count.is_right else 1


def _remove_earlier_demo(installation: Installation, kube: Kube, stream: Stream) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kube.delete(KIND, stream.name)
    kube.delete("pvc", f"{stream.name}-checkpoint")
    delete_topics(installation.kafka.external, SOURCE, SINK)
    create_topics(installation.kafka.external, {SOURCE: PARTITIONS, SINK: 1})


def _run(installation: Installation, stream: Stream, watch_seconds: float) -> Count:
    print_line(f"$ kubectl apply -f examples/{EXAMPLE.name}")
    watch = Stopwatch()
    stream.kube.run("apply", "-f", str(EXAMPLE))
    stream.wait_ready()
    print_line(f"Ready after {watch.seconds:.0f} s: {_summary(stream)}")
    return kill_and_count(installation.kafka.external, watch_seconds, lambda: _kill_driver(stream))


def _kill_driver(stream: Stream) -> None:
    """Deletes the driver's pod, and waits until the stream is Ready again."""
    print_line("Killing the driver: kubectl delete pod --grace-period=0 --force")
    restarts, watch = stream.restarts("pod"), Stopwatch()
    stream.delete_driver_pod()
    stream.wait_for("a counted restart of the pod", lambda: stream.restarts("pod") > restarts, 60)
    stream.wait_ready()
    print_line(f"Ready again after {watch.seconds:.0f} s, without help: {_summary(stream)}")


def _summary(stream: Stream) -> str:
    status = stream.status()
    cores = status.get("cores", {}).get("registered")
    return (
        f"{status.get('partitions')} partitions, {cores} cores, "
        f"epoch {status.get('epoch')}, {status.get('restarts', {}).get('total', 0)} restarts"
    )


def _print_next_steps(installation: Installation) -> None:
    kubeconfig, kafka = installation.cluster.kubeconfig, installation.kafka
    print_line(
        f"""The stream still runs. Try:
  export KUBECONFIG={kubeconfig}
  alias kubectl={installation.cluster.kubectl}
  kubectl -n {NAMESPACE} get cstream -w
  kubectl -n {NAMESPACE} describe cstream fraud-flags
  kubectl -n {NAMESPACE} logs fraud-flags-driver-0 -f
  kubectl -n {NAMESPACE} delete pod fraud-flags-driver-0  # it recovers
  kubectl -n {NAMESPACE} edit cstream fraud-flags  # add `GROUP BY key`: it is refused
For a stream of your own, with bootstrapServers: {kafka.internal}
  .venv/bin/python -m demo.send {kafka.external} orders < examples/data/payments.jsonl
To remove everything: make cluster-down"""
    )


if __name__ == "__main__":
    sys.exit(main())
