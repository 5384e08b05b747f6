"""Tests with real parts on this machine: Spark, a Kafka broker, an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testkit.controller.control_plane import Namespace
    from testkit.kubernetes.api_server import ApiServer


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("real")


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server with the CRD and the controllers that a stream needs."""
    from testkit.controller.control_plane import control_plane

    with control_plane() as server:
        yield server


@pytest.fixture
async def space(server: ApiServer) -> AsyncIterator[Namespace]:
    from testkit.controller.control_plane import namespace

    async with namespace(server) as space:
        yield space
