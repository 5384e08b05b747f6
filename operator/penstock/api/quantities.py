"""Durations and memory sizes as people write them, in the spellings of Kubernetes and of Spark."""

import re
from decimal import Decimal

# One number and one unit: "500ms", "1s", "1 second", "10 seconds", "5 minutes".
DURATION_PATTERN = r"^[0-9]{1,9} ?(ms|millis|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?)$"
# Kubernetes' CPU quantity: whole cores or thousandths.
CPU_PATTERN = r"^([0-9]{1,4}m|[0-9]{1,3}(\.[0-9]{1,3})?)$"
MEMORY_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)$"

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_BYTES = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
}  # fmt: skip


def milliseconds(duration: str) -> int:
    """A duration in milliseconds; ValueError says which spellings are accepted."""
    if not re.fullmatch(DURATION_PATTERN, duration):
        raise ValueError(f"{duration!r} is not a duration: write for example 500ms, 1s or 5m")
    number, unit = re.fullmatch(r"([0-9]+) ?([a-z]+)", duration).groups()  # type: ignore[union-attr]
    if unit.startswith("milli"):
        return int(number)
    return int(number) * _MILLISECONDS[unit if unit == "ms" else unit[0]]


def mebibytes(memory: str) -> int:
    """A memory quantity in whole MiB, rounded down: Spark takes no fractions."""
    if not re.fullmatch(MEMORY_PATTERN, memory):
        raise ValueError(f"{memory!r} is not a memory size: write for example 512Mi or 2Gi")
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]+)", memory).groups()  # type: ignore[union-attr]
    return int(Decimal(number) * _BYTES[unit] // 2**20)


def cpu(amount: str) -> str:
    """A CPU quantity as it is; ValueError says which spellings are accepted."""
    if not re.fullmatch(CPU_PATTERN, amount):
        raise ValueError(f"{amount!r} is not an amount of CPU: write for example 500m or 2")
    return amount
