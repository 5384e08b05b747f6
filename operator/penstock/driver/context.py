"""What the parts of one driver process share, whatever query runs in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.driver.environment import Environment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.followed_stream import FollowedStream


@dataclass(frozen=True)
class DriverContext:
    """Where the driver runs, and whom it can ask."""

    environment: Environment
    jvm: Jvm
    api: Api | None = None
    """None outside a pod."""
    followed: FollowedStream = field(default_factory=FollowedStream)
    """The stream as it is now; outside a pod nobody changes it."""
