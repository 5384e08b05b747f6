"""The secret with which a driver and its executors prove to each other that they belong together.

By default Spark hands it to executors in an environment variable of their pods, which everyone who
may read pods can read. Here it is a Secret, which only those who may read Secrets can.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from pathlib import Path
from typing import Any

from penstock.contract import naming
from penstock.driver.kubernetes.api import Api

_BYTES = 32


def prepare(
    file: Path, api: Api, stream: str, pod_name: str, pod_uid: str, suffix: str = ""
) -> str:
    """Makes the secret of this pod, once, and returns the name of the Secret that holds it.

    The file is in a volume that lasts as long as the pod, and Kubernetes deletes the Secret with
    the pod. The name follows from the content: so the driver needs no right to read Secrets, and
    nobody can put another content there before. `suffix` makes another name, for the case that
    somebody did it later.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(secrets.token_hex(_BYTES))
        partial.rename(file)
    content = file.read_bytes()
    name = naming.rpc_secret_name(stream, hashlib.sha256(content).hexdigest()[:10]) + suffix
    api.create_secret(_secret(name, content, stream, pod_name, pod_uid))
    return name


def _secret(name: str, content: bytes, stream: str, pod_name: str, pod_uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": naming.stream_labels(stream, naming.COMPONENT_DRIVER),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_uid}
            ],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {naming.RPC_KEY: base64.b64encode(content).decode()},
    }
