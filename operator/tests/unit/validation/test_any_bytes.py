"""`penstock validate` says something about any bytes, within bounds of time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.validation.file_check import check
from penstock.validation.reading.documents import load
from penstock.validation.report import as_github, as_json, as_sarif, as_text, summary
from testkit.streams.every_field import WIDE
from testkit.streams.manifest_table import TEXT
from testkit.streams.streams import manifest

_EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "150"))
_fuzz = settings(
    max_examples=_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
HOSTILE: dict[str, bytes] = {
    "alias bomb": f"{TEXT}{_BOMB}".encode(),
    "alias bomb of keys": (TEXT + "x: &x {a: 1}\n" + "<<: [" + "*x, " * 50000 + "]\n").encode(),
    "deep lists": b"[" * 100_000,
    "deep maps": b"{a: " * 100_000,
    "deep blocks": "".join(f"{' ' * n}a:\n" for n in range(1000)).encode(),
    "wide": (TEXT + "x: [" + "1," * 500_000 + "]").encode(),
    "many wrong fields": (TEXT + "".join(f"  k{n}: 1\n" for n in range(40_000))).encode(),
    "a huge integer": f"{TEXT}  executor: {{cores: {'9' * 1_000_000}}}".encode(),
    "a huge key": f"{TEXT}  {'k' * 1_000_000}: 1".encode(),
    "zeros": bytes(1_000_000),
    "UTF-16": TEXT.encode("utf-16"),
    "an open JSON text": b'{"' + b"a" * 3_000_000,
}
_SECONDS = 2  # of a processor, which do not depend on what else runs


def _too_slow(*_: object) -> None:
    raise AssertionError(f"more than {_SECONDS} s of a processor")


@contextmanager
def _bounded_time() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_ends_with_a_finding(data: bytes) -> None:
    with _bounded_time():
        assert check(load(data, "any")).findings


def _everything(data: bytes) -> None:
    """Whatever the command line does with a file: it must not raise."""
    with _bounded_time():
        report = check(load(data, "any"))
    for finding in report.findings:
        assert finding.line >= 1
        assert finding.column >= 1
        assert "\n" not in as_text(finding)
        assert "\n" not in as_github(finding)
    assert summary(report)
    json.loads(as_json(report))
    json.loads(as_sarif(report))


def test_a_name_of_several_lines() -> None:
    _everything(json.dumps(manifest("a\nb", {})).encode())


@_fuzz
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    _everything(data)
    _everything(TEXT.encode() + data)


_TOKENS = [
    "a", "1", "'", '"', "[", "]", "{", "}", ":", ": ", ",", "- ", "\n", "\n  ", "---", "...", "&a ",
    "*a", "!a ", "!!int ", "<<: ", "|", ">", "#", "%", "\t", "~", "\\", "? ", "kind: List",
    "items:", "\ufeff", "\x85", "\u2028", "é", "😀", "\x00", "\r", "apiVersion: penstock.dev/v1",
]  # fmt: skip


@_fuzz
@given(st.lists(st.sampled_from(_TOKENS), max_size=40).map("".join), st.integers(0, len(TEXT)))
def test_any_tokens_of_yaml_anywhere(text: str, at: int) -> None:
    _everything((TEXT[:at] + text + TEXT[at:]).encode())


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    return [path, *(each for name, inner in steps for each in _paths(inner, (*path, name)))]


@st.composite
def _spoiled(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest with one value anywhere replaced by any other."""
    found = json.loads(json.dumps(manifest("a", draw(st.sampled_from(WIDE)))))
    path = draw(st.sampled_from(_paths(found)[1:]))
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = draw(_values)
    return dict(found)


@_fuzz
@given(_spoiled())
def test_any_structure(document: dict[str, Any]) -> None:
    """As JSON, as YAML, and inside of a List."""
    _everything(json.dumps(document).encode())
    listed = {"apiVersion": "v1", "kind": "List", "items": [document, document]}
    _everything(yaml.safe_dump(listed, allow_unicode=True).encode(errors="surrogatepass"))


@pytest.mark.parametrize("name", ["missing.yaml", "a\x00b", "folder", "x" * 5000])
def test_a_path_that_is_no_file_is_a_finding(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from penstock.cli import main; "
         "sys.exit(main(['validate', eval(sys.argv[1])]))", repr(str(tmp_path / name))],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: cannot be read: " in done.stdout
    assert done.stderr == ""
