"""The secret of Spark's RPC: made once for a pod, and never visible in it."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

from penstock.driver.kubernetes import rpc_secret
from penstock.driver.kubernetes.api import Api


class Recorder(Api):
    """Records the Secrets that the driver creates."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []

    def create_secret(self, secret: dict[str, Any]) -> None:
        self.created.append(secret)


def prepare(folder: Path, api: Api) -> str:
    return rpc_secret.prepare(folder / "rpc" / "secret", api, "flags", "flags-driver-0", "uid-1")


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
