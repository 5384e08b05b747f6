"""Writes what is generated of docs/testing.md."""

from scripts.codegen import marked
from testkit.driver import checkpoint_damage


def with_lists(document: str) -> str:
    return marked.filled(document, {"damages": checkpoint_damage.table()})
