"""`penstock logs --follow` over pods that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

import pytest

from penstock.client.reading import logs
from penstock.client.reading.api_client import KubeApi
from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.rest_api import ApiError

KEY = Key("payments", "flags")


class Pods:
    """The API server: one pod of the driver, and its log."""

    def __init__(self) -> None:
        self.uid = "first"
        self.lines = ["2026-01-01T00:00:01Z one"]
        self.opened = 0

    def list(self, kind: Kind, namespace: str, labels: Mapping[str, str]) -> list[Manifest]:
        state = {"name": "driver", "state": {"running": {}}}
        meta = {"name": "flags-driver-0", "namespace": namespace, "uid": self.uid}
        return [{"metadata": meta, "status": {"containerStatuses": [state]}}]

    def log_lines(self, path: str, query: Mapping[str, Any]) -> Iterator[str]:
        self.opened += 1
        if self.opened == 3:
            raise ApiError(400, "BadRequest", "the container is creating")
        if self.opened == 4:  # the StatefulSet has replaced the pod by one of the same name
            self.uid, self.lines = "second", ["2026-01-01T00:00:05Z two"]
        if self.opened == 12:
            self.lines.append("2026-01-01T00:00:09Z three")
        yield from list(self.lines)


def test_a_driver_that_is_replaced_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next pod has its name, and so its log the same path."""
    monkeypatch.setattr(logs, "_POLL_SECONDS", 0.01)
    followed = logs.FollowedLogs(
        cast(KubeApi, Pods()), KEY, logs.LogOptions(follow=True), lambda _: None
    )
    assert [each.text for each in islice(followed.lines(), 3)] == ["one", "two", "three"]
