"""Which row of the ledger a driver may take over, by what its checkpoint has noted."""

from __future__ import annotations

import pytest

from penstock.driver.failures import DriverError
from penstock.driver.jdbc.admin import LedgerRow
from penstock.driver.jdbc.ledger_note import LedgerNote
from penstock.driver.jdbc.sink_table import _refuse_other_row

NOTED = LedgerNote(token="before", pending="now", batch=7)


@pytest.mark.parametrize(
    ("token", "batch", "reason"),
    [
        ("now", 7, None),
        ("before", 9, None),  # this driver, or the one before, has ended before it took over
        ("other", 9, "TableTakenOver"),
        ("now", 6, "DatabaseIsOlder"),
        ("other", 6, "DatabaseIsOlder"),
    ],
)
def test_a_row_of_another_copy_is_refused(token: str, batch: int, reason: str | None) -> None:
    row = LedgerRow(id="a", token=token, run=3, batch=batch)
    if reason is None:
        _refuse_other_row(row, NOTED)
        return
    with pytest.raises(DriverError) as error:
        _refuse_other_row(row, NOTED)
    assert error.value.failure.reason == reason
    assert error.value.failure.recoverable
