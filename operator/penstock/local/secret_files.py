"""Secrets and ConfigMaps of a stream, as files on this machine."""

from __future__ import annotations

from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.secrets import secret_keys
from penstock.local.errors import CommandError


def require_files(spec: StreamSpec, secrets: Path, config_maps: Path) -> None:
    """Raises CommandError, with the files to create, if a key that the stream uses is missing."""
    wanted = {
        secrets / name / key: f"key {key} of the Secret {name}"
        for name, keys in secret_keys(spec).items()
        for key in keys
    }
    python = spec.transform.python
    if python is not None and python.config_map is not None:
        ref = python.config_map
        wanted[config_maps / ref.name / ref.key] = f"key {ref.key} of the ConfigMap {ref.name}"
    missing = [f"{file}: {what}" for file, what in wanted.items() if not file.is_file()]
    if missing:
        raise CommandError(
            "missing Secrets or ConfigMaps: create these files, or name the folders that hold them "
            "with --secrets and --config-maps:\n" + "\n".join(missing),
            code=2,
        )
