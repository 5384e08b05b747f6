"""Reads the operator's settings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from penstock.contract.operator_settings import OperatorSettings
from penstock.validation.schema_errors import describe_error
from penstock.validation.spec_check import judge_defaults


@dataclass(frozen=True)
class Settings(OperatorSettings):
    """The settings of one operator."""

    namespace: str = ""
    """Its own namespace; empty outside a cluster."""


class WrongSettings(Exception):
    """The message has a line for each problem of the file."""


def read_settings(path: Path, namespace: str) -> Settings:
    """The settings in a file; raises WrongSettings."""
    try:
        content = yaml.safe_load(path.read_bytes())
        read = TypeAdapter(OperatorSettings).validate_python(content)
    except (OSError, yaml.YAMLError) as error:
        problems = [" ".join(str(error).split())]
    except ValidationError as error:
        errors = describe_error(error, OperatorSettings)
        problems = [each.message.removeprefix("the resource: ") for each in errors]
    else:
        problems = judge_defaults(read.stream_defaults, read.pod_security)
        problems = [f"streamDefaults: {problem}" for problem in problems]
    if problems:
        raise WrongSettings("\n".join(f"{path}: {problem}" for problem in problems))
    return Settings(
        **{field.name: getattr(read, field.name) for field in fields(read)}, namespace=namespace
    )
