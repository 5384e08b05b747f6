"""Reads manifests: the streams of a YAML file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.api.group_version import API_VERSION, KIND


class UnreadableFile(Exception):
    """A file that cannot be opened or is not YAML; the message has its path and the reason."""


@dataclass(frozen=True)
class Document:
    """One ContinuousStream of a file, not validated yet."""

    line: int
    """The line where it starts, from 1."""
    content: dict[str, Any]

    @property
    def name(self) -> str:
        """The stream's name; "?" if it has none."""
        metadata = self.content.get("metadata")
        return str(metadata.get("name", "?")) if isinstance(metadata, dict) else "?"


def load_documents(path: Path) -> Iterator[Document]:
    """The ContinuousStreams of a file, without its other resources; raises UnreadableFile."""
    try:
        text = path.read_text()
        nodes = [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None]
        loaded = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableFile(f"{path}: {' '.join(str(error).split())}") from error
    for node, content in zip(nodes, loaded, strict=False):
        if isinstance(content, dict) and _is_stream(content):
            yield Document(node.start_mark.line + 1, content)


def _is_stream(content: dict[str, Any]) -> bool:
    group = API_VERSION.partition("/")[0]
    return content.get("kind") == KIND and str(content.get("apiVersion", "")).startswith(group)
