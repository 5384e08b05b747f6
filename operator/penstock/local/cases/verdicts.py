"""How the cases ended, for people and for JUnit's readers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from penstock.local.cases.case_run import Outcome

_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Verdict:
    """One case in one mode."""

    file: str
    line: int
    name: str
    mode: str
    outcome: Outcome

    @property
    def passed(self) -> bool:
        return not self.outcome.differences


def as_text(verdict: Verdict) -> str:
    """The lines about one case."""
    outcome = verdict.outcome
    word = "ok  " if verdict.passed else "FAIL"
    place = f"{verdict.file}:{verdict.line}"
    head = f"{word} {place}: {verdict.name} [{verdict.mode}] {outcome.seconds:.1f} s"
    lines = [line for it in (*outcome.differences, *outcome.notes) for line in it.split("\n")]
    return "\n".join([head, *(f"       {line}" for line in lines)])


def summary(verdicts: Sequence[Verdict], seconds: float) -> str:
    """The last line."""
    failed = sum(not it.passed for it in verdicts)
    passed = len(verdicts) - failed
    counts = f"{passed} passed" + (f", {failed} failed" if failed else "")
    return f"{counts} in {seconds:.0f} s"


def as_junit(verdicts: Sequence[Verdict]) -> bytes:
    """A file that the readers of JUnit's XML take: a suite for each file of cases."""
    root = ElementTree.Element("testsuites")
    for file in dict.fromkeys(it.file for it in verdicts):
        own = [it for it in verdicts if it.file == file]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(file),
            tests=str(len(own)),
            failures=str(sum(not it.passed for it in own)),
            time=f"{sum(it.outcome.seconds for it in own):.3f}",
        )
        for it in own:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_xml(file),
                name=_xml(f"{it.name} [{it.mode}]"),
                file=_xml(file),
                line=str(it.line),
                time=f"{it.outcome.seconds:.3f}",
            )
            if not it.passed:
                text = "\n".join(it.outcome.differences)
                failure = ElementTree.SubElement(
                    case, "failure", message=_xml(text.partition("\n")[0])
                )
                failure.text = _xml(text)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _xml(text: str) -> str:
    """Without the characters that XML does not have."""
    return _NOT_XML.sub("?", text)
