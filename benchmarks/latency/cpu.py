"""CPU seconds of a process with its descendants, and of the machine, as Linux counts them."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
# Of /proc/PID/stat, after the command in parentheses (proc(5)).
_PARENT, _USED = 1, slice(11, 15)


def cpu_seconds(root: int) -> float | None:
    """Of the process and its descendants, also those that have ended; None without /proc."""
    if not _PROC.is_dir():
        return None
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[_PARENT])
        ticks[pid] = sum(map(int, fields[_USED]))
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def machine_ticks() -> tuple[int, int] | None:
    """Those that the hypervisor has withheld since the machine's start, and all; None without."""
    file = _PROC / "stat"
    if not file.exists():
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal (proc(5)).
    ticks = [int(each) for each in file.read_text().splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)
