"""`penstock operator`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

from penstock.command_line import WRONG_USAGE, CommandError, option


def operator(
    *,
    settings: Annotated[
        Path,
        option("YAML with the settings, which are the chart's values of the same names", "FILE"),
    ],
    own_namespace: Annotated[
        str, option("namespace that the operator runs in; streams in it are refused", "NAME")
    ] = "",
    lease: Annotated[
        str,
        option(
            "Lease in --own-namespace by which one of several operators acts (default: this is "
            "the only operator)",
            "NAME",
        ),
    ] = "",
    health_port: Annotated[int, option("port of /healthz", "PORT")] = 8080,
    metrics_port: Annotated[int, option("port of /metrics", "PORT")] = 9090,
) -> int:
    """Run the operator. The Helm chart starts it with this command in its pod."""
    # Until the operator installs its own handler: the first process of a container ignores a signal
    # without a handler, and the pod would last until the end of its grace period.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))

    from penstock.controller.kubernetes.leader_election import LeaseName, Timing
    from penstock.controller.main import run  # imports kopf
    from penstock.controller.operator_settings import WrongSettings, read_settings

    try:
        read = read_settings(settings, own_namespace)
    except WrongSettings as error:
        raise CommandError(str(error), WRONG_USAGE) from error
    times = Timing.of(read.leader_election)
    run(
        read,
        health_port=health_port,
        metrics_port=metrics_port,
        lease=LeaseName(own_namespace, lease, times) if lease else None,
    )
    return 0
