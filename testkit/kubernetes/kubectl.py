"""kubectl, as a user runs it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testkit.errors import KubectlError
from testkit.wait import wait_for

Object = dict[str, Any]


@dataclass(frozen=True)
class Kube:
    """Runs kubectl on one cluster, in one namespace (empty: the one that each object names)."""

    kubectl: Path
    kubeconfig: Path
    namespace: str = ""

    def run(self, *arguments: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Runs one command and returns its standard output; KubectlError if it fails."""
        words = [str(word) for word in arguments]
        command = [
            str(self.kubectl),
            f"--kubeconfig={self.kubeconfig}",
            *([f"--namespace={self.namespace}"] if self.namespace else []),
            *words,
        ]
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(
                f"no answer within {timeout:.0f} s from: kubectl {' '.join(words)}"
            ) from error
        if done.returncode != 0:
            printed = done.stderr.strip() or done.stdout.strip()
            raise KubectlError(f"kubectl {' '.join(words)}: {printed}")
        return done.stdout

    def apply(self, *objects: Object) -> str:
        return self.run("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> Object | None:
        """One object, or None if no object has the name."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        result: Object | None = json.loads(text) if text.strip() else None
        return result

    def select(self, kind: str, selector: str = "") -> list[Object]:
        """The objects of a kind (or of several, separated by commas) that carry the labels."""
        text = self.run("get", kind, "-l", selector, "-o", "json")
        items: list[Object] = json.loads(text)["items"]
        return items

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Deletes one object if it exists, and by default waits until it is gone."""
        self.run("delete", kind, name, "--ignore-not-found", *options, timeout=240)

    def wait_until_served(self, resource: str) -> None:
        """Waits until the API server serves a resource type, shortly after its CRD is applied."""
        wait_for(
            f"the API server serves {resource}", lambda: self.run("get", resource, "-o", "json"), 30
        )

    def events(self, name: str) -> list[str]:
        """The events about one object, as "Reason: message"."""
        text = self.run(
            "get", "events", f"--field-selector=involvedObject.name={name}", "-o", "json"
        )
        return [f"{event['reason']}: {event['message']}" for event in json.loads(text)["items"]]
