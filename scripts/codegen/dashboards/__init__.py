"""The dashboards for Grafana: the fleet, one stream, the operator (docs/metrics.md)."""

from __future__ import annotations

from scripts.codegen.dashboards.fleet import FLEET
from scripts.codegen.dashboards.operator import OPERATOR
from scripts.codegen.dashboards.stream import STREAM

DASHBOARDS = (FLEET, STREAM, OPERATOR)
