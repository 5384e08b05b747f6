"""What the cluster's administrator sets for all streams, with the values of the chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS
from penstock.contract.stream_defaults import NO_DEFAULTS, StreamDefaults
from penstock.controller.work_queue import DEFAULT_LIMITS, QueueLimits
from penstock.validation.rules.pod_security import PodSecurity


@dataclass(frozen=True)
class Settings:
    """The operator's settings; docs/security.md says what they are for."""

    default_image: str
    """The image of streams that name none."""
    watch_namespaces: tuple[str, ...] = ()
    """The namespaces whose streams this operator acts on; empty: all, or those of the selector."""
    watch_namespace_selector: str = ""
    """Selects these namespaces by their labels, as kubectl's --selector does."""
    class_name: str = ""
    """The class of the streams that this operator acts on; empty: those without a class."""
    stream_defaults: StreamDefaults = NO_DEFAULTS
    """Fields of the spec of the streams that do not set them."""
    pod_security: PodSecurity = PodSecurity.RESTRICTED
    """What pod templates may ask for."""
    fixed_user: bool = True
    """Whether drivers run as the user of their image, and not as whom the cluster chooses."""
    network_policies: bool = True
    """Whether each stream gets a NetworkPolicy."""
    metrics_from: tuple[Mapping[str, Any], ...] = ()
    """The NetworkPolicyPeers that may read the metrics of drivers; empty: everyone."""
    numbers_interval: timedelta = timedelta(seconds=NUMBERS_INTERVAL_SECONDS)
    """How often a status gets new numbers, if nothing else changes. Drivers report as often.
    With more than a thousand streams it is rarer."""
    image_max_unavailable: int = 3
    """How many of the streams that name no image get another default image at the same time."""
    queue: QueueLimits = DEFAULT_LIMITS
    """How many streams are reconciled at once, and how often one of them."""
    namespace: str = ""
    """The operator's own namespace; empty outside a cluster."""
