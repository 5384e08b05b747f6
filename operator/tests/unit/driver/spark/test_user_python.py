"""Where a function of the user's Python comes from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from penstock.api.v1alpha1.transforms import PythonTransform
from penstock.driver.failures import DriverError
from penstock.driver.spark.query import sink_function
from penstock.driver.spark.user_python import load_function, without_effect
from testkit.streams.streams import MICRO_BATCH, spec

OF_IMAGE = PythonTransform(function="a_flow:flow")
INLINE = PythonTransform(function="a_flow:flow", inline="def flow(source): return 'inline'")


def test_a_module_of_a_text_hides_none_of_the_image_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an edit that is taken back, or that was only judged."""
    (tmp_path / "a_flow.py").write_text("def flow(source): return 'image'")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "a_flow", raising=False)
    loaded = [load_function(each, tmp_path)(None) for each in (OF_IMAGE, INLINE, OF_IMAGE, INLINE)]
    assert loaded == ["image", "inline", "image", "inline"]
    monkeypatch.delitem(sys.modules, "a_flow")


def test_a_text_that_is_only_judged_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classes of the one that runs are looked for in its module."""
    (tmp_path / "d_flow.py").write_text("def flow(source): return 'image'")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {}
    for name, text in (("b_flow", "def flow(source): return 1"), ("d_flow", None)):
        load_function(PythonTransform(function=f"{name}:flow", inline=text), tmp_path)
        before[name] = sys.modules[name]
    with without_effect():
        for name in ("b_flow", "c_flow", "d_flow"):
            edited = PythonTransform(function=f"{name}:flow", inline="def flow(source): return 2")
            assert load_function(edited, tmp_path)(None) == 2
    assert {name: sys.modules.pop(name) for name in before} == before
    assert "c_flow" not in sys.modules
    registered = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    assert "b_flow" in registered
    assert not registered & {"c_flow", "d_flow"}


def test_a_text_may_have_classes_that_look_for_their_module(tmp_path: Path) -> None:
    text = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Row:
    key: int

def flow(source):
    return Row(1)
"""
    row = load_function(PythonTransform(function="f_flow:flow", inline=text), tmp_path)(None)
    assert row.key == 1
    broken = PythonTransform(function="f_flow:flow", inline=f"{text}\n1 / 0")
    module = sys.modules["f_flow"]
    with pytest.raises(DriverError):
        load_function(broken, tmp_path)
    assert sys.modules.pop("f_flow") is module


def test_a_module_that_ends_the_process_is_a_failure(tmp_path: Path) -> None:
    program = PythonTransform(function="d:flow", inline="import sys\nsys.exit(0)")
    with pytest.raises(DriverError, match=r"the module d failed: SystemExit: 0 \(inline, line 2\)"):
        load_function(program, tmp_path)


@pytest.mark.parametrize(
    "text", ["def f(rows): pass", "f = 1", "def f(rows, batch, more): pass", "class f: pass"]
)
def test_a_sink_takes_the_rows_and_the_batch(text: str, tmp_path: Path) -> None:
    sink = {"python": {"function": "e:f", "inline": text}}
    it = spec(sink=sink, trigger=MICRO_BATCH)
    with pytest.raises(DriverError, match="e:f must take two arguments"):
        sink_function(it, tmp_path)
    del sys.modules["e"]
