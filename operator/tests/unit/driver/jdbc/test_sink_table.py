"""Which run of a stream the database and the checkpoint have to know, for a driver to write."""

from __future__ import annotations

import pytest

from penstock.driver.failures import DriverError
from penstock.driver.jdbc.sink_table import _refuse_other_run


@pytest.mark.parametrize(
    ("run", "noted", "reason"),
    [
        (5, 5, None),
        (4, 5, None),  # it was noted, and the driver ended before it had taken over
        (6, 5, "TableTakenOver"),
        (3, 5, "DatabaseIsOlder"),
    ],
)
def test_a_run_of_another_copy_is_refused(run: int, noted: int, reason: str | None) -> None:
    if reason is None:
        _refuse_other_run(run, noted)
        return
    with pytest.raises(DriverError) as error:
        _refuse_other_run(run, noted)
    assert error.value.failure.reason == reason
    assert error.value.failure.recoverable
