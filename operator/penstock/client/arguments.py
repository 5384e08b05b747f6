"""The options of the commands that ask a cluster, and their help."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

_CODES_OF_A_VIEW = """
exit codes:
  0  printed
  2  wrong usage, no such stream, or the cluster cannot be read
"""


@dataclass(frozen=True)
class Help:
    name: str
    summary: str
    description: str
    epilog: str


STATUS = Help(
    "status",
    "show the streams in a cluster, or everything about one",
    """
Show all streams in a table. With NAME, show everything about one stream: what runs, since when, how
far behind and at what latency, what failed last and why, what is tried next, what you can do, and
what happened, in order.

Lag, commits and latency come from the drivers' metrics, if you may read them (pods/proxy);
otherwise from the status, which is up to ten seconds old.
""",
    f"""
examples:
  # All streams of all namespaces
  penstock status -A

  # Everything about one stream
  penstock status fraud-flags -n payments

  # The same for programs
  penstock status fraud-flags -n payments -o json
{_CODES_OF_A_VIEW}""",
)
LOGS = Help(
    "logs",
    "print the logs of a stream's driver and executors",
    """
Print the log of a stream's driver, and with --executors those of its executors, in order of time.
Each line has its source: driver (the supervisor), jvm (Spark in the driver), exec-N.
""",
    f"""
examples:
  # Follow driver and executors; new pods and restarted containers are followed too
  penstock logs fraud-flags -n payments -f --executors

  # Why did the driver's process end?
  penstock logs fraud-flags -n payments --previous --tail 50

  # The JSON lines as they were written
  penstock logs fraud-flags -n payments --raw | jq .
{_CODES_OF_A_VIEW}""",
)
DOCTOR = Help(
    "doctor",
    "find out why streams do not run, and what to do",
    """
Look for causes: the resource type, the operator and its rights, your own rights, name servers,
nodes, quota, scheduling, images, the checkpoint's volume, and what operator and driver report
(topics and ACLs, for example). If the driver's container runs, the brokers are tried from inside
it; without NAME, only for streams that are not Ready.

The first line names the cause. Each finding has what to do, and the next command to run. What
cannot be judged, because you may not read it, is said.
""",
    """
examples:
  # Why does this stream not run?
  penstock doctor fraud-flags -n payments

  # Is anything wrong in the whole cluster?
  penstock doctor -A

  # The findings for programs
  penstock doctor -A -o json

exit codes:
  0  no problem; there may be warnings
  1  a problem was found
  2  wrong usage, no such stream, or the cluster cannot be read
""",
)
TOP = Help(
    "top",
    "show a live view of all streams, what needs you first",
    """
Show all streams in a table that is refreshed until Ctrl-C. Streams that are not well come first.
""",
    f"""
examples:
  # All streams of all namespaces, every five seconds
  penstock top -A --interval 5
{_CODES_OF_A_VIEW}""",
)
PLAN = Help(
    "plan",
    "say what an apply of manifests would restart",
    """
Compare the ContinuousStreams in manifests with those in the cluster, and say of each what an apply
would do: nothing, another query in the same pods, another driver's pod. Then each edited field,
with what a change of it does. The operator decides by the same rules. Nothing is changed.

PATH is a file, a folder (all *.yaml, *.yml and *.json below it), a pattern in quotes, or - for the
standard input.
""",
    """
examples:
  # What would this apply restart?
  penstock plan stream.yaml -n payments

  # As annotations of a GitHub workflow
  helm template charts/streams | penstock plan --format github -

exit codes:
  0  nothing restarts
  1  an edit is refused, there is no stream, or files or cluster cannot be read
  2  wrong usage, or a query or a driver restarts or stops
""",
)
HISTORY = Help(
    "history",
    "show the specs with which a stream was Ready",
    """
Show the last ten specs with which a stream was Ready, the latest first, and the newest one: since
when, with which image, and which fields were not as in the one before. A spec that did not become
Ready is GivenUp, if the stream runs an earlier one again.
""",
    f"""
examples:
  # What ran before?
  penstock history fraud-flags -n payments
{_CODES_OF_A_VIEW}""",
)
ROLLBACK = Help(
    "rollback",
    "write an earlier spec of a stream into the cluster",
    """
Write a spec with which the stream was Ready, by default the last one that is not the newest, and
say what that restarts. Live fields, such as the log level, stay as they are. The stream continues
from its checkpoint.

A tool that applies the stream from a Git repository undoes it, until the repository has it too.
""",
    """
examples:
  # What would it restart?
  penstock rollback fraud-flags -n payments --dry-run

  # Back to a certain one of penstock history
  penstock rollback fraud-flags -n payments --to 3f9a1c07d2

exit codes:
  0  written, or nothing to write
  1  no such spec, or the API server refuses it
  2  wrong usage, no such stream, or the cluster cannot be read
""",
)
COMMANDS = (STATUS, LOGS, DOCTOR, TOP, PLAN, HISTORY, ROLLBACK)
_OF_ONE_STREAM = (LOGS, HISTORY, ROLLBACK)


def add_arguments(parser: argparse.ArgumentParser, command: Help) -> None:
    if command is PLAN:
        add_manifests(parser)
    elif command in _OF_ONE_STREAM:
        parser.add_argument("name", metavar="NAME", help="the stream")
    elif command is not TOP:
        parser.add_argument("name", nargs="?", metavar="NAME", help="one stream (default: all)")
    if command is LOGS:
        _add_logs(parser)
    elif command is TOP:
        parser.add_argument(
            "--interval",
            type=_seconds,
            default=2.0,
            metavar="SECONDS",
            help="time between two refreshes (default: 2)",
        )
        parser.add_argument(
            "--iterations", type=_count, metavar="N", help="end after N refreshes (default: never)"
        )
    elif command is ROLLBACK:
        parser.add_argument(
            "--to", metavar="REVISION", help="of `penstock history` (default: the last one)"
        )
        parser.add_argument("--dry-run", action="store_true", help="write nothing")
    elif command is not PLAN:
        parser.add_argument(
            "-o", "--output", choices=("text", "json"), default="text",
            help="output format (default: text)",
        )  # fmt: skip
    everywhere = command not in (PLAN, *_OF_ONE_STREAM)
    _add_cluster(parser.add_argument_group("cluster options"), all_namespaces=everywhere)


def add_manifests(parser: argparse.ArgumentParser) -> None:
    """Files with streams, and how what is found in them is printed; also of `validate`."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a file, a folder, a pattern, or - for stdin"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "sarif", "github"),
        default="text",
        help="output format (default: text)",
    )


def _add_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--executors", action="store_true", help="also the logs of the executors")
    parser.add_argument("-f", "--follow", action="store_true", help="follow the logs until Ctrl-C")
    parser.add_argument(
        "-p", "--previous", action="store_true", help="of the containers before their last restart"
    )
    parser.add_argument("--raw", action="store_true", help="print the lines as they were written")
    parser.add_argument(
        "--since",
        type=_duration,
        metavar="DURATION",
        help="only lines newer than 90s, 10m, 2h",
    )
    parser.add_argument(
        "--tail", type=_count, metavar="N", help="only the last N lines of each container"
    )


def _add_cluster(group: argparse._ArgumentGroup, *, all_namespaces: bool) -> None:
    if all_namespaces:
        group.add_argument(
            "-A", "--all-namespaces", action="store_true", help="the streams of all namespaces"
        )
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    group.add_argument(
        "--kubeconfig", metavar="FILE", help="kubeconfig (default: $KUBECONFIG or ~/.kube/config)"
    )
    group.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace (default: that of the context)"
    )


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def _seconds(text: str) -> float:
    if not 0.1 <= (number := float(text)) <= 3600:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 3600, not {text}")
    return number


def _duration(text: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in units:
        raise argparse.ArgumentTypeError(f"must be a number with s, m or h, not {text}")
    return int(number) * units[unit]
