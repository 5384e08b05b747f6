"""A real Argo CD with examples/gitops: a Git repository on this machine, the operator, a stream.

`make test-all` runs it; `make test` does not, because compiling Argo CD takes minutes.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.control_plane import Namespace
from testkit.kubernetes.api_server import ApiServer
from testkit.operations.argo_cd import ArgoCd, running_argo_cd
from testkit.operations.argo_cd_application import FOLDER, Application, create_application
from testkit.operations.git_repository import GitRepository
from testkit.wait import wait_for_async


@pytest.fixture(scope="module")
def argo_cd(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArgoCd]:
    """Argo CD for all tests; each has an Application of its own."""
    with running_argo_cd(server, tmp_path_factory.mktemp("argo-cd")) as running:
        yield running


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path)
    commit(repository)
    return repository


def commit(git: GitRepository, name: str = samples.NAME, **spec: Any) -> None:
    """Commits a stream. Keywords are fields of its spec."""
    stream = samples.stream(**spec)
    stream["metadata"] = {"name": name}
    git.commit(f"{FOLDER}/{name}.yaml", stream)


async def synced(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace, **automated: bool
) -> Application:
    """The Application of the example, after its first sync."""
    application = await to_thread(create_application, argo_cd, git, space.name, **automated)
    await to_thread(application.wait_for_sync)
    return application


async def run_stream(space: Namespace) -> None:
    await space.run_driver()
    await space.wait_ready()


async def stream(space: Namespace) -> Manifest:
    found = await space.get(kinds.STREAM, samples.NAME)
    assert found is not None
    return found


async def test_argo_cd_creates_the_stream_that_git_holds_and_shows_its_health(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace
) -> None:
    async with space.operator():
        application = await synced(argo_cd, git, space)
        assert (await stream(space))["spec"] == samples.stream()["spec"]
        await run_stream(space)
        await to_thread(application.wait_for_health, "Healthy", "Running")


async def test_each_health_follows_the_stream(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace
) -> None:
    """Argo CD's controller runs the script on the statuses that the operator writes."""
    async with space.operator():
        application = await synced(argo_cd, git, space)
        await to_thread(application.wait_for_health, "Progressing")
        await run_stream(space)
        await to_thread(application.wait_for_health, "Healthy", "Running")
        await space.run_driver(
            state=QueryState.RESTARTING, last_failure=samples.FAILURE, committed=False
        )
        await to_thread(application.wait_for_health, "Degraded", "Boom: The query failed")
        await run_stream(space)
        await to_thread(application.wait_for_health, "Healthy", "Running")
        commit(git, suspend=True)
        await to_thread(application.wait_for_sync)
        await to_thread(application.wait_for_health, "Suspended")


async def test_the_operators_work_is_no_drift(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace
) -> None:
    """Nothing of a stream differs from Git, and Argo CD takes no child for a resource from Git."""
    async with space.operator():
        application = await synced(argo_cd, git, space)
        await run_stream(space)
        await to_thread(application.wait_for_health, "Healthy")
        await to_thread(application.look, "--hard-refresh")
        assert await to_thread(application.resources) == {f"ContinuousStream {samples.NAME}"}
        changes = await to_thread(application.sync_changes)
    assert changes
    assert not [change for change in changes if change.startswith("Synced")]
    assert (await stream(space))["metadata"]["generation"] == 1


async def test_self_heal_reverts_an_edit_of_a_field_that_git_sets(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace
) -> None:
    commit(git, executor={"cores": 1})
    async with space.operator():
        application = await synced(argo_cd, git, space, selfHeal=True)
        await run_stream(space)
        patch = '{"spec": {"executor": {"cores": 2}}}'
        await space.kubectl("patch", "cstream", samples.NAME, "--type=merge", "-p", patch)

        async def reverted() -> bool:
            return bool((await stream(space))["spec"]["executor"] == {"cores": 1})

        await wait_for_async("Argo CD reverts the edit", reverted)
        await to_thread(application.wait_for_sync)
        assert "Synced -> OutOfSync" in await to_thread(application.sync_changes)


async def test_restart_suspend_and_resume_are_actions(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace
) -> None:
    """Argo CD's API server runs the scripts, and what they do is no drift.

    The scripts get an empty map as Lua's empty table, which could as well be a list.
    """
    spec: dict[str, Any] = {"trigger": {"microBatch": {}}}
    commit(git, samples.NAME, **spec)
    async with space.operator():
        application = await synced(argo_cd, git, space)
        await run_stream(space)
        running = {"restart": True, "suspend": True, "resume": False}
        assert await to_thread(application.actions) == running
        old = await space.pod()
        assert old is not None
        await to_thread(application.act, "restart")
        await space.replaced(old)
        await run_stream(space)
        await to_thread(application.act, "suspend")
        await to_thread(application.wait_for_health, "Suspended")
        suspended = {"restart": False, "suspend": False, "resume": True}
        assert await to_thread(application.actions) == suspended
        await wait_for_async("the pod is gone", lambda: _has_no_pod(space))
        await to_thread(application.act, "resume")
        await run_stream(space)
        await to_thread(application.wait_for_health, "Healthy", "Running")
        found = (await stream(space))["spec"]
        assert found.pop("restartedAt")
        assert found == samples.stream(**spec)["spec"]
        changes = await to_thread(application.sync_changes)
    assert not [change for change in changes if change.startswith("Synced")]


async def _has_no_pod(space: Namespace) -> bool:
    return await space.pod() is None


async def test_a_stream_that_is_removed_from_git_is_pruned(
    argo_cd: ArgoCd, git: GitRepository, space: Namespace
) -> None:
    """With its pod. A second stream stays: Argo CD does not empty an Application unasked."""
    commit(git, "stays")
    async with space.operator():
        application = await synced(argo_cd, git, space)
        await run_stream(space)
        git.commit(f"{FOLDER}/{samples.NAME}.yaml", None)
        await to_thread(application.wait_for_sync)
        assert await to_thread(application.resources) == {"ContinuousStream stays"}

        async def gone() -> bool:
            found = await space.get(kinds.STREAM, samples.NAME) or await space.pod()
            return found is None

        await wait_for_async("the stream and its pod are gone", gone)
        assert await space.get(kinds.STREAM, "stays") is not None
