"""Runs the commands that ask a cluster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime

from penstock.client import history, plan
from penstock.client.cluster_facts import ClusterFacts
from penstock.client.doctor.diagnosis import diagnose
from penstock.client.formatting import printable
from penstock.client.reading.api_client import KubeApi, NoConfiguration
from penstock.client.reading.gather import Gatherer, NoStream, Selection, gather
from penstock.client.reading.logs import Followed, Line, LogOptions, for_people, pods_of, read_logs
from penstock.client.view import findings, status
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.cluster.objects import ControllerRevision
from penstock.cluster.rest import ApiError
from penstock.cluster.stream import Stream
from penstock.contract import naming
from penstock.validation.file_check import check_paths
from penstock.validation.report import rendered

CANNOT_LOOK = findings.CANNOT_LOOK


def run(name: str, options: argparse.Namespace) -> int:
    commands = {
        "status": _status,
        "logs": _logs,
        "doctor": _doctor,
        "top": _top,
        "plan": _plan,
        "history": _history,
        "rollback": _rollback,
    }
    try:
        api = KubeApi(options.kubeconfig, options.context)
        return commands[name](api, options)
    except NoConfiguration as error:
        why = str(error)
    except history.NoRevision as error:
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
    return 1 if name == "plan" else CANNOT_LOOK  # where 2 means that something restarts


def _status(api: KubeApi, options: argparse.Namespace) -> int:
    selection = _selection(api, options)
    one = bool(selection.name)
    facts = gather(api, lambda it: it.details(selection) if one else it.fleet(selection))
    if options.output == "json":
        _print(status.as_json(facts))
    elif one:
        _print(status.as_text(facts.streams[0], facts))
    elif facts.streams:
        _print(status.as_table(facts))
    else:
        _note(f"no stream found {_where(selection)}")
    if options.output != "json" and not one:
        _note_unread(facts)
    return 0


def _doctor(api: KubeApi, options: argparse.Namespace) -> int:
    selection = _selection(api, options)
    facts = gather(api, lambda it: it.diagnosis(selection))
    found = diagnose(facts)
    as_output = findings.as_json if options.output == "json" else findings.as_text
    _print(as_output(facts, found))
    return findings.exit_code(found)


def _logs(api: KubeApi, options: argparse.Namespace) -> int:
    key = Key(options.namespace or api.namespace, options.name)
    wanted = LogOptions(
        executors=options.executors,
        follow=options.follow,
        previous=options.previous,
        tail=options.tail,
        since_seconds=options.since,
    )

    def show(line: Line) -> None:
        _print(line.text if options.raw else for_people(line))

    gather(api, lambda it: it.only(Selection(key.namespace, key.name)))
    pods = pods_of(api, key, executors=wanted.executors)
    if wanted.follow:
        for line in Followed(api, key, wanted, _note).lines():
            show(line)
    if not pods:
        return _cannot_look(f"{key} has no pod: penstock doctor {key.name} -n {key.namespace}")
    for line in read_logs(api, pods, wanted, _note):
        show(line)
    return 0


def _top(api: KubeApi, options: argparse.Namespace) -> int:
    from penstock.client.view import top  # imports rich, which the others do without

    selection = _selection(api, options)

    def read(it: Gatherer) -> ClusterFacts:
        return it.fleet(selection)

    top.show(lambda: gather(api, read), options.interval, options.iterations)
    return 0


def _plan(api: KubeApi, options: argparse.Namespace) -> int:
    namespace = options.namespace or api.namespace

    def live(key: Key) -> plan.Live | None:
        found = api.get(kinds.STREAM, key.namespace, key.name)
        if found is None:
            return None
        try:
            recorded = _recorded(api, key)
        except ApiError as error:
            if not error.refused:
                raise
            _note(f"not read: the earlier specs of {key}: {error.message}")
            recorded = ()
        return plan.Live(Stream(found), recorded)

    report, all_read = check_paths(options.paths, lambda it: plan.plan(it, namespace, live))
    _print(rendered(report, options.format))
    if not all_read or not report.passed:
        return 1
    return 2 if any(each.reason in plan.RESTARTS for each in report.findings) else 0


def _history(api: KubeApi, options: argparse.Namespace) -> int:
    stream, recorded = _stream(api, options)
    entries = history.history(stream, recorded)
    if options.output == "json":
        _print(json.dumps(history.as_json(entries), indent=2))
    elif entries:
        _print(printable(history.as_table(entries, datetime.now(UTC))))
    else:
        _note(f"{stream.key} was never Ready")
    return 0


def _rollback(api: KubeApi, options: argparse.Namespace) -> int:
    stream, recorded = _stream(api, options)
    revision, manifest = history.rolled_back(stream, recorded, options.to)
    for problem in plan.plan_edit(plan.Live(stream, recorded), manifest["spec"]):
        _print(printable(f"{stream.key}: {problem.message}"))
    if manifest["spec"] == stream.manifest.get("spec"):
        return 0
    try:
        api.replace(kinds.STREAM, manifest, dry_run=options.dry_run)
    except ApiError as error:
        if not error.refused and error.code != 409:
            raise
        _note(f"not written: {printable(error.message)}")
        return 1
    would = " would be" if options.dry_run else ""
    _print(f"{stream.key}:{would} written: the spec of revision {revision}")
    return 0


def _stream(
    api: KubeApi, options: argparse.Namespace
) -> tuple[Stream, tuple[ControllerRevision, ...]]:
    """A stream, and what is recorded of its specs."""
    key = Key(options.namespace or api.namespace, options.name)
    found = api.get(kinds.STREAM, key.namespace, key.name)
    if found is None:
        raise NoStream(f"there is no stream {key}")
    return Stream(found), _recorded(api, key)


def _recorded(api: KubeApi, key: Key) -> tuple[ControllerRevision, ...]:
    """What is recorded of a stream's specs."""
    labels = {naming.LABEL_STREAM: key.name, naming.LABEL_COMPONENT: naming.COMPONENT_REVISION}
    return tuple(
        map(ControllerRevision, api.list(kinds.CONTROLLER_REVISION, key.namespace, labels))
    )


def _selection(api: KubeApi, options: argparse.Namespace) -> Selection:
    name = getattr(options, "name", None) or ""
    everywhere = options.all_namespaces and not name
    return Selection("" if everywhere else options.namespace or api.namespace, name)


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
    unread = {*facts.unread, *(each for stream in facts.streams for each in stream.unread)}
    for what in sorted({each.what for each in unread}):
        why = next(each.why for each in unread if each.what == what)
        _note(f"not read: {what}: {why}")


def _cannot_look(why: str) -> int:
    _note(f"cannot look: {why}")
    return CANNOT_LOOK


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
