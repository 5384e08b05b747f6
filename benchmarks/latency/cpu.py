"""CPU seconds of a process with its descendants, and of the machine."""

from __future__ import annotations

import contextlib

import psutil


def cpu_seconds(root: int) -> float:
    """Of the process and its descendants, on Linux also those that have ended."""
    process = psutil.Process(root)
    seconds = 0.0
    for part in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = part.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def machine_seconds() -> tuple[float, float] | None:
    """Those that the hypervisor has withheld since the start, and all; None if it does not say."""
    times = psutil.cpu_times()
    withheld: float | None = getattr(times, "steal", None)  # Linux only
    return None if withheld is None else (withheld, sum(times[:8]))
