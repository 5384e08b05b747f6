"""The tests that the documents name as proof: did each of them run and pass?

The checkout's conftest.py registers `Proofs`, which judges at the end of a session. Every test that
a document in docs/ names in backticks must have passed in a session of the whole suite. `make test`
leaves out the tests with the marker `full`: those must exist, and `make test-all` judges them. If
less was chosen, all named tests must only exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_NAMED = re.compile(r"`(test_\w+)(?:\.py)?`( \(real cluster\))?")


@dataclass(frozen=True)
class Named:
    """A test, or a file of tests, that a document names."""

    name: str
    on_cluster: bool = False
    """Whether the document says that it needs the real cluster."""


def named_tests(documents: Iterable[str]) -> set[Named]:
    return {Named(name, bool(where)) for text in documents for name, where in _NAMED.findall(text)}


def unproven(
    named: Iterable[Named],
    found: Iterable[str],
    outcomes: Mapping[str, str] | None,
    accepted: Collection[str] = ("passed", "later"),
) -> list[str]:
    """What is wrong with the named tests, as one line each.

    `found` are the node ids of all tests. `outcomes` holds "passed", "failed", "skipped" or "later"
    (left to `make test-all`) by node id; None if it does not matter what ran. `accepted` are the
    outcomes that are no problem.
    """
    by_name: dict[str, list[str]] = {}
    for node in sorted(found):
        for name in _names(node):
            by_name.setdefault(name, []).append(node)
    lines = []
    for claim in sorted(named, key=lambda claim: (claim.name, claim.on_cluster)):
        nodes = by_name.get(claim.name, [])
        if claim.on_cluster:
            nodes = [node for node in nodes if node.startswith("e2e/")]
        if not nodes:
            lines.append(f"{claim.name}: there is no such test{' in e2e' * claim.on_cluster}")
        elif outcomes is not None:
            lines += [
                f"{node}: {outcomes.get(node, 'did not run')}"
                for node in nodes
                if outcomes.get(node) not in accepted
            ]
    return lines


def _names(node: str) -> set[str]:
    """The file and the function of a node id such as a/test_b.py::test_c[d]."""
    path, _, test = node.partition("::")
    file = path.rpartition("/")[2].removesuffix(".py")
    return {file, test.partition("[")[0].rpartition("::")[2]}


class Proofs:
    def __init__(self, documents: Path, *, skips_fail: bool = True) -> None:
        self._documents = documents
        self._accepted = {"passed", "later", *([] if skips_fail else ["skipped"])}
        self._found: set[str] = set()
        self._later: set[str] = set()
        self._is_part = False
        self._outcomes: dict[str, str] = {}
        # A worker of pytest-xdist sends this dictionary to the session that judges.
        self._sent: dict[str, object] | None = None
        self._unproven: list[str] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        """Notes whether this session judges, or is a worker of pytest-xdist."""
        self._sent = getattr(config, "workeroutput", None)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Notes a choice by -m "not full", which is `make test`'s, or by -k, --lf and the like."""
        for item in items:
            self._found.add(item.nodeid)
            if item.get_closest_marker("full"):
                self._later.add(item.nodeid)
            else:
                self._is_part = True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._found.update(item.nodeid for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the outcome of one phase of a test: what is not passed stays."""
        if self._outcomes.get(report.nodeid, "passed") == "passed":
            self._outcomes[report.nodeid] = report.outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Notes the tests that a worker has found. The workers find the same, if they end well."""
        sent = getattr(node, "workeroutput", {})
        self._found.update(sent.get("found", ()))
        self._later.update(sent.get("later", ()))
        self._is_part |= sent.get("is_part", False)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails the session if a named test is not proven."""
        if self._sent is not None:
            self._sent |= {
                "found": sorted(self._found),
                "later": sorted(self._later),
                "is_part": self._is_part,
            }
            return
        config = session.config
        if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or not self._found:
            return  # paths were given: the rest of the suite is unknown
        is_whole = not self._is_part and not config.option.collectonly
        texts = [path.read_text() for path in self._documents.glob("**/*.md")]
        later = dict.fromkeys(self._later, "later")
        outcomes = {**self._outcomes, **later} if is_whole else None
        self._unproven = unproven(named_tests(texts), self._found, outcomes, self._accepted)
        if self._unproven and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unproven:
            terminalreporter.section("named in docs/ as proof, and not proven by this run")
            for line in self._unproven:
                terminalreporter.line(line)
