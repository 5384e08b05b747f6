"""Where a function of the user's Python comes from."""

from __future__ import annotations

import builtins
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


def test_a_text_is_run_once_and_one_that_is_only_judged_leaves_no_trace(tmp_path: Path) -> None:
    """A module may open connections, and tasks find its classes by its name."""
    counts = "import builtins\nbuiltins.runs = getattr(builtins, 'runs', 0) + 1\n"
    text = f"{counts}def flow(source): return 1"
    running = PythonTransform(function="b_flow:flow", inline=text)
    edited = PythonTransform(function="b_flow:flow", inline=text.replace("return 1", "return 2"))
    other = PythonTransform(function="c_flow:flow", inline=text)
    function = load_function(running, tmp_path)
    assert load_function(running, tmp_path) is function
    module = sys.modules["b_flow"]
    with without_effect():
        assert [load_function(each, tmp_path)(None) for each in (edited, other)] == [2, 1]
    assert sys.modules["b_flow"] is module
    assert "c_flow" not in sys.modules
    assert load_function(running, tmp_path) is function
    assert vars(builtins).pop("runs") == 3
    assert "b_flow" in cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    with without_effect():
        pass
    del sys.modules["b_flow"]


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
