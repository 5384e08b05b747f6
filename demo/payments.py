"""The payments of the demo, and which of them the example flags."""

from __future__ import annotations

import json
import time
from pathlib import Path

from testkit.paths import CHECKOUT

EXAMPLE: Path = CHECKOUT / "examples" / "fraud-flags.yaml"
SOURCE, SINK = "payments", "flags"
PARTITIONS = 4
PER_SECOND = 100
AT_MOST = PER_SECOND * 600


def is_flagged(payment: int) -> bool:
    """The condition of `isPaymentFlagged` in the example, for the count at the end."""
    return payment % 10 == 3


def payment(number: int) -> str:
    """One payment, with the time it is sent (ms since 1970)."""
    return json.dumps(
        {"paymentId": number, "amount": 9.5 + number % 90, "n": number, "ms": time.time() * 1000}
    )
