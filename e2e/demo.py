"""`make demo`: a stream on a real cluster, killed and recovered before your eyes."""

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
from testkit.cluster.traffic import Receiver, Sender, create_topics, delete_topics
from testkit.kubernetes.kubectl import Kube, Overdue, wait_for
from testkit.paths import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "fraud-flags.yaml"
NAMESPACE = "demo"
PER_SECOND = 100
AT_MOST = PER_SECOND * 600


def is_flagged(payment: int) -> bool:
    """What `isPaymentFlagged` in the example says, for the proof at the end."""
    return payment % 10 == 3


def payment(number: int) -> str:
    """One payment, stamped with the time it is sent."""
    return json.dumps(
        {"paymentId": number, "amount": 9.5 + number % 90, "n": number, "ms": time.time() * 1000}
    )


def main() -> int:
    """Exit code 0 where every flag arrived, 1 where the demo could not be carried through."""
    installation = install()
    kube = installation.kube(NAMESPACE)
    stream = Stream(kube, yaml.safe_load(EXAMPLE.read_text())["metadata"]["name"])
    try:
        _fresh_start(installation, kube, stream)
        lost = _show(installation, stream)
    except Overdue as error:
        say(f"This took too long:\n{error}")
        return 1
    _what_next(installation)
    return 1 if lost else 0


def _fresh_start(installation: Installation, kube: Kube, stream: Stream) -> None:
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kube.delete(KIND, stream.name)
    kube.delete("pvc", f"{stream.name}-checkpoint")
    delete_topics(installation.kafka.external, "payments", "flags")
    create_topics(installation.kafka.external, payments=4, flags=1)


def _show(installation: Installation, stream: Stream) -> int:
    external = installation.kafka.external
    say(f"$ kubectl apply -f examples/{EXAMPLE.name}")
    watch = Stopwatch()
    stream.kube.run("apply", "-f", str(EXAMPLE))
    stream.wait_ready()
    say(f"Ready after {watch.seconds:.0f} s: {_summary(stream)}")
    with (
        Receiver(external, "flags") as flags,
        Sender(external, "payments", PER_SECOND, AT_MOST, payment) as payments,
        Ticker(payments, flags),
    ):
        time.sleep(12)
        say("Killing the driver: kubectl delete pod --grace-period=0 --force")
        before, restarts = len(flags.arrivals.counts), stream.restarts("pod")
        watch = Stopwatch()
        faults.delete_driver_pod(stream)
        wait_for(
            "the loss noticed", lambda: stream.restarts("pod") > restarts, 60, stream.situation
        )
        stream.wait_ready()
        say(f"Ready again after {watch.seconds:.0f} s, by itself: {_summary(stream)}")
        time.sleep(6)
        sent = payments.finish()
        expected = [number for number in range(sent) if is_flagged(number)]
        flags.wait_for_all(expected, 60)
        time.sleep(2)  # were there a wrong flag or one more duplicate, it would come now
        return _proof(sent, expected, flags, before)


def _summary(stream: Stream) -> str:
    status = stream.status()
    return (
        f"{status.get('partitions')} partitions, {status.get('cores')} cores, "
        f"epoch {status.get('epoch')}, {status.get('restarts', {}).get('total', 0)} restarts"
    )


def _proof(sent: int, expected: list[int], flags: Receiver, before: int) -> int:
    arrivals = flags.arrivals
    lost = len(arrivals.missing(expected))
    wrong = len(set(arrivals.counts) - set(expected))
    say(
        f"{sent} payments sent, {len(expected)} of them to be flagged: "
        f"{len(arrivals.counts)} flags arrived ({before} before the kill), "
        f"{lost} lost, {wrong} wrong, {arrivals.duplicates} twice (at-least-once: at most one "
        f"epoch is replayed)"
    )
    return lost + wrong


def _what_next(installation: Installation) -> None:
    kubeconfig = installation.cluster.kubeconfig
    say(
        f"""The stream is still there. Try:
  export KUBECONFIG={kubeconfig}
  alias kubectl={installation.cluster.kubectl}
  kubectl -n {NAMESPACE} get cstream -w
  kubectl -n {NAMESPACE} describe cstream fraud-flags
  kubectl -n {NAMESPACE} logs fraud-flags-driver-0 -f
  kubectl -n {NAMESPACE} delete pod -l app.kubernetes.io/component=executor   # and watch it heal
  kubectl -n {NAMESPACE} edit cstream fraud-flags     # add `GROUP BY key`, and read the refusal
Remove everything: make cluster-down"""
    )


class Ticker:
    """Prints once a second what went in, what came out and how long it took."""

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
            say(
                f"  payments in {self._payments.sent:6d}   "
                f"flags out {len(self._flags.arrivals.counts):5d}   {_latency(latencies)}"
            )


def _latency(milliseconds: list[float]) -> str:
    if not milliseconds:
        return "no flags these two seconds"
    ordered = sorted(milliseconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"latency median {statistics.median(ordered):7.1f} ms, 99th percentile {p99:7.1f} ms"


def say(text: str) -> None:
    """One line of the show."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
