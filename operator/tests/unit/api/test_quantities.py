"""Durations and quantities, in the spellings of Kubernetes and of Spark."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity
from pydantic import ValidationError

from penstock.api.quantities import (
    LONGEST_DURATION_MS,
    amount,
    in_bytes,
    in_cores,
    mebibytes,
    milliseconds,
)
from penstock.api.v1alpha1.driver_and_executor import ResourceAmounts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500), ("1s", 1000), ("1 second", 1000), ("10 seconds", 10_000),
        ("250 milliseconds", 250), ("2m", 120_000), ("5 minutes", 300_000), ("1h", 3_600_000),
        ("0s", 0), ("3 sec", 3000), ("7 min", 420_000), ("20 millis", 20), ("2 hours", 7_200_000),
        ("1m30s", 90_000), ("1 minute 30 seconds", 90_000), ("1h 1ms", 3_600_001),
        ("1.5s", 1500), ("0.5 hours", 1_800_000), ("0.5ms", 0), ("1 min 1 millisecond", 60_001),
    ],
)  # fmt: skip
def test_a_duration_in_milliseconds(text: str, expected: int) -> None:
    """Every accepted spelling has the meaning it has in Spark or Kubernetes."""
    assert milliseconds(text) == expected


@pytest.mark.parametrize(
    "text",
    ["soon", "", "1", "-1s", "1.s", "1 fortnight", "s", "1s,2s", "1s ", "1  s", "1minutes30"],
)
def test_a_text_that_is_not_a_duration_is_refused(text: str) -> None:
    """The error shows the accepted spellings."""
    with pytest.raises(ValueError, match="write for example 500ms, 5m or 24h"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("512Mi", 512), ("1Gi", 1024), ("1.5Gi", 1536), ("1G", 953), ("1e9", 953), ("1048576", 1)],
)
def test_a_size_in_whole_mebibytes(text: str, expected: int) -> None:
    """Rounded down, since Spark takes no fractions."""
    assert mebibytes(in_bytes(text)) == expected


@pytest.mark.parametrize("text", ["lots", "1", "1gb", "-1Gi", "1 Gi", "512m", "1048575", "0Gi", ""])
def test_a_text_that_is_not_a_size_is_refused(text: str) -> None:
    """The error shows an accepted spelling. `m` means thousandths of a byte."""
    with pytest.raises(ValueError, match="write for example 512Mi or 2Gi"):
        in_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2", "2"), ("500m", "0.5"), ("0.5", "0.5"), (".5", "0.5"), ("0", "0"), ("1e1", "10")],
)
def test_an_amount_of_cpu_in_cores(text: str, expected: str) -> None:
    """Whole cores, fractions and thousandths."""
    assert in_cores(text) == Decimal(expected)


@pytest.mark.parametrize("text", ["half", "", "-1", "500 m", "1,5", "2cores"])
def test_a_text_that_is_not_an_amount_of_cpu_is_refused(text: str) -> None:
    """The error shows the accepted spellings."""
    with pytest.raises(ValueError, match="write for example 500m or 2"):
        in_cores(text)


_SUFFIXES = ["", *"numkMGTPE", *(f"{each}i" for each in "KMGTPE")]


@given(st.decimals(0, 10_000, places=3), st.sampled_from(_SUFFIXES))
def test_a_quantity_has_the_value_that_kubernetes_client_reads(
    number: Decimal, suffix: str
) -> None:
    """Penstock cannot use the client's parser: the driver's image does not have it."""
    text = f"{number}{suffix}"
    assert amount(text) == parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("1e3", 1000), ("1E3", 1000), ("5e-1", "0.5"), ("+1", 1), ("1.", 1)]
)
def test_a_quantity_with_an_exponent_or_a_sign(text: str, expected: object) -> None:
    """The client's parser does not know these, which Kubernetes accepts."""
    assert amount(text) == Decimal(str(expected))


def test_an_integer_and_a_string_mean_the_same() -> None:
    """Int-or-string, as in Kubernetes' own resources."""
    given = ResourceAmounts.model_validate({"cpu": 2, "memory": 2**30})
    assert given == ResourceAmounts(cpu="2", memory="1073741824")
    assert ResourceAmounts.model_validate({"cpu": 2.0}) == ResourceAmounts(cpu="2")


@pytest.mark.parametrize(("cpu", "words"), [(0.5, "in quotes"), (True, "valid string")])
def test_an_unquoted_fraction_and_a_boolean_are_refused(cpu: object, words: str) -> None:
    """The API server refuses them as well."""
    with pytest.raises(ValidationError, match=words):
        ResourceAmounts.model_validate({"cpu": cpu})


@pytest.mark.proves("decisions/bounded-tenants.md")
def test_no_duration_is_beyond_all_dates() -> None:
    """A deadline that is none ended the reconciles of its stream."""
    longest = milliseconds("999999999h " * 5 + "999999999h")
    assert longest == LONGEST_DURATION_MS
    assert datetime.now(UTC) + timedelta(milliseconds=longest)
    assert milliseconds("8760h") == 365 * 24 * 3_600_000
