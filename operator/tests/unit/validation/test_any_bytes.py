"""`penstock validate` says something about any bytes, within bounds of time and memory."""

from __future__ import annotations

import json
import os
import resource
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

from penstock.validation.findings import check
from penstock.validation.output import as_github, as_json, as_sarif, as_text, summary
from penstock.validation.reading.loading import load
from testkit.streams.every_field import WIDE
from testkit.streams.manifest_table import TEXT
from testkit.streams.streams import KAFKA_TO_KAFKA, changed, manifest
from testkit.streams.texts import TEXTS

_EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "150"))
_fuzz = settings(
    max_examples=_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# A megabyte is what Linux adds to the rest: Python with the models and the parser takes 80 MB.
_MEMORY = 300 * 2**20
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
    "many keys": (TEXT + "".join(f"k{n}: 1\n" for n in range(200_000))).encode(),
    "many wrong fields": (TEXT + "".join(f"  k{n}: 1\n" for n in range(40_000))).encode(),
    "many documents": (TEXT + "---\n").encode() * 5_000,
    "many empty documents": b"---\n" * 2_000_000,
    "a huge integer": f"{TEXT}  executor: {{cores: {'9' * 1_000_000}}}".encode(),
    "a huge key": f"{TEXT}  {'k' * 1_000_000}: 1".encode(),
    "a huge text": f"{TEXT}  queryName: {'k' * 1_200_000}".encode(),
    "a huge file": b"a" * 20_000_000,
    "zeros": bytes(1_000_000),
    "binary": bytes(range(256)) * 4000,
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-32": TEXT.encode("utf-32"),
    "deep JSON": b'{"a":' * 100_000,
    "an open JSON text": b'{"' + b"a" * 3_000_000,
    "tags": (TEXT + "x: [" + "!a b, " * 20_000 + "]").encode(),
    "anchors": (TEXT + "x: [" + "".join(f"&a{n} b, " for n in range(20_000)) + "]").encode(),
    "a pattern": TEXT.replace('"topics": ["a"]', f'"topicPattern": "{"(a+)+" * 100}$"').encode(),
    "quotes": (TEXT + "  queryName: '" + "''" * 500_000).encode(),
    "many broken documents": b"---\na: [\n" * 500_000,
    "comments": b"#" * 1_000_000 + b"\n" + b"# a\n" * 300_000,
}


# Seconds of a processor, which do not depend on what else runs.
_SECONDS = 2


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    most = _SECONDS * len(HOSTILE)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))


@pytest.fixture(autouse=True, scope="module")
def _bounded_growth() -> Iterator[None]:
    """Files may need what `_MEMORY` leaves beside Python and the models."""
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    growth = _MEMORY - 80 * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + growth, most))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (before, most))


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


def test_hostile_files_end_with_a_finding_within_bounds(tmp_path: Path) -> None:
    """All in one process of at most 300 MB, so that nothing of one file stays behind either."""
    for name, data in HOSTILE.items():
        (tmp_path / f"{name}.yaml").write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "validate", "--format=json", str(tmp_path)],
        capture_output=True,
        text=True,
        preexec_fn=_bounded,
    )
    assert done.stderr == ""
    assert done.returncode == 1
    found = json.loads(done.stdout)
    judged = {Path(each["file"]).stem for each in found["findings"]}
    # These hold nothing that is wrong, only much of it.
    assert set(HOSTILE) - judged == {"UTF-16", "a pattern"}
    assert found["valid"] > 1


def _everything(data: bytes) -> None:
    """Whatever the command line does with a file: it must not raise."""
    with _bounded_time():
        report = check("any", load(data))
    for each in report.findings:
        assert each.line >= 1
        assert each.column >= 1
        assert "\n" not in as_text(each)
        assert "\n" not in as_github(each)
    assert summary(report)
    json.loads(as_json(report))
    json.loads(as_sarif(report))


_STREAM = manifest("a", KAFKA_TO_KAFKA)


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


@settings(_fuzz, max_examples=_EXAMPLES // 5)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_any_sql_in_a_file(texts: list[str]) -> None:
    """The parser runs in a process that the kernel bounds: 2 s and 192 MiB (test_judge.py)."""
    documents = [changed(_STREAM, "spec.transform", {"sql": text}) for text in texts]
    _everything("\n".join(map(json.dumps, documents)).encode())


def test_the_texts_of_a_file_are_judged_up_to_a_bound() -> None:
    """Each is short enough, and all together would take a minute."""
    slow = [f"SELECT {'offset + ' * 3000}{n} AS value FROM source" for n in range(40)]
    documents = [changed(_STREAM, "spec.transform", {"sql": text}) for text in slow]
    report = check("any", load("\n".join(map(json.dumps, documents)).encode()))
    said = [each.message for each in report.findings if each.reason == "NotJudged"]
    assert len(said) == len(slow) - 6
    assert "put the stream into a file of its own" in said[0]


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
