"""A fake Kubernetes for the drivers of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.driver.fake_kubelet import Kubelet


@pytest.fixture
def kubelet(class_path: str, tmp_path: Path) -> Iterator[Kubelet]:
    one = Kubelet(class_path, tmp_path)
    one.add("numbers-driver-0", {"app": "driver"})
    yield one
    one.close()
