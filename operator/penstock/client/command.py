"""The commands that ask a cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token
from cyclopts.validators import Number

from penstock.client import history as revisions
from penstock.client import plan as plans
from penstock.client.cluster_facts import ClusterFacts
from penstock.client.doctor.diagnosis import diagnose
from penstock.client.formatting import printable
from penstock.client.reading.api_client import KubeApi, NoConfiguration
from penstock.client.reading.gather import NoStream, Selection, gather
from penstock.client.reading.logs import (
    FollowedLogs,
    Line,
    LogOptions,
    for_people,
    pods_of,
    read_logs,
)
from penstock.client.view import findings
from penstock.client.view import status as status_view
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.cluster.objects import ControllerRevision
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream
from penstock.command_line import Format, Paths, option
from penstock.contract import naming
from penstock.validation.file_check import check_paths
from penstock.validation.report import rendered

CANNOT_LOOK = findings.CANNOT_LOOK

_GROUP = Group("Cluster options", sort_key=1)


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True)
class Cluster:
    """Which cluster, and which namespace of it."""

    context: Annotated[str | None, option("context of the kubeconfig", "NAME")] = None
    kubeconfig: Annotated[
        str | None, option("kubeconfig (default: $KUBECONFIG or ~/.kube/config)", "FILE")
    ] = None
    namespace: Annotated[
        str | None, option("namespace (default: that of the context)", "NAME", "-n")
    ] = None

    def key(self, api: KubeApi, name: str) -> Key:
        return Key(self.namespace or api.namespace, name)

    def selection(self, api: KubeApi, name: str | None, everywhere: bool) -> Selection:
        if everywhere and not name:
            return Selection("")
        return Selection(self.namespace or api.namespace, name or "")


_ANY = Cluster()
Name = Annotated[str, option("the stream", "NAME")]
OneOrAll = Annotated[str | None, option("one stream (default: all)", "NAME")]
Output = Annotated[Literal["text", "json"], option("output format", None, "-o")]
Everywhere = Annotated[
    bool,
    option("the streams of all namespaces", None, "-A", name="--all-namespaces", group=_GROUP),
]


def _duration(_: Any, tokens: Sequence[Token]) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = tokens[0].value[:-1], tokens[0].value[-1:]
    if not number.isdecimal() or unit not in units:
        raise ValueError(f"must be a number with s, m or h, not {tokens[0].value}")
    return int(number) * units[unit]


def status(
    name: OneOrAll = None,
    /,
    *,
    output: Output = "text",
    everywhere: Everywhere = False,
    cluster: Cluster = _ANY,
) -> int:
    """Show all streams in a table. With NAME, show everything about one stream: what runs, since
    when, how far behind and at what latency, what failed last and why, what is tried next, what you
    can do, and what happened, in order.

    Lag, commits and latency come from the drivers' metrics, if you may read them (pods/proxy);
    otherwise from the status, which is thirty seconds old or older.

    examples:
      # All streams of all namespaces
      penstock status -A

      # Everything about one stream
      penstock status fraud-flags -n payments

      # The same for programs
      penstock status fraud-flags -n payments -o json

    exit codes:
      0  printed
      2  wrong usage, no such stream, or the cluster cannot be read
    """

    def show(api: KubeApi) -> int:
        selection = cluster.selection(api, name, everywhere)
        facts = gather(api, lambda it: it.details(selection) if name else it.fleet(selection))
        if output == "json":
            _print(status_view.as_json(facts))
        elif name:
            _print(status_view.as_text(facts.streams[0], facts))
        elif facts.streams:
            _print(status_view.as_table(facts))
        else:
            _note(f"no stream found {_where(selection)}")
        if output != "json" and not name:
            _note_unread(facts)
        return 0

    return _asked(cluster, show)


def doctor(
    name: OneOrAll = None,
    /,
    *,
    output: Output = "text",
    everywhere: Everywhere = False,
    cluster: Cluster = _ANY,
) -> int:
    """Look for causes: the resource type, the operator and its rights, your own rights, name
    servers, nodes, quota, scheduling, images, the checkpoint's volume, and what operator and driver
    report (topics and ACLs, for example). If the driver's container runs, the brokers are tried
    from inside it; without NAME, only for streams that are not Ready.

    The first line names the cause. Each finding has what to do, and the next command to run. What
    cannot be judged, because you may not read it, is said.

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
    """

    def show(api: KubeApi) -> int:
        selection = cluster.selection(api, name, everywhere)
        facts = gather(api, lambda it: it.diagnosis(selection))
        reported = diagnose(facts)
        _print((findings.as_json if output == "json" else findings.as_text)(facts, reported))
        return findings.exit_code(reported)

    return _asked(cluster, show)


def logs(
    name: Name,
    /,
    *,
    executors: Annotated[bool, option("also the logs of the executors")] = False,
    follow: Annotated[bool, option("follow the logs until Ctrl-C", None, "-f")] = False,
    previous: Annotated[
        bool, option("of the containers before their last restart", None, "-p")
    ] = False,
    raw: Annotated[bool, option("print the lines as they were written")] = False,
    since: Annotated[
        int | None,
        option("only lines newer than 90s, 10m, 2h", "DURATION", converter=_duration, n_tokens=1),
    ] = None,
    tail: Annotated[
        int | None,
        option("only the last N lines of each container", "N", validator=Number(gte=1)),
    ] = None,
    cluster: Cluster = _ANY,
) -> int:
    """Print the log of a stream's driver, and with --executors those of its executors, in order of
    time. Each line has its source: driver (the supervisor), jvm (Spark in the driver), exec-N.

    examples:
      # Follow driver and executors; new pods and restarted containers are followed too
      penstock logs fraud-flags -n payments -f --executors

      # Why did the driver's process end?
      penstock logs fraud-flags -n payments --previous --tail 50

      # The JSON lines as they were written
      penstock logs fraud-flags -n payments --raw | jq .

    exit codes:
      0  printed
      2  wrong usage, no such stream, or the cluster cannot be read
    """
    options = LogOptions(executors, follow, previous, tail, since)

    def show(line: Line) -> None:
        _print(line.text if raw else for_people(line))

    def read(api: KubeApi) -> int:
        key = cluster.key(api, name)
        gather(api, lambda it: it.only(Selection(key.namespace, key.name)))
        pods = pods_of(api, key, executors=executors)
        if follow:
            for line in FollowedLogs(api, key, options, _note).lines():
                show(line)
        if not pods:
            return _cannot_look(f"{key} has no pod: penstock doctor {key.name} -n {key.namespace}")
        for line in read_logs(api, pods, options, _note):
            show(line)
        return 0

    return _asked(cluster, read)


def top(
    *,
    interval: Annotated[
        float, option("time between two refreshes", "SECONDS", validator=Number(gte=0.1, lte=3600))
    ] = 2.0,
    iterations: Annotated[
        int | None, option("end after N refreshes (default: never)", "N", validator=Number(gte=1))
    ] = None,
    everywhere: Everywhere = False,
    cluster: Cluster = _ANY,
) -> int:
    """Show all streams in a table that is refreshed until Ctrl-C. Streams that are not well come
    first.

    examples:
      # All streams of all namespaces, every five seconds
      penstock top -A --interval 5

    exit codes:
      0  printed
      2  wrong usage, no such stream, or the cluster cannot be read
    """
    from penstock.client.view import top  # imports rich, which the others do without

    def show(api: KubeApi) -> int:
        selection = cluster.selection(api, None, everywhere)
        top.show(lambda: gather(api, lambda it: it.fleet(selection)), interval, iterations)
        return 0

    return _asked(cluster, show)


def plan(paths: Paths, /, *, format: Format = "text", cluster: Cluster = _ANY) -> int:
    """Compare the ContinuousStreams in manifests with those in the cluster, and say of each what an
    apply would do: nothing, another query in the same pods, another driver's pod. Then each edited
    field, with what a change of it does. The operator decides by the same rules. Nothing is
    changed.

    PATH is a file, a folder (all *.yaml, *.yml and *.json below it), a pattern in quotes, or - for
    the standard input.

    examples:
      # What would this apply restart?
      penstock plan stream.yaml -n payments

      # As annotations of a GitHub workflow
      helm template charts/streams | penstock plan --format github -

    exit codes:
      0  nothing restarts
      1  an edit is refused, there is no stream, or files or cluster cannot be read
      2  wrong usage, or a query or a driver restarts or stops
    """

    def compare(api: KubeApi) -> int:
        namespace = cluster.namespace or api.namespace
        report, all_read = check_paths(
            paths, lambda it: plans.plan(it, namespace, partial(_live, api))
        )
        _print(rendered(report, format))
        if not all_read or not report.passed:
            return 1
        return 2 if any(finding.reason in plans.RESTARTS for finding in report.findings) else 0

    return _asked(cluster, compare, cannot_look=1)  # where 2 means that something restarts


def _live(api: KubeApi, key: Key) -> plans.LiveStream | None:
    manifest = api.get(kinds.STREAM, key.namespace, key.name)
    if manifest is None:
        return None
    try:
        recorded = _recorded(api, key)
    except ApiError as error:
        if not error.refused:
            raise
        _note(f"not read: the earlier specs of {key}: {error.message}")
        recorded = ()
    return plans.LiveStream(Stream(manifest), recorded)


def history(name: Name, /, *, output: Output = "text", cluster: Cluster = _ANY) -> int:
    """Show the last ten specs with which a stream was Ready, the latest first, and the newest one:
    since when, with which image, and which fields were not as in the one before. A spec that did
    not become Ready is GivenUp, if the stream runs an earlier one again.

    examples:
      # What ran before?
      penstock history fraud-flags -n payments

    exit codes:
      0  printed
      2  wrong usage, no such stream, or the cluster cannot be read
    """

    def show(api: KubeApi) -> int:
        stream, recorded = _stream(api, cluster.key(api, name))
        entries = revisions.history(stream, recorded)
        if output == "json":
            _print(json.dumps(revisions.as_json(entries), indent=2))
        elif entries:
            _print(printable(revisions.as_table(entries, datetime.now(UTC))))
        else:
            _note(f"{stream.key} was never Ready")
        return 0

    return _asked(cluster, show)


def rollback(
    name: Name,
    /,
    *,
    to: Annotated[
        str | None, option("of `penstock history` (default: the last one)", "REVISION")
    ] = None,
    dry_run: Annotated[bool, option("write nothing")] = False,
    cluster: Cluster = _ANY,
) -> int:
    """Write a spec with which the stream was Ready, by default the last one that is not the newest,
    and say what that restarts. Live fields, such as the log level, stay as they are. The stream
    continues from its checkpoint.

    A tool that applies the stream from a Git repository undoes it, until the repository has it too.

    examples:
      # What would it restart?
      penstock rollback fraud-flags -n payments --dry-run

      # Back to a certain one of penstock history
      penstock rollback fraud-flags -n payments --to 3f9a1c07d2

    exit codes:
      0  written, or nothing to write
      1  no such spec, or the API server refuses it
      2  wrong usage, no such stream, or the cluster cannot be read
    """

    def write(api: KubeApi) -> int:
        stream, recorded = _stream(api, cluster.key(api, name))
        revision, manifest = revisions.spec_to_restore(stream, recorded, to)
        for problem in plans.plan_edit(plans.LiveStream(stream, recorded), manifest["spec"]):
            _print(printable(f"{stream.key}: {problem.message}"))
        if manifest["spec"] == stream.manifest.get("spec"):
            return 0
        try:
            api.replace(kinds.STREAM, manifest, dry_run=dry_run)
        except ApiError as error:
            if not error.refused and error.code != 409:
                raise
            _note(f"not written: {printable(error.message)}")
            return 1
        would = " would be" if dry_run else ""
        _print(f"{stream.key}:{would} written: the spec of revision {revision}")
        return 0

    return _asked(cluster, write)


def _asked(cluster: Cluster, ask: Callable[[KubeApi], int], cannot_look: int = CANNOT_LOOK) -> int:
    try:
        api = KubeApi(cluster.kubeconfig, cluster.context)
        return ask(api)
    except NoConfiguration as error:
        why = str(error)
    except revisions.NoRevision as error:
        _note(str(error))
        return 1
    except NoStream as error:
        why = f"{error}: penstock status -A lists all streams"
    except ApiError as error:
        why = _why(api.server, error)
    except BrokenPipeError:  # of `penstock logs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    _cannot_look(why)
    return cannot_look


def _stream(api: KubeApi, key: Key) -> tuple[Stream, tuple[ControllerRevision, ...]]:
    """A stream, and what is recorded of its specs."""
    manifest = api.get(kinds.STREAM, key.namespace, key.name)
    if manifest is None:
        raise NoStream(f"there is no stream {key}")
    return Stream(manifest), _recorded(api, key)


def _recorded(api: KubeApi, key: Key) -> tuple[ControllerRevision, ...]:
    """What is recorded of a stream's specs."""
    labels = {naming.LABEL_STREAM: key.name, naming.LABEL_COMPONENT: naming.COMPONENT_REVISION}
    return tuple(
        map(ControllerRevision, api.list(kinds.CONTROLLER_REVISION, key.namespace, labels))
    )


def _where(selection: Selection) -> str:
    return f"in the namespace {selection.namespace}" if selection.namespace else "in any namespace"


def _why(server: str, error: ApiError) -> str:
    if error.code == 0:
        return f"the API server {server} cannot be reached: {error.message}"
    if error.code == 401:
        return f"the API server {server} does not accept your credentials: {error.message}"
    if error.code == 404:
        return f"the API server {server} does not know ContinuousStream: install the chart"
    return f"the API server {server} refused: {error.message}"


def _note_unread(facts: ClusterFacts) -> None:
    not_read = {*facts.not_read, *(each for stream in facts.streams for each in stream.not_read)}
    for what in sorted({fact.what for fact in not_read}):
        why = next(fact.why for fact in not_read if fact.what == what)
        _note(f"not read: {what}: {why}")


def _cannot_look(why: str) -> int:
    _note(f"cannot look: {why}")
    return CANNOT_LOOK


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
