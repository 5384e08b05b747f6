"""An Application of Argo CD with streams, as its users look at it and act on it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import yaml

from penstock.api import group_version
from testkit.kubernetes.kubectl import Object
from testkit.operations.argo_cd import EXAMPLE, ArgoCd
from testkit.operations.git_repository import GitRepository
from testkit.wait import wait_for

FOLDER = "payments"
"""The folder in Git from which the example's Application takes its streams."""
_EXAMPLE = "payments-streams"


@dataclass(frozen=True)
class Application:
    """One Application, through kubectl and the command `argocd`."""

    argo_cd: ArgoCd
    name: str

    def look(self, *options: str) -> Object:
        """The Application with its resources. `--refresh` compares with Git first."""
        text = self.argo_cd.run("app", "get", self.name, "--output=json", *options)
        found: Object = json.loads(text)
        return found

    def resources(self) -> set[str]:
        """Kind and name of everything that Argo CD manages here."""
        found = self.look()["status"].get("resources", [])
        return {f"{resource['kind']} {resource['name']}" for resource in found}

    def wait_for_sync(self) -> None:
        """Waits until the newest commit is applied, as after a notification by Git's host."""
        self.look("--refresh")
        wait_for(f"{self.name} in sync", self._is_in_sync, detail=self._detail, every=0.5)

    def wait_for_health(self, status: str, words: str = "") -> None:
        """Waits until the Application and its only stream have this health, with these words."""

        def has_health() -> bool:
            found = self.look()["status"]
            (stream,) = found["resources"]
            health = stream.get("health", {})
            return (
                found["health"]["status"] == status
                and health.get("status") == status
                and words in health.get("message", "")
            )

        wait_for(f"{self.name} is {status}: {words}", has_health, detail=self._detail, every=0.5)

    def actions(self) -> dict[str, bool]:
        """The actions for its stream, and whether each is enabled."""
        kind = f"--kind={group_version.KIND}"
        text = self.argo_cd.run("app", "actions", "list", self.name, kind, "--out=json")
        return {action["Action"]: not action["Disabled"] for action in json.loads(text)}

    def act(self, action: str) -> None:
        kind = f"--kind={group_version.KIND}"
        self.argo_cd.run("app", "actions", "run", self.name, action, kind)

    def sync_changes(self) -> list[str]:
        """Every change of its sync status so far, such as "Synced -> OutOfSync"."""
        prefix = "ResourceUpdated: Updated sync status: "
        events = self.argo_cd.kube.events(self.name)
        return [event.removeprefix(prefix) for event in events if event.startswith(prefix)]

    def _is_in_sync(self) -> bool:
        status = self.look()["status"]
        operation = status.get("operationState", {})
        return (status["sync"]["status"], operation.get("phase")) == ("Synced", "Succeeded")

    def _detail(self) -> str:
        return json.dumps(self.look()["status"], indent=1)


def create_application(
    argo_cd: ArgoCd, repository: GitRepository, namespace: str, **automated: bool
) -> Application:
    """Applies the Application of examples/gitops for a repository of our own, and a namespace.

    Keywords are fields of `syncPolicy.automated`.
    """
    documents = yaml.safe_load_all((EXAMPLE / "applications.yaml").read_text())
    (found,) = [document for document in documents if document["metadata"]["name"] == _EXAMPLE]
    found["metadata"]["name"] = namespace
    found["spec"]["source"]["repoURL"] = repository.url
    found["spec"]["destination"]["namespace"] = namespace
    found["spec"]["syncPolicy"]["automated"] |= automated
    argo_cd.kube.apply(found)
    return Application(argo_cd, namespace)
