"""Quantities as Kubernetes spells them, and durations as Kubernetes and Spark spell them.

The parser of quantities is our own: that of the kubernetes client is not in the driver's image.
"""

import re
from decimal import Decimal

# The grammar of resource.Quantity (k8s.io/apimachinery/pkg/api/resource), with a bounded exponent.
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
_FACTORS = {
    "": Decimal(1),
    "n": Decimal(10) ** -9, "u": Decimal(10) ** -6, "m": Decimal(10) ** -3,
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip

NOT_A_SIZE = "not a size of 1Mi or more: write for example 512Mi or 2Gi"
NOT_CPU = "not an amount of CPU: write for example 500m or 2"

# One or more of a number and a unit: "500ms", "1m30s", "1.5h", "1 minute 30 seconds". No days and
# weeks, although Spark has them: the API server compares durations, and CEL's end at hours.
_NUMBER_AND_UNIT = (
    r"[0-9]{1,9}(\.[0-9]{1,3})? ?(ms|millis|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?)"
)
DURATION_PATTERN = rf"^{_NUMBER_AND_UNIT}( ?{_NUMBER_AND_UNIT})*$"
NOT_A_DURATION = "not a duration: write for example 500ms, 5m or 24h"
# What turns Spark's spelling into that of Kubernetes, in this order. CEL does the same with
# replace(), because its duration() reads only the latter.
SPARK_TO_KUBERNETES = (
    (" ", ""),
    ("milliseconds", "ms"), ("millisecond", "ms"), ("millis", "ms"),
    ("seconds", "s"), ("second", "s"), ("sec", "s"),
    ("minutes", "m"), ("minute", "m"), ("min", "m"),
    ("hours", "h"), ("hour", "h"),
)  # fmt: skip
LONGEST_DURATION_MS = 100 * 365 * 24 * 3_600_000
"""A hundred years: what is longer is as good as for ever, and may be no date any more."""
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def amount(quantity: str | int) -> Decimal:
    """A quantity as a number, in its base unit (bytes, cores); ValueError if it is none."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError("not a quantity: write for example 500m, 2 or 1Gi")
    number, suffix = match[1], match[2] or ""
    if suffix in _FACTORS:
        return Decimal(number) * _FACTORS[suffix]
    return Decimal(number).scaleb(int(suffix[1:]))


def in_bytes(quantity: str) -> Decimal:
    """A size in bytes; ValueError below 1Mi, where `m` (a thousandth) was taken for `Mi`."""
    try:
        size = amount(quantity)
    except ValueError as error:
        raise ValueError(NOT_A_SIZE) from error
    if size < 2**20:
        raise ValueError(NOT_A_SIZE)
    return size


def mebibytes(size_in_bytes: Decimal) -> int:
    """Whole MiB, rounded down: Spark takes no fractions."""
    return int(size_in_bytes // 2**20)


def in_cores(quantity: str) -> Decimal:
    """An amount of CPU in cores; ValueError if it is none."""
    try:
        cores = amount(quantity)
    except ValueError as error:
        raise ValueError(NOT_CPU) from error
    if cores < 0:
        raise ValueError(NOT_CPU)
    return cores


def milliseconds(duration: str) -> int:
    """A duration in milliseconds, rounded down, and a hundred years at most; ValueError shows the
    accepted spellings.
    """
    if not re.fullmatch(DURATION_PATTERN, duration):
        raise ValueError(NOT_A_DURATION)
    for spark, kubernetes in SPARK_TO_KUBERNETES:
        duration = duration.replace(spark, kubernetes)
    parts = re.findall(r"([0-9.]+)([a-z]+)", duration)
    total = sum(Decimal(number) * _MILLISECONDS[unit] for number, unit in parts)
    return min(int(total), LONGEST_DURATION_MS)
