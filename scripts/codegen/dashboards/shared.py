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


def quantile(share: float, histogram: str, selector: str) -> str:
    """The quantile of a histogram over all its series."""
    rate = f"rate({histogram}_bucket{{{selector}}}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by (le) ({rate}))"
