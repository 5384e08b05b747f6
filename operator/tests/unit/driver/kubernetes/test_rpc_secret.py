"""The secret of Spark's RPC: made once for a pod, and never visible in it."""

from __future__ import annotations

import base64
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.objects import Object
from penstock.contract import naming
from penstock.contract.sizing import Size
from penstock.driver.environment import PodEnvironment, pod_environment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes import rpc_secret
from penstock.driver.kubernetes.api import Api
from penstock.driver.spark import executor_pods
from penstock.driver.spark.application import SparkApplication
from testkit.streams import streams
from testkit.wait import wait_for


class Recorder(Api):
    """Records the Secrets that the driver creates."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []

    def pod(self, name: str) -> Object:
        return Object({"metadata": {"name": name, "uid": "uid-1"}})

    def executors(self, stream: str) -> list[str]:
        return []

    def create_secret(self, secret: dict[str, Any]) -> None:
        self.created.append(secret)


def prepare(folder: Path, api: Api) -> str:
    return rpc_secret.prepare(folder / "rpc" / "secret", api, "flags", "flags-driver-0", "uid-1")


def in_a_pod(stream: ContinuousStream) -> PodEnvironment:
    environment = pod_environment(
        {
            naming.ENV_POD_NAME: "numbers-driver-0",
            naming.ENV_POD_IP: "10.0.0.1",
            naming.ENV_POD_HASH: "hash",
            "KUBERNETES_SERVICE_HOST": "10.0.0.2",
            "KUBERNETES_SERVICE_PORT": "443",
        },
        stream,
    )
    assert environment is not None
    return environment


def test_it_is_a_secret_of_the_pod_and_a_file_that_only_the_driver_reads(tmp_path: Path) -> None:
    api = Recorder()
    name = prepare(tmp_path, api)
    (secret,) = api.created
    file = tmp_path / "rpc" / "secret"
    assert secret["metadata"]["name"] == name
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Pod", "uid-1")
    assert secret["immutable"] is True
    assert base64.b64decode(secret["data"]["secret"]) == file.read_bytes()
    assert len(bytes.fromhex(file.read_text())) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() not in name


def test_another_process_in_the_pod_uses_the_same_and_another_pod_makes_its_own(
    tmp_path: Path,
) -> None:
    """A Secret that an interrupted start did not create is created by the next one."""
    names = [prepare(tmp_path / folder, Recorder()) for folder in ("pod", "pod", "other")]
    assert names[0] == names[1] != names[2]
    again = Recorder()
    prepare(tmp_path / "pod", again)
    assert [each["metadata"]["name"] for each in again.created] == [names[0]]


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
def test_it_is_created_again_while_executors_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor whose Secret is gone waits for it, and the driver may not read Secrets.

    If that does not help, somebody may have made it again with another content.
    """
    for name in ("_FIRST_LOOK_SECONDS", "_NEXT_LOOK_SECONDS"):
        monkeypatch.setattr(executor_pods, name, 0.05)
    stream, api = streams.stream(), Recorder()
    environment = replace(in_a_pod(stream), scratch=tmp_path)
    preparation = executor_pods.ClusterPreparation(stream, environment, api)
    preparation.finish(with_executors=True)
    preparation.write_template(keeps_state=False)
    for _ in range(3):
        preparation.look_after(lacks_executors=False)
        time.sleep(0.06)
    assert len(api.created) == 1

    def created(count: int) -> bool:
        preparation.look_after(lacks_executors=True)
        return len(api.created) == count

    wait_for("the Secret again", lambda: created(2), 30)
    assert api.created[0] == api.created[1]
    wait_for("the Secret under another name", lambda: created(3), 30)
    name = api.created[2]["metadata"]["name"]
    assert name.startswith(f"{api.created[0]['metadata']['name']}-")
    assert api.created[2]["data"] == api.created[0]["data"]
    wait_for("the template", lambda: name in environment.executor_template.read_text(), 30)


@pytest.mark.parametrize("keeps_state", [None, True, False])
def test_spark_has_a_template_when_it_starts(keeps_state: bool | None, tmp_path: Path) -> None:
    """Also before it is known whether the query keeps state: Spark then starts without executors,
    and reads the template all the same.
    """
    stream = streams.stream()
    environment = replace(in_a_pod(stream), scratch=tmp_path)
    application = SparkApplication(stream, environment, cast(Jvm, None), Recorder())
    conf = application.before_session(
        Size(partitions=2, executors=2, cores_per_executor=1, slots=2), keeps_state=keeps_state
    )
    assert (application.requested is None) == bool(conf) == (keeps_state is None)
    mounts = "persistentVolumeClaim" in environment.executor_template.read_text()
    assert mounts == bool(keeps_state)
