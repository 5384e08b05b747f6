"""What the operator's container uses of its memory, by the kernel's own files, at each scrape.

All of its processes count, as they do for the kernel, which ends the container at the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from penstock.controller.metrics import metric_descriptions as described

_ROOT = Path("/sys/fs/cgroup")
# The first version of control groups says "no limit" as nearly 2**63.
_NO_LIMIT = 2**60


@dataclass(frozen=True)
class _Files:
    limit: str
    used: str
    inactive: str
    """The entry of memory.stat: pages of files that the kernel frees before it ends anything."""


_VERSIONS = (
    _Files("memory.max", "memory.current", "inactive_file"),
    _Files("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


class ContainerMemory(Collector):
    """The limit and the working set; no series where there is no limit, or no such file."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._root = root

    def collect(self) -> Iterator[Metric]:
        limit = described.MEMORY_LIMIT.gauge_family()
        used = described.MEMORY_USED.gauge_family()
        for files in _VERSIONS:
            try:
                most, now = self._read(files)
            except (OSError, ValueError):
                continue
            if most < _NO_LIMIT:
                limit.add_metric([], most)
                used.add_metric([], now)
            break
        yield from (limit, used)

    def _read(self, files: _Files) -> tuple[int, int]:
        """Bytes: the limit, and what is used; ValueError if the limit is "max"."""
        used = self._root / files.used
        entries = used.with_name("memory.stat").read_text().splitlines()
        inactive = dict(entry.split(" ", 1) for entry in entries)[files.inactive]
        limit = int((self._root / files.limit).read_text())
        return limit, max(0, int(used.read_text()) - int(inactive))
