"""Two operators share a Lease: one acts, and the other takes over when it is silent or stops."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from penstock.cluster import kinds
from testkit.controller.control_plane import Namespace, control_plane
from testkit.controller.operator_process import OperatorProcess
from testkit.kubernetes.api_server import ApiServer
from testkit.plugins.figures import RecordFigure
from testkit.wait import wait_for, wait_for_async

LEASE = "penstock-operator"

_NOT_SENT = re.compile(": 0 NotLeader|: 409 AlreadyExists: another client created it")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the test's own: the processes watch every namespace."""
    with control_plane() as server:
        yield server


@pytest.fixture
def operators(server: ApiServer, tmp_path: Path) -> Iterator[list[OperatorProcess]]:
    """The leader, and the one that waits."""
    options = (f"--lease={LEASE}", "--own-namespace=kube-system")
    started = [OperatorProcess(server, tmp_path / "one.log", *options)]
    wait_for("the first leader", lambda: "leads now" in started[0].log.read_text(), 60)
    started.append(OperatorProcess(server, tmp_path / "two.log", *options))
    wait_for("its health page", lambda: started[1].page(started[1].health, "/healthz"), 60)
    yield started
    for operator in started:
        operator.send(signal.SIGCONT)
        operator.end(signal.SIGKILL)


@pytest.mark.proves(26)
async def test_another_operator_takes_over_and_no_edit_is_lost(
    operators: list[OperatorProcess], space: Namespace, record_figure: RecordFigure
) -> None:
    """The first is frozen, wakes up when the second leads, and leads again when that one stops."""
    first, second = operators

    async def applied(generation: int) -> bool:
        return (await space.status()).get("observedGeneration") == generation

    await space.apply()
    await wait_for_async("the stream applied", lambda: applied(1))
    assert "apply" not in second.log.read_text()

    first.send(signal.SIGSTOP)
    frozen = time.monotonic()
    await space.apply(executor={"cores": 2})
    await wait_for_async("the edit applied by the second", lambda: applied(2), 60)
    record_figure("seconds until another operator takes over", time.monotonic() - frozen)

    before = len(first.log.read_text())
    first.send(signal.SIGCONT)
    await space.delete(kinds.NETWORK_POLICY, "flags-driver")
    await space.apply(executor={"cores": 3})
    await wait_for_async("the next edit applied", lambda: applied(3))
    policy = lambda: space.get(kinds.NETWORK_POLICY, "flags-driver")  # noqa: E731
    await wait_for_async("the policy restored", policy)
    await wait_for_async("the first steps back", lambda: _says(first, "leads no longer"))
    # It may have begun a request that it then kept back; it sent none, unless it leads again,
    # because a machine without time has kept the second from the Lease.
    messages = [json.loads(line)["message"] for line in first.log.read_text()[before:].splitlines()]
    begun, kept_back = _applies(list(takewhile(lambda it: "leads now" not in it, messages)))
    assert begun == kept_back

    stopped = time.monotonic()
    assert second.end(signal.SIGTERM) == 0
    await space.apply(executor={"cores": 4})
    await wait_for_async("the last edit applied by the first", lambda: applied(4), 60)
    record_figure("seconds until it takes over from one that stops", time.monotonic() - stopped)
    operators.remove(second)


def _applies(messages: list[str]) -> tuple[list[str], list[str]]:
    """The requests that an operator began, and those that it did not send.

    It sends none unless it leads, and none for an object that it finds the other has made already.
    """
    applies = [message for message in messages if ": apply " in message]
    kept_back = [_NOT_SENT.split(message)[0] for message in applies if _NOT_SENT.search(message)]
    return [message for message in applies if not _NOT_SENT.search(message)], kept_back


async def _says(operator: OperatorProcess, words: str) -> bool:
    return words in operator.log.read_text()
