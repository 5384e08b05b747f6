"""Where a function of the user's Python comes from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.api.v1alpha1.transforms import PythonTransform
from penstock.driver.spark.user_python import load_function

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
