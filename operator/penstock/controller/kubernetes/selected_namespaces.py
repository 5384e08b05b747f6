"""The namespaces that a label selector selects, as a watch shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.objects import Object


class SelectedNamespaces:
    """What `Watch` fills in the place of the cache: it gets and loses namespaces one by one.

    The API server judges the selector: a namespace that loses its labels is shown as deleted.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, namespace: str) -> bool:
        """From any thread."""
        return namespace in self._names

    def put(self, manifest: Manifest, *, listed: bool = False) -> Key | None:
        """Takes a namespace. Returns its key, without a namespace, if it is new."""
        key = Object(manifest).key
        if key.name in self._names:
            return None
        self._names.add(key.name)
        return key

    def remove(self, manifest: Manifest) -> Key | None:
        """Takes a namespace away, and returns its key."""
        key = Object(manifest).key
        self._names.discard(key.name)
        return key

    def retain(self, kind: Kind, namespace: str, listed: Iterable[Key]) -> Sequence[Key]:
        """Keeps those of a whole list; returns the keys of the others."""
        gone = self._names - {key.name for key in listed}
        self._names -= gone
        return [Key("", name) for name in sorted(gone)]
