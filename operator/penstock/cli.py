"""The `penstock` command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from importlib import resources
from io import TextIOWrapper
from pathlib import Path

# The exit code that shells report for a command that SIGINT ended.
INTERRUPTED = 130

try:  # it takes a second, and somebody may press Ctrl-C meanwhile
    from penstock import DISTRIBUTION, __version__, how_to_install
    from penstock.client import arguments as client_arguments
    from penstock.contract.operator_settings import PodSecurity
    from penstock.local import options as run_options
    from penstock.local import replay_options
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)

_EPILOG = """
Use "penstock COMMAND --help" for more information about a command.
"""
_VALIDATE_DESCRIPTION = """
Check the ContinuousStreams in manifests without a cluster. Other resources are skipped.

Errors are what the API server or the operator would refuse. Warnings and notices do not affect the
exit code; a notice NotJudged says what only Spark or the cluster can judge. Of SQL, names of
columns, functions and fields, and types, are judged with --spark only.

PATH is a file, a folder (all *.yaml, *.yml and *.json below it), a pattern in quotes, or - for the
standard input.
"""
_VALIDATE_EPILOG = """
examples:
  # Check all manifests of a folder, and those that Helm renders
  penstock validate deploy/
  helm template charts/streams | penstock validate -

  # Let Spark analyze the queries too
  penstock validate --spark stream.yaml

  # Show the findings as annotations of a GitHub workflow
  penstock validate --format github stream.yaml

exit codes:
  0  there are streams, and all are valid
  1  there is an error, or no stream
  2  wrong usage, or a file cannot be read
"""
_OPERATOR_DESCRIPTION = """
Run the operator. The Helm chart starts it with this command in its pod.
"""
_CRD_DESCRIPTION = """
Print the CustomResourceDefinition of ContinuousStream as YAML.
"""
_CRD_EPILOG = """
examples:
  # Install the resource type in a cluster
  penstock crd | kubectl apply --server-side -f -
"""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the layout of descriptions, and lists commands without a line for their metavar."""

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        return text.split("\n", 1)[1] if action.nargs == argparse.PARSER else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one sub-command and returns the exit code.

    0 success, 1 refused, 2 wrong usage, 130 interrupted before anything had started.
    """
    return _main(arguments, "penstock")


def kubectl(arguments: Sequence[str] | None = None) -> int:
    """`kubectl penstock`: kubectl finds the program kubectl-penstock in the PATH."""
    return _main(arguments, "kubectl penstock")


def _main(arguments: Sequence[str] | None, program: str) -> int:
    try:
        options = _parser(program).parse_args(arguments)
        code: int = options.command(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run Spark Structured Streaming queries on Kubernetes.",
        epilog=_EPILOG,
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")

    run = _add_command(
        commands, "run", "run a stream on this machine", run_options.DESCRIPTION, run_options.EPILOG
    )
    run_options.add_arguments(run)
    run.set_defaults(command=_run)

    replay = _add_command(
        commands,
        "replay",
        "run one record through a stream's query",
        replay_options.DESCRIPTION,
        replay_options.EPILOG,
    )
    replay_options.add_arguments(replay)
    replay.set_defaults(command=_replay)

    validate = _add_command(
        commands,
        "validate",
        "check manifests without a cluster",
        _VALIDATE_DESCRIPTION,
        _VALIDATE_EPILOG,
    )
    client_arguments.add_manifests(validate)
    validate.add_argument(
        "--spark",
        action="store_true",
        help=f"let Spark analyze the queries too; requires Java 17 and {DISTRIBUTION}[driver]",
    )
    validate.add_argument(
        "--pod-security",
        choices=[str(each) for each in PodSecurity],
        default=str(PodSecurity.RESTRICTED),
        help="the operator's chart value podSecurity (default: restricted)",
    )
    validate.set_defaults(command=_validate)

    for each in client_arguments.COMMANDS:
        of_cluster = _add_command(commands, each.name, each.summary, each.description, each.epilog)
        client_arguments.add_arguments(of_cluster, each)
        of_cluster.set_defaults(command=partial(_client, each.name))

    crd = _add_command(
        commands, "crd", "print the CustomResourceDefinition", _CRD_DESCRIPTION, _CRD_EPILOG
    )
    crd.set_defaults(command=_crd)

    operator = _add_command(commands, "operator", "run the operator", _OPERATOR_DESCRIPTION)
    operator.add_argument(
        "--settings",
        type=Path,
        required=True,
        metavar="FILE",
        help="YAML with the settings, which are the chart's values of the same names",
    )
    operator.add_argument(
        "--own-namespace",
        default="",
        metavar="NAME",
        help="namespace that the operator runs in; streams in it are refused",
    )
    operator.add_argument(
        "--lease",
        default="",
        metavar="NAME",
        help="Lease in --own-namespace by which one of several operators acts "
        "(default: this is the only operator)",
    )
    operator.add_argument(
        "--health-port",
        type=int,
        default=8080,
        metavar="PORT",
        help="port of /healthz (default: 8080)",
    )
    operator.add_argument(
        "--metrics-port",
        type=int,
        default=9090,
        metavar="PORT",
        help="port of /metrics (default: 9090)",
    )
    operator.set_defaults(command=_operator)
    return parser


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    description: str,
    epilog: str = "",
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=_HelpFormatter,
    )


def _operator(options: argparse.Namespace) -> int:
    # Until the operator installs its own handler: the first process of a container ignores a signal
    # without a handler, and the pod would last until the end of its grace period.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))

    from penstock.controller.kubernetes.leader_election import LeaseName, Timing
    from penstock.controller.main import run  # imports kopf
    from penstock.controller.operator_settings import WrongSettings, read_settings

    namespace = options.own_namespace
    try:
        settings = read_settings(options.settings, namespace)
    except WrongSettings as error:
        print(error, file=sys.stderr)
        return 2
    times = Timing.of(settings.leader_election)
    run(
        settings,
        health_port=options.health_port,
        metrics_port=options.metrics_port,
        lease=LeaseName(namespace, options.lease, times) if options.lease else None,
    )
    return 0


def _run(options: argparse.Namespace) -> int:
    from penstock.local.command import run
    from penstock.local.errors import CommandError

    try:
        return run(run_options.RunOptions.from_arguments(options))
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code


def _replay(options: argparse.Namespace) -> int:
    from penstock.local.errors import CommandError
    from penstock.local.replay import run

    try:
        return run(replay_options.ReplayOptions.from_arguments(options))
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code


def _client(name: str, options: argparse.Namespace) -> int:
    try:
        from penstock.client.command import run  # imports kubernetes

        return run(name, options)
    except ImportError as error:
        print(
            f"penstock {name} requires {error.name}: {how_to_install('client')}",
            file=sys.stderr,
        )
        return 2


def _validate(options: argparse.Namespace) -> int:
    from penstock.local.errors import CommandError
    from penstock.validation.file_check import check, check_paths
    from penstock.validation.report import rendered

    try:
        if options.spark:
            from penstock.local.spark_analyzer import spark_analyzer  # imports pyspark
        with spark_analyzer() if options.spark else nullcontext() as analyzer:
            allowed = PodSecurity(options.pod_security)
            report, all_read = check_paths(
                options.paths, partial(check, analyzer=analyzer, allowed=allowed)
            )
    except ImportError as error:
        print(
            f"--spark requires {error.name}: {how_to_install('driver')}",
            file=sys.stderr,
        )
        return 2
    except CommandError as error:
        print(f"--spark: {error}", file=sys.stderr)
        return error.code
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be Unicode
    print(rendered(report, options.format))
    if not all_read:
        return 2
    return 0 if report.passed else 1


def _crd(_: argparse.Namespace) -> int:
    sys.stdout.write(resources.files("penstock.api.v1alpha1").joinpath("crd.yaml").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
