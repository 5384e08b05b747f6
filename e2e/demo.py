"""`make demo`: runs a stream on a real cluster, kills its driver, and shows the recovery."""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time

import yaml

from e2e.chaos import faults
from e2e.cluster_stream import KIND, Stopwatch, Stream
from e2e.install import Installation, install
from testkit.cluster.kind_cluster import ensure_cluster
from testkit.cluster.traffic import Receiver, Sender, create_topics, delete_topics
from testkit.errors import WaitTimeout
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "fraud-flags.yaml"
NAMESPACE = "demo"
PER_SECOND = 100
AT_MOST = PER_SECOND * 600


def is_flagged(payment: int) -> bool:
    """The condition of `isPaymentFlagged` in the example, for the check at the end."""
    return payment % 10 == 3


def payment(number: int) -> str:
    """One payment, with the time it is sent."""
    return json.dumps(
        {"paymentId": number, "amount": 9.5 + number % 90, "n": number, "ms": time.time() * 1000}
    )


def main(watch_seconds: float = 12) -> int:
    """Shows the flags for some seconds before the fault, and half as long after it.

    Returns 0 if every flag arrived, and 1 if flags were lost or the demo took too long."""
    installation = install(ensure_cluster())
    kube = installation.kube(NAMESPACE)
    stream = Stream(kube, yaml.safe_load(EXAMPLE.read_text())["metadata"]["name"])
    try:
        _remove_earlier_demo(installation, kube, stream)
        errors = _run(installation, stream, watch_seconds)
    except WaitTimeout as error:
        print_line(f"The demo took too long:\n{error}")
        return 1
    _print_next_steps(installation)
    return 1 if errors else 0


def _remove_earlier_demo(installation: Installation, kube: Kube, stream: Stream) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kube.delete(KIND, stream.name)
    kube.delete("pvc", f"{stream.name}-checkpoint")
    delete_topics(installation.kafka.external, "payments", "flags")
    create_topics(installation.kafka.external, payments=4, flags=1)


def _run(installation: Installation, stream: Stream, watch_seconds: float) -> int:
    """Runs the demo; returns how many flags were lost or wrong."""
    external = installation.kafka.external
    print_line(f"$ kubectl apply -f examples/{EXAMPLE.name}")
    watch = Stopwatch()
    stream.kube.run("apply", "-f", str(EXAMPLE))
    stream.wait_ready()
    print_line(f"Ready after {watch.seconds:.0f} s: {_summary(stream)}")
    with (
        Receiver(external, "flags") as flags,
        Sender(external, "payments", PER_SECOND, AT_MOST, payment) as payments,
        ProgressPrinter(payments, flags),
    ):
        time.sleep(watch_seconds)
        print_line("Killing the driver: kubectl delete pod --grace-period=0 --force")
        before, restarts = len(flags.arrivals.counts), stream.restarts("pod")
        watch = Stopwatch()
        faults.delete_driver_pod(stream)
        stream.wait_for(
            "a counted restart of the pod", lambda: stream.restarts("pod") > restarts, 60
        )
        stream.wait_ready()
        print_line(f"Ready again after {watch.seconds:.0f} s, without help: {_summary(stream)}")
        time.sleep(watch_seconds / 2)
        sent = payments.finish()
        expected = [number for number in range(sent) if is_flagged(number)]
        flags.wait_for_all(expected, 60)
        time.sleep(2)  # a wrong flag or another duplicate would arrive now
        return _count_errors(sent, expected, flags, before)


def _summary(stream: Stream) -> str:
    status = stream.status()
    cores = status.get("cores", {}).get("registered")
    return (
        f"{status.get('partitions')} partitions, {cores} cores, "
        f"epoch {status.get('epoch')}, {status.get('restarts', {}).get('total', 0)} restarts"
    )


def _count_errors(sent: int, expected: list[int], flags: Receiver, before: int) -> int:
    """Prints what arrived; returns how many flags were lost or wrong."""
    arrivals = flags.arrivals
    lost = len(arrivals.missing(expected))
    wrong = len(set(arrivals.counts) - set(expected))
    print_line(
        f"{sent} payments sent, {len(expected)} of them to flag: "
        f"{len(arrivals.counts)} flags arrived ({before} before the kill), "
        f"{lost} lost, {wrong} wrong, {arrivals.duplicates} duplicates (at-least-once: a restart "
        f"replays at most one epoch)"
    )
    return lost + wrong


def _print_next_steps(installation: Installation) -> None:
    kubeconfig = installation.cluster.kubeconfig
    print_line(
        f"""The stream still runs. Try:
  export KUBECONFIG={kubeconfig}
  alias kubectl={installation.cluster.kubectl}
  kubectl -n {NAMESPACE} get cstream -w
  kubectl -n {NAMESPACE} describe cstream fraud-flags
  kubectl -n {NAMESPACE} logs fraud-flags-driver-0 -f
  kubectl -n {NAMESPACE} delete pod -l app.kubernetes.io/component=executor  # it recovers
  kubectl -n {NAMESPACE} edit cstream fraud-flags  # add `GROUP BY key`: it is refused
To remove everything: make cluster-down"""
    )


class ProgressPrinter:
    """Prints every two seconds the records in, the flags out and their latency."""

    def __init__(self, payments: Sender, flags: Receiver) -> None:
        self._payments, self._flags = payments, flags
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._seen = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(2):
            latencies = self._flags.arrivals.latencies_ms[self._seen :]
            self._seen += len(latencies)
            print_line(
                f"  payments in {self._payments.sent:6d}   "
                f"flags out {len(self._flags.arrivals.counts):5d}   {_latency(latencies)}"
            )


def _latency(milliseconds: list[float]) -> str:
    if not milliseconds:
        return "no flags in these two seconds"
    ordered = sorted(milliseconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"latency median {statistics.median(ordered):7.1f} ms, 99th percentile {p99:7.1f} ms"


def print_line(text: str) -> None:
    """Prints a line at once, also into a pipe."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
