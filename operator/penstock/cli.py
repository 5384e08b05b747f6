"""The `penstock` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from penstock import __version__
from penstock.stream import crd, problems
from penstock.stream.resource import ContinuousStream


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one sub-command; the result is the exit code: 0 good, 1 refused, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    code: int = options.command(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock", description="Keeps continuous Spark streams running."
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    operator = commands.add_parser("operator", help="run the operator: what the chart deploys")
    operator.add_argument(
        "--default-image", required=True, help="image for streams that name none (spec.image)"
    )
    operator.add_argument(
        "--namespace",
        action="append",
        metavar="NAME",
        help="a namespace to watch; may be repeated (default: all)",
    )
    operator.add_argument("--health-port", type=int, default=8080, help="/healthz (default 8080)")
    operator.add_argument("--metrics-port", type=int, default=9090, help="/metrics (default 9090)")
    operator.set_defaults(command=_operator)

    validate = commands.add_parser("validate", help="check manifests, without a cluster")
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE")
    validate.set_defaults(command=_validate)

    show_crd = commands.add_parser("crd", help="print the CustomResourceDefinition")
    show_crd.set_defaults(command=_crd)
    return parser


def _operator(options: argparse.Namespace) -> int:
    from penstock.controller.main import run  # kopf, only where it is needed

    run(
        default_image=options.default_image,
        namespaces=options.namespace,
        health_port=options.health_port,
        metrics_port=options.metrics_port,
    )
    return 0


def _validate(options: argparse.Namespace) -> int:
    refused = False
    for path in options.files:
        for problem in _problems_of_file(path):
            refused = True
            print(f"{path}: {problem}", file=sys.stderr)
    return 1 if refused else 0


def _problems_of_file(path: Path) -> list[str]:
    try:
        documents = [each for each in yaml.safe_load_all(path.read_text()) if each is not None]
    except (OSError, yaml.YAMLError) as error:
        return [str(error)]
    found: list[str] = []
    for document in documents:
        if not isinstance(document, dict) or document.get("kind") != "ContinuousStream":
            continue
        try:
            stream = ContinuousStream.model_validate(document)
        except ValidationError as error:
            found += [str(each) for each in problems.of_error(error)]
        else:
            found += [str(each) for each in problems.of_spec(stream.spec)]
    return found


def _crd(_: argparse.Namespace) -> int:
    sys.stdout.write(crd.to_yaml())
    return 0


if __name__ == "__main__":
    sys.exit(main())
