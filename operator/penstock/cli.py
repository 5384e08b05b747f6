"""The `penstock` command: its sub-commands, and how they end.

A command is a function in the module that runs it, which is imported when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

# The exit code that shells report for a command that SIGINT ended.
INTERRUPTED = 130

try:  # it takes half a second, and somebody may press Ctrl-C meanwhile
    from cyclopts import App, CycloptsError, Parameter

    from penstock import __version__, how_to_install
    from penstock.command_line import WRONG_USAGE, CommandError
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)

if TYPE_CHECKING:
    from rich.console import Console

# By name: where it is, what it does, and the extra of the package that it needs.
_COMMANDS = {
    "run": ("penstock.local.command:run", "run a stream on this machine", "local"),
    "test": ("penstock.local.cases.command:run_cases", "run the cases of streams", "local"),
    "replay": ("penstock.local.replay:replay", "run one record through a stream's query", "local"),
    "validate": ("penstock.local.validate:validate", "check manifests without a cluster", "driver"),
    "status": (
        "penstock.client.command:status",
        "show the streams in a cluster, or everything about one",
        "client",
    ),
    "logs": (
        "penstock.client.command:logs",
        "print the logs of a stream's driver and executors",
        "client",
    ),
    "doctor": (
        "penstock.client.command:doctor",
        "find out why streams do not run, and what to do",
        "client",
    ),
    "top": (
        "penstock.client.command:top",
        "show a live view of all streams, what needs you first",
        "client",
    ),
    "plan": (
        "penstock.client.command:plan",
        "say what an apply of manifests would restart",
        "client",
    ),
    "history": (
        "penstock.client.command:history",
        "show the specs with which a stream was Ready",
        "client",
    ),
    "rollback": (
        "penstock.client.command:rollback",
        "write an earlier spec of a stream into the cluster",
        "client",
    ),
    "crd": ("penstock.cli:crd", "print the CustomResourceDefinition", ""),
    "operator": ("penstock.controller.command:operator", "run the operator", "operator"),
}
_WIDTH = 100
_EPILOGUE = 'Use "penstock COMMAND --help" for more information about a command.'


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one sub-command and returns the exit code.

    0 success, 1 refused, 2 wrong usage, 130 interrupted before anything had started.
    """
    return _main(arguments, "penstock")


def kubectl(arguments: Sequence[str] | None = None) -> int:
    """`kubectl penstock`: kubectl finds the program kubectl-penstock in the PATH."""
    return _main(arguments, "kubectl penstock")


def _main(arguments: Sequence[str] | None, program: str) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in words if word in _COMMANDS), "")
    try:
        app = _app(program, command)
        if not words or {"-h", "--help"}.intersection(words):
            app.console = _console()
        code: int | None = app(words or ["--help"], exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        return INTERRUPTED
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code
    except CycloptsError as error:
        name = " ".join(filter(None, (program, command)))
        print(f"{name}: error: {error}\n{name} --help has its options", file=sys.stderr)
        return WRONG_USAGE
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        extra = command and _COMMANDS[command][2]
        if not extra or (missing.name or "").startswith("penstock"):
            raise
        how = how_to_install(extra)
        print(f"{program} {command} requires {missing.name}: {how}", file=sys.stderr)
        return WRONG_USAGE
    return (code or 0) if words else WRONG_USAGE


def _app(program: str, command: str) -> App:
    """The summaries are for the list of commands; the one that runs has its own help."""
    app = App(
        name=program,
        help="Run Spark Structured Streaming queries on Kubernetes.",
        help_epilogue=None if command else _EPILOGUE,
        help_format="plaintext",
        version=f"penstock {__version__}",
        version_flags=() if command else ("--version",),
        result_action="return_value",
        default_parameter=Parameter(negative=(), show_default=_shown),
    )
    app.register_install_completion_command()
    for at, (name, (where, summary, _)) in enumerate(_COMMANDS.items()):
        app.command(where, name=name, sort_key=at, help=None if name == command else summary)
    return app


def _console() -> Console:
    """As wide as the terminal, or as the texts."""
    from rich.console import Console  # only for a help

    return Console(width=None if sys.stdout.isatty() else _WIDTH)


def _shown(default: object) -> object:
    """What the help says of a default: nothing of one that is nothing."""
    return default if default not in (None, False, "", ()) else None


def crd() -> int:
    """Print the CustomResourceDefinition of ContinuousStream as YAML.

    examples:
      # Install the resource type in a cluster
      penstock crd | kubectl apply --server-side -f -
    """
    sys.stdout.write(resources.files("penstock.api.v1alpha1").joinpath("crd.yaml").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
