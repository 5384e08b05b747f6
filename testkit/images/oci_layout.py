"""OCI layouts on disk, and archives with only the blobs that a node lacks.

A change of our code changes few layers of an image. Writing and importing all of them would take
half a minute for each change.
"""

import io
import json
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

_CONTAINERD_NAME = "io.containerd.image.name"
_OCI_NAME = "org.opencontainers.image.ref.name"


def write_missing(layout: Path, ref: str, present: Collection[str], target: Path) -> None:
    """Writes an archive of one image of a layout, without the blobs in `present`."""
    entry = _entry(layout, ref)
    manifest = json.loads(_blob(layout, entry["digest"]).read_bytes())
    layers = [layer["digest"] for layer in manifest["layers"]]
    always = [entry["digest"], manifest["config"]["digest"]]
    index = {
        "schemaVersion": 2,
        "manifests": [{**entry, "annotations": {_CONTAINERD_NAME: ref, _OCI_NAME: ref}}],
    }
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", json.dumps(index).encode())
        for digest in dict.fromkeys([*always, *(d for d in layers if d not in present)]):
            archive.add(_blob(layout, digest), f"blobs/{digest.replace(':', '/')}")


def prune(layout: Path, keep: Collection[str]) -> None:
    """Removes all other images from a layout, and the blobs that only they used."""
    path = layout / "index.json"
    index = json.loads(path.read_text())
    kept = [entry for entry in index["manifests"] if entry["annotations"].get(_OCI_NAME) in keep]
    path.write_text(json.dumps({**index, "manifests": kept}))
    used = {digest for entry in kept for digest in _digests(layout, entry)}
    for blob in (layout / "blobs" / "sha256").iterdir():
        if f"sha256:{blob.name}" not in used:
            blob.unlink()


def _digests(layout: Path, entry: dict[str, Any]) -> Iterator[str]:
    yield entry["digest"]
    manifest = json.loads(_blob(layout, entry["digest"]).read_bytes())
    yield manifest["config"]["digest"]
    yield from (layer["digest"] for layer in manifest["layers"])


def _entry(layout: Path, ref: str) -> dict[str, Any]:
    index = json.loads((layout / "index.json").read_text())
    found = [m for m in index["manifests"] if m["annotations"].get(_OCI_NAME) == ref]
    entry: dict[str, Any] = found[-1]
    return entry


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
