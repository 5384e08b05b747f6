"""The pieces of YAML in the documents are pieces of a valid stream."""

from __future__ import annotations

import copy
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.api.group_version import KIND
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.operator_settings import PodSecurity
from penstock.contract.stream_defaults import StreamDefaults
from penstock.local.cases.case_file import CaseFile, read_cases
from penstock.validation.spec_check import judge_defaults
from testkit.paths import CHECKOUT

# In a list it is indented.
_BLOCK = re.compile(r"^ *```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("**/*.md"))]
BLOCKS = [
    pytest.param(textwrap.dedent(text), id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, text in enumerate(_BLOCK.findall(path.read_text()))
]
_CONNECTION_FIELDS = {"tls", "sasl", "secretOptions", "options"}
_STREAM: dict[str, Any] = {
    "apiVersion": "penstock.dev/v1alpha1",
    "kind": "ContinuousStream",
    "metadata": {"name": "whole"},
    "spec": {
        "kafka": {"bootstrapServers": "kafka:9092"},
        "source": {"kafka": {"topics": ["in"]}},
        "sink": {"kafka": {"topic": "out"}},
        "trigger": {"microBatch": {}},
    },
}


def _whole(piece: dict[str, Any]) -> dict[str, Any]:
    """A stream with this piece in it: itself, some fields of its spec, or of its connection."""
    if "apiVersion" in piece:
        return piece
    stream = copy.deepcopy(_STREAM)
    spec = stream["spec"]
    (spec["kafka"] if set(piece) <= _CONNECTION_FIELDS else spec).update(piece)
    return stream


@pytest.mark.parametrize("text", BLOCKS)
def test_every_piece_of_yaml_fits_into_a_stream(text: str) -> None:
    """Whole resources are also applied to a real API server (integration/api/test_admission.py).

    Objects of other kinds are only parsed.
    """
    piece = yaml.safe_load(text)
    if isinstance(piece, list) or "cases" in piece:  # of penstock test
        whole = f"stream: a.yaml\ncases:\n{text}" if isinstance(piece, list) else text
        assert isinstance(read_cases(Path("cases.yaml"), whole.encode()), CaseFile)
    elif set(piece) == {"watchNamespaceSelector"}:
        assert set(piece["watchNamespaceSelector"]) <= {"matchLabels", "matchExpressions"}
    elif "streamDefaults" in piece:  # a value of the chart, like the one before
        defaults = StreamDefaults(piece["streamDefaults"])
        assert judge_defaults(defaults, PodSecurity.RESTRICTED) == []
    elif piece.get("kind", KIND) == KIND:
        ContinuousStream.model_validate(_whole(piece))
