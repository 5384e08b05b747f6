"""What `penstock doctor` prints. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from penstock.client.cluster_facts import ClusterFacts, StreamFacts
from penstock.client.doctor.finding import Finding, Severity
from penstock.client.formatting import age, printable

OK = 0
PROBLEM = 1
CANNOT_LOOK = 2


def exit_code(findings: Sequence[Finding]) -> int:
    return PROBLEM if any(finding.severity is Severity.PROBLEM for finding in findings) else OK


def as_text(facts: ClusterFacts, findings: Sequence[Finding]) -> str:
    """For people: the first line names the cause, or says that all is well."""
    lines = [_well(facts)] if _is_well(facts, findings) else []
    for finding in findings:
        message = printable(finding.message)
        lines.append(f"{finding.severity}: {finding.subject}: {finding.reason}: {message}")
        lines += [f"  do:  {finding.action}"] if finding.action else []
        lines += [f"  run: {finding.command}"] if finding.command else []
    return "\n".join([*lines, _summary(facts, findings)])


def as_json(facts: ClusterFacts, findings: Sequence[Finding]) -> str:
    """For programs."""
    content = {
        "time": facts.now.isoformat(timespec="seconds"),
        "streams": [str(stream.key) for stream in facts.streams],
        "findings": [
            {name: value for name, value in asdict(finding).items() if name != "explains"}
            for finding in findings
        ],
    }
    return json.dumps(content, indent=2)


def _is_well(facts: ClusterFacts, findings: Sequence[Finding]) -> bool:
    """Whether the first line may say so: a stream that starts has a warning that says more."""
    if exit_code(findings) or len(facts.streams) != 1 or not findings:
        return not exit_code(findings)
    (stream,) = facts.streams
    return stream.holds("Ready") or stream.resource.suspended


def _well(facts: ClusterFacts) -> str:
    if not facts.streams:
        return "ok: there is no stream"
    if len(facts.streams) == 1:
        return f"ok: {_state(facts.streams[0], facts)}"
    return f"ok: {len(facts.streams)} streams, none with a problem"


def _state(stream: StreamFacts, facts: ClusterFacts) -> str:
    ready = stream.condition("Ready")
    since = f" for {age(ready.last_transition_time, facts.now)}" if ready else ""
    return f"{stream.key} is {stream.state}{since}"


def _summary(facts: ClusterFacts, findings: Sequence[Finding]) -> str:
    counts = {severity: sum(f.severity is severity for f in findings) for severity in Severity}
    said = [
        f"{count} {severity}{'' if count == 1 or severity is Severity.NOT_JUDGED else 's'}"
        for severity, count in counts.items()
    ]
    streams = f"{len(facts.streams)} stream{'' if len(facts.streams) == 1 else 's'} checked"
    return f"{streams}: {', '.join(said)}"
