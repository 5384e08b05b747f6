"""Image archives without a container engine: images of one layer that hold one program each."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """This machine's architecture as images name it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def write_archive(target: Path, images: Mapping[str, tuple[Path, str]]) -> None:
    """Write an archive of images, each given as ``ref: (program, its path in the image)``.

    Everything in it is fixed (times, owners), so that equal programs give an equal archive.
    """
    manifest = []
    with tarfile.open(target, "w") as archive:
        for ref, (program, path) in images.items():
            layer = _layer(program, path)
            layer_digest = hashlib.sha256(layer).hexdigest()
            config = json.dumps(_config(layer_digest, path), sort_keys=True).encode()
            config_name = hashlib.sha256(config).hexdigest() + ".json"
            _add(archive, f"{layer_digest}.tar", layer)
            _add(archive, config_name, config)
            manifest.append(
                {"Config": config_name, "RepoTags": [ref], "Layers": [f"{layer_digest}.tar"]}
            )
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _config(layer_digest: str, entrypoint: str) -> dict[str, object]:
    return {
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "Entrypoint": [entrypoint],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }


def _layer(program: Path, path: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            folder = tarfile.TarInfo("/".join(parts[:depth]))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(folder)
        _add(layer, path.strip("/"), program.read_bytes(), mode=0o755)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
