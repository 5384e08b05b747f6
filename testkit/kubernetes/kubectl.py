"""kubectl, as a user would run it, with waits that end."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]


class KubectlError(Exception):
    """kubectl ended with an error; the text is what it printed."""


class Overdue(AssertionError):
    """Something awaited did not come about; the text says what was last seen."""


@dataclass(frozen=True)
class Kube:
    """One cluster, and the namespace that commands mean (none: what the objects say)."""

    kubectl: Path
    kubeconfig: Path
    namespace: str = ""

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """What kubectl prints; KubectlError if it fails."""
        command = [
            str(self.kubectl),
            f"--kubeconfig={self.kubeconfig}",
            *([f"--namespace={self.namespace}"] if self.namespace else []),
        ]  # fmt: skip
        done = subprocess.run(
            [*command, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout
        )
        if done.returncode != 0:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def apply(self, *objects: Object) -> str:
        """kubectl apply of plain objects."""
        return self.run("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> Object | None:
        """One object, or None where there is none of the name."""
        text = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        result: Object | None = json.loads(text) if text.strip() else None
        return result

    def select(self, kind: str, selector: str = "") -> list[Object]:
        """The objects of a kind that carry the labels."""
        text = self.run("get", kind, "-l", selector, "-o", "json")
        items: list[Object] = json.loads(text)["items"]
        return items

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Deletes one object if it is there, and waits until it is gone unless told otherwise."""
        self.run("delete", kind, name, "--ignore-not-found", *options, timeout=240)

    def events(self, name: str) -> list[str]:
        """The events about one object, as "Reason: message"."""
        text = self.run(
            "get", "events", f"--field-selector=involvedObject.name={name}", "-o", "json"
        )
        return [f"{each['reason']}: {each['message']}" for each in json.loads(text)["items"]]


def wait_for(
    what: str, look: Callable[[], Any], timeout: float, detail: Callable[[], str] = lambda: ""
) -> Any:
    """Looks twice a second until `look` gives something true, which is the result.

    Overdue after `timeout` seconds, with what `detail` says of the situation.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            seen, failure = look(), ""
        except KubectlError as error:  # a busy API server may be away for a moment
            seen, failure = None, str(error)
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise Overdue(f"not within {timeout:.0f} s: {what}\n{failure}{detail()}")
        time.sleep(0.5)
