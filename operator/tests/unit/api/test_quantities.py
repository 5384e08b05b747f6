"""Durations and memory sizes, in the spellings of Kubernetes and of Spark."""

import pytest

from penstock.api.quantities import mebibytes, milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500), ("1s", 1000), ("1 second", 1000), ("10 seconds", 10_000),
        ("250 milliseconds", 250), ("2m", 120_000), ("5 minutes", 300_000), ("1h", 3_600_000),
        ("0s", 0), ("3 sec", 3000), ("7 min", 420_000), ("20 millis", 20), ("2 hours", 7_200_000),
    ],
)  # fmt: skip
def test_a_duration_in_milliseconds(text: str, expected: int) -> None:
    """Every accepted spelling has the meaning it has in Spark or Kubernetes."""
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["soon", "", "1", "-1s", "1.5s", "1 fortnight", "s", "1s 2s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """The error shows the spellings that are accepted."""
    with pytest.raises(ValueError, match="write for example 500ms, 1s or 5m"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("512Mi", 512), ("1Gi", 1024), ("1.5Gi", 1536), ("1G", 953)]
)
def test_memory_in_whole_mebibytes(text: str, expected: int) -> None:
    """Rounded down, since Spark takes no fractions."""
    assert mebibytes(text) == expected


@pytest.mark.parametrize("text", ["lots", "1", "1gb", "-1Gi", "1 Gi"])
def test_what_is_no_memory_size_is_refused(text: str) -> None:
    """The error shows a spelling that is accepted."""
    with pytest.raises(ValueError, match="write for example 512Mi or 2Gi"):
        mebibytes(text)
