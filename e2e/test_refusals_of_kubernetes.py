"""What Kubernetes refuses a stream is said in the stream's status, in Kubernetes' words."""

from __future__ import annotations

import functools
import re

import pytest

from testkit.cluster.stream import KIND, Stream, small_stream
from testkit.kubernetes.kubectl import Kube, Object
from testkit.kubernetes.penstock_command import PenstockCommand
from testkit.streams.streams import RATE_TO_CONSOLE

pytestmark = pytest.mark.timeout(300)

QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-more-pods"},
    "spec": {"hard": {"pods": "0"}},
}
IMAGE = "localhost/penstock/nowhere:1"


@pytest.mark.proves("on-call.md#doctor")
def test_the_status_names_an_unbound_claim_a_missing_image_and_a_quota(kube: Kube) -> None:
    """None of the three streams starts a JVM, so they wait side by side. Doctor names them, too."""
    # Each with the edit, the words of Kubernetes, and what doctor says first.
    refused: dict[str, tuple[Object, str, str]] = {
        "unbound": (
            {"checkpoint": {"volume": {"storageClassName": "no-such-class"}}},
            "unbound immediate PersistentVolumeClaims",
            "ProvisioningFailed: The PersistentVolumeClaim unbound-checkpoint",
        ),
        "unpulled": (
            {"image": IMAGE},
            IMAGE,
            "(ErrImagePull|ImagePullBackOff): The pod unpulled-driver-0 cannot pull its image",
        ),
        "beyond-quota": (
            {},
            "exceeded quota: no-more-pods",
            "FailedCreate: Kubernetes refuses a pod of the StatefulSet",
        ),
    }
    doctor = PenstockCommand(kube.kubeconfig, kube.namespace)
    for name, (edit, _, _) in refused.items():
        if name == "beyond-quota":
            wait_for_pods(kube, "unbound", "unpulled")
            kube.apply(QUOTA)
        kube.apply(small_stream(name, {**RATE_TO_CONSOLE, **edit}))
    for name, (_, words, finds) in refused.items():
        stream = Stream(kube, name)
        wait_until_said(stream, words)
        assert not stream.is_ready()
        assert re.search(finds, doctor.run("doctor", name).first_line)
        kube.delete(KIND, name, "--wait=false")


def wait_until_said(stream: Stream, words: str) -> None:
    """Waits until the message of the condition Ready has these words."""

    def said() -> bool:
        return words in str(stream.condition("Ready").get("message"))

    stream.wait_for(f"{words} in the status", said, 90)


def wait_for_pods(kube: Kube, *names: str) -> None:
    """Waits until the drivers of these streams have their pods."""
    for name in names:
        stream = Stream(kube, name)
        look = functools.partial(kube.get, "pod", stream.driver_pod)
        stream.wait_for("the driver's pod", look, 60)
