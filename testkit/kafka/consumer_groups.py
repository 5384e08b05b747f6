"""What Kafka's own kafka-consumer-groups shows of a group."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from testkit.kafka.tools import CONSUMER_GROUPS, command

_NONE = "-"


@dataclass(frozen=True)
class Shown:
    """A line of the tool: where a group is in a partition."""

    offset: int
    end: int
    lag: int


def describe(bootstrap: str, group: str) -> dict[tuple[str, int], Shown]:
    """What `kafka-consumer-groups --describe` shows, by topic and partition; empty without it."""
    lines = _run(bootstrap, "--describe", "--group", group)
    header = next((line.split() for line in lines if line.startswith("GROUP ")), None)
    if header is None:
        return {}
    rows = [dict(zip(header, line.split(), strict=False)) for line in lines]
    return {
        (row["TOPIC"], int(row["PARTITION"])): Shown(
            int(row["CURRENT-OFFSET"]), int(row["LOG-END-OFFSET"]), int(row["LAG"])
        )
        for row in rows
        if row.get("GROUP") == group and row["CURRENT-OFFSET"] != _NONE
    }


def delete(bootstrap: str, group: str) -> None:
    """Deletes a group, as a person does; an error of the tool is one of the test."""
    assert any("was successful" in line for line in _run(bootstrap, "--delete", "--group", group))


def _run(bootstrap: str, *arguments: str) -> list[str]:
    asked = [*command(CONSUMER_GROUPS), "--bootstrap-server", bootstrap, *arguments]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    return [line for line in ended.stdout.splitlines() if line.strip()]
