"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import penstock

_PACKAGE = Path(penstock.__file__).parent
_WITH_EXAMPLES = [
    ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)
    for path in sorted(_PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", _WITH_EXAMPLES)
def test_examples(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
