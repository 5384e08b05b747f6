"""A control plane for each module, and a namespace with a client for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from testkit.controller.control_plane import Namespace, control_plane, namespace
from testkit.kubernetes.api_server import ApiServer


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server with the CRD and the controllers that a stream needs."""
    with control_plane() as server:
        yield server


@pytest.fixture
async def space(server: ApiServer) -> AsyncIterator[Namespace]:
    """A namespace that no other test uses."""
    async with namespace(server) as space:
        yield space
