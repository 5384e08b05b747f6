"""What more than one dashboard shows."""

from __future__ import annotations

RUNBOOK = ("Runbook", "https://penstock.dev/docs/runbooks/${__data.fields.alertname}.md")
"""The chart puts its value `prometheusRule.runbookUrl` in the place of this address."""

STATE_COLORS = {
    "Pending": "light-blue",
    "Starting": "light-blue",
    "WaitingForCores": "orange",
    "Running": "green",
    "Restarting": "orange",
    "Stalled": "red",
    "Completed": "blue",
    "Suspending": "text",
    "Suspended": "text",
}


def quantile(share: float, histogram: str) -> str:
    """The quantile of a histogram over all its series."""
    rate = f"rate({histogram}_bucket{{<chosen>}}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by (le) ({rate}))"


def quantiles(histogram: str, *shares: float) -> dict[str, str]:
    """By their legends."""
    return {f"{share:.0%}": quantile(share, histogram) for share in shares}
