"""Divides a run between the worker processes of pytest-xdist (`pytest -n 2`).

A file stays on one worker, because its tests share fixtures. All of e2e is one worker's, because
there is one cluster; it comes first, because it takes longest and mostly waits.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

CLUSTER_FOLDER = "e2e/"


def share_of(node: str) -> str:
    """The tests that must run on the worker of this one, as a name for all of them."""
    return CLUSTER_FOLDER if node.startswith(CLUSTER_FOLDER) else node.partition("::")[0]


class Workers:
    """The plugin of pytest."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> LoadScopeScheduling:
        """Gives each worker whole shares, in the order in which pytest collects them."""
        config.option.loadscopereorder = False
        return _Shares(config, log)


class _Shares(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
