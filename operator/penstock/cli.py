"""The `penstock` command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from penstock import __version__
from penstock.local import arguments as local
from penstock.validation.manifests import Unreadable, as_json, findings

# As a shell has it for a command that Ctrl-C has ended.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one sub-command; the result is the exit code.

    0 good, 1 refused, 2 wrong usage, 130 ended by Ctrl-C before there was anything to stop.
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except KeyboardInterrupt:
        return INTERRUPTED
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

    local_run = commands.add_parser(
        "run",
        help="run a stream on this machine",
        description=local.DESCRIPTION,
        epilog=local.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    local.add_arguments(local_run)
    local_run.set_defaults(command=_run)

    judge = commands.add_parser("validate", help="check manifests, without a cluster")
    judge.add_argument("files", nargs="+", type=Path, metavar="FILE")
    judge.add_argument(
        "--spark",
        action="store_true",
        help="ask Spark's own analyser too (needs Java and the extra penstock[driver])",
    )
    judge.add_argument("--format", choices=("text", "json", "github"), default="text")
    judge.set_defaults(command=_validate)

    show_crd = commands.add_parser("crd", help="print the CustomResourceDefinition")
    show_crd.set_defaults(command=_crd)
    return parser


def _operator(options: argparse.Namespace) -> int:
    # Until the operator takes over, an import later: the first process of a container is deaf to a
    # signal that it has no handler for, and its pod would wait out the grace period.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))

    from penstock.controller.main import run  # kopf, only where it is needed

    run(
        default_image=options.default_image,
        namespaces=options.namespace,
        health_port=options.health_port,
        metrics_port=options.metrics_port,
    )
    return 0


def _run(options: argparse.Namespace) -> int:
    from penstock.local.command import run
    from penstock.local.errors import Refused

    try:
        return run(options)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return refused.code


def _validate(options: argparse.Namespace) -> int:
    try:
        if options.spark:
            from penstock.local.spark_analyzer import analyser  # pyspark, only where it is needed

            with analyser() as judge:
                found = [each for path in options.files for each in findings(path, judge)]
        else:
            found = [each for path in options.files for each in findings(path)]
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"--spark needs {error.name}: pip install 'penstock[driver]'", file=sys.stderr)
        return 2
    if options.format == "json":
        print(as_json(found))
    for each in found:
        if options.format == "github":
            print(each.as_github())
        elif options.format == "text":
            print(each.as_text(), file=sys.stderr)
    return 1 if any(each.severity == "error" for each in found) else 0


def _crd(_: argparse.Namespace) -> int:
    sys.stdout.write(resources.files("penstock.api.v1alpha1").joinpath("crd.yaml").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
