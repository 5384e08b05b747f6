"""A node gets only the blobs that it lacks."""

import hashlib
import json
import tarfile
from pathlib import Path

from testkit.images.oci_layout import prune, write_missing


def _blob(layout: Path, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    folder = layout / "blobs" / "sha256"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return f"sha256:{name}"


def _image(layout: Path, ref: str, layers: list[bytes]) -> dict[str, object]:
    digests = [_blob(layout, layer) for layer in layers]
    config = _blob(layout, json.dumps({"for": ref}).encode())
    manifest = {"config": {"digest": config}, "layers": [{"digest": d} for d in digests]}
    digest = _blob(layout, json.dumps(manifest).encode())
    return {"digest": digest, "annotations": {"org.opencontainers.image.ref.name": ref}}


def _layout(folder: Path) -> Path:
    images = [_image(folder, "one:1", [b"base", b"one"]), _image(folder, "two:2", [b"base", b"2"])]
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": images}))
    return folder


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_an_archive_omits_the_layers_that_are_present(tmp_path: Path) -> None:
    target = tmp_path / "image.tar"
    write_missing(_layout(tmp_path / "layout"), "one:1", [_digest(b"base")], target)
    with tarfile.open(target) as archive:
        names = archive.getnames()
        index = archive.extractfile("index.json")
        assert index is not None
        entries = json.loads(index.read())["manifests"]
    assert f"blobs/{_digest(b'one').replace(':', '/')}" in names
    assert f"blobs/{_digest(b'base').replace(':', '/')}" not in names
    assert [entry["annotations"]["io.containerd.image.name"] for entry in entries] == ["one:1"]


def test_pruning_keeps_the_layers_of_the_images_that_stay(tmp_path: Path) -> None:
    layout = _layout(tmp_path / "layout")
    prune(layout, ["two:2"])
    left = {f"sha256:{path.name}" for path in (layout / "blobs" / "sha256").iterdir()}
    assert _digest(b"base") in left
    assert _digest(b"2") in left
    assert _digest(b"one") not in left
