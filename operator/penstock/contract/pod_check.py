"""What `penstock doctor` learns from inside a driver's container.

It runs `MODULE` there, which needs no more than the image has: no other image, no right of the
tenant, and no Secret, since only names and ports are tried. Pure, and without the models, so that
the module costs the container a few megabytes for a moment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

MODULE = "penstock.driver.kafka.pod_check"


class Reach(StrEnum):
    """How far a connection to one broker came."""

    CONNECTED = "Connected"
    NAME_UNKNOWN = "NameUnknown"
    """The name server answers, and does not know the host."""
    NAME_SERVER_SILENT = "NameServerSilent"
    """No name server answered."""
    REFUSED = "Refused"
    """The host answers, and nothing listens at the port."""
    NO_ANSWER = "NoAnswer"
    """Nothing answered in time: a network policy, a firewall, or a host that is away."""


@dataclass(frozen=True)
class BrokerCheck:
    """A broker, and how far a connection to it came."""

    server: str
    """Host and port, as in bootstrapServers."""
    outcome: Reach
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodCheck:
    """What one run of the module found."""

    version: str
    """Of Penstock, in the image."""
    brokers: tuple[BrokerCheck, ...] = ()
    volume_bytes: int = 0
    """The size of the checkpoint's volume; 0 if it is not known."""
    volume_used_bytes: int = 0

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


def command(servers: Sequence[str]) -> list[str]:
    """What to run in the driver's container."""
    return ["python3", "-m", MODULE, *servers]


def parse(text: str) -> PodCheck:
    """Reads what the module printed. ValueError if it is something else."""
    try:
        output: dict[str, Any] = json.loads(text)
        brokers = tuple(
            BrokerCheck(broker["server"], Reach(broker["outcome"]), tuple(broker["addresses"]))
            for broker in output["brokers"]
        )
        return PodCheck(
            str(output["version"]),
            brokers,
            int(output["volume_bytes"]),
            int(output["volume_used_bytes"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not the output of {MODULE}") from error
