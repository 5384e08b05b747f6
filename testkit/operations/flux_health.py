"""What Flux makes of a stream, by the expressions of docs/how-to/gitops.md, in CEL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import celpy
import yaml
from celpy.adapter import json_to_cel

from testkit.operations.runbooks import blocks
from testkit.paths import CHECKOUT

# In the order of Flux's RFC 0009.
_VERDICTS = {"inProgress": "InProgress", "failed": "Failed", "current": "Current"}


@dataclass(frozen=True)
class HealthChecks:
    """The expressions of a Kustomization for a ContinuousStream, by their fields."""

    programs: dict[str, celpy.Runner]

    def health(self, stream: dict[str, Any]) -> str:
        """The verdict of Flux 2.5 (`runtime/cel/status_evaluator.go` of fluxcd/pkg).

        Unknown where an expression cannot be evaluated: Flux asks again until its timeout.
        """
        if "status" not in stream:  # an error for cel-go, where celpy's has() is false
            return "Unknown"
        generation = stream["metadata"].get("generation")
        if stream["status"].get("observedGeneration", generation) != generation:
            return "InProgress"
        variables = {name: json_to_cel(value) for name, value in stream.items()}
        for field, verdict in _VERDICTS.items():
            if field in self.programs and self.programs[field].evaluate(variables):
                return verdict
        return "InProgress"


def health_checks() -> HealthChecks:
    """Those of the documentation."""
    text = (CHECKOUT / "docs" / "how-to" / "gitops.md").read_text()
    found = (yaml.safe_load(block) for block in blocks(text, "yaml"))
    (kustomization,) = [each for each in found if each.get("kind") == "Kustomization"]
    (checks,) = kustomization["spec"]["healthCheckExprs"]
    environment = celpy.Environment()
    return HealthChecks(
        {
            field: environment.program(environment.compile(checks[field]))
            for field in _VERDICTS
            if field in checks
        }
    )
