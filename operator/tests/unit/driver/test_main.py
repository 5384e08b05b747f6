"""What the driver's process gives its loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.stream import Stream
from penstock.driver import main, queries
from penstock.driver.environment import PodEnvironment
from penstock.driver.kubernetes import followed_stream
from penstock.driver.kubernetes.api import Api
from penstock.driver.supervision.query_runtime import QueryRuntime
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.streams.streams import stream


class Loops:
    """Takes the place of the loop, and ends the process."""

    runtime: QueryRuntime
    policy: RestartPolicy

    def __call__(self, runtime: QueryRuntime, policy: RestartPolicy, *_: Any) -> Any:
        self.runtime, self.policy = runtime, policy
        raise KeyboardInterrupt


def manifest(of: ContinuousStream) -> Stream:
    return Stream(of.model_dump(mode="json", by_alias=True, exclude_none=True))


def test_a_driver_in_a_pod_begins_and_goes_on_with_what_its_stream_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its document has no live fields."""
    api, loops, threading = Mock(), Loops(), Mock()
    for name in ("_serve_pages", "_launch", "WriteRight", "Shutdown", "HangGuard"):
        monkeypatch.setattr(main, name, Mock())
    monkeypatch.setattr(followed_stream, "threading", threading)  # no thread runs
    monkeypatch.setattr(queries, "Sampler", Mock())
    monkeypatch.setattr(queries, "Loop", loops)
    monkeypatch.setattr(Api, "in_cluster", Mock(return_value=api))
    api.stream.return_value = manifest(stream(restart={"maxAttempts": 3}))
    api.document.return_value = None
    environment = PodEnvironment("numbers-driver-0", "10.0.0.1", "payments", "hash", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        main.run(stream(), environment)
    assert loops.policy.max_attempts == 3
    edited = manifest(stream(restart={"maxAttempts": 9}))
    api.changes.side_effect = [[edited], KeyboardInterrupt]
    with pytest.raises(KeyboardInterrupt):
        threading.Thread.call_args.kwargs["target"]()
    assert loops.runtime.context.followed.live.restart.max_attempts == 9


def test_a_query_is_the_same_with_other_live_fields() -> None:
    """So what earlier processes have found out about it still holds."""
    same = [
        stream(),
        stream(restart={"maxAttempts": 3, "stableAfter": "5m"}),
        stream(observability={"logLevel": "DEBUG"}),
        stream(restartedAt="now"),
    ]
    assert len({queries._query_hash(each) for each in same}) == 1
    assert queries._query_hash(stream(queryName="other")) != queries._query_hash(stream())
