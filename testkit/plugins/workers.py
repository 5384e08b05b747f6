"""Divides a run between the worker processes of pytest-xdist (`pytest -n 2`).

A file stays on one worker, because its tests share fixtures. All of e2e is one worker's, because
there is one cluster; it comes first, because it takes longest and mostly waits. Whatever it asks
of the processors it gets before the other workers, so that it does not end long after them.
"""

from __future__ import annotations

import os

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

CLUSTER_FOLDER = "e2e/"
# A container engine puts all containers into one control group, and Linux gives that group as much
# time as one busy thread of another process. At this niceness such a thread gets a thirtieth of it.
NICENESS = 15


def share_of(node: str) -> str:
    """The tests that must run on the worker of this one, as a name for all of them."""
    return CLUSTER_FOLDER if node.startswith(CLUSTER_FOLDER) else node.partition("::")[0]


class Workers:
    _is_nice = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Lets the cluster's tests go first, on a worker that runs others."""
        if "PYTEST_XDIST_WORKER" not in os.environ or self._is_nice:
            return
        if share_of(nodeid) != CLUSTER_FOLDER:
            os.nice(NICENESS)
            self._is_nice = True

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
