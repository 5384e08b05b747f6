"""The stream to run: its manifest, checked before a JVM is started, and the files that it uses."""

from __future__ import annotations

from pathlib import Path

from penstock.api.group_version import API_VERSION, KIND
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.command_line import CommandError
from penstock.contract.secrets import secret_keys
from penstock.validation.file_check import check, check_document
from penstock.validation.reading.documents import load
from penstock.validation.reading.files import STDIN, UnreadableFile, read_file
from penstock.validation.report import as_text


def load_stream(path: Path) -> tuple[ContinuousStream, list[str]]:
    """The stream and its warnings; raises CommandError with everything that is wrong.

    The path - is the standard input.
    """
    try:
        loaded = load(read_file(None if str(path) == STDIN else path), str(path))
    except UnreadableFile as error:
        raise CommandError(f"{path}: {error}", code=2) from error
    if loaded.findings:
        unreadable = check(loaded).findings
        raise CommandError("\n".join(as_text(finding) for finding in unreadable), code=2)
    if len(loaded.streams) != 1:
        raise CommandError(f"{path}: {_not_one([stream.name for stream in loaded.streams])}")
    (document,) = loaded.streams
    findings = list(check_document(document, local=True))
    errors = [as_text(finding) for finding in findings if finding.severity == "error"]
    if document.name == "?":
        errors.append(f"{path}: metadata.name: `penstock run` needs it, also beside generateName")
    if errors:
        raise CommandError("\n".join(errors))
    stream = with_local_checkpoint(ContinuousStream.model_validate(document.content))
    return stream, [as_text(finding) for finding in findings]


def with_local_checkpoint(stream: ContinuousStream) -> ContinuousStream:
    """The stream with its checkpoint in a folder, also if a cluster has it in an object store."""
    checkpoint = stream.spec.checkpoint.model_copy(update={"object_store": None})
    spec = stream.spec.model_copy(update={"checkpoint": checkpoint})
    return stream.model_copy(update={"spec": spec})


def _not_one(names: list[str]) -> str:
    if not names:
        return f"no {KIND} ({API_VERSION}) found"
    return (
        f"{len(names)} streams found ({', '.join(names)}): put the one to run in a file of its own"
    )


def require_files(spec: StreamSpec, secrets: Path, config_maps: Path) -> None:
    """Raises CommandError, with the files to create, if a key that the stream uses is missing."""
    needed = {
        secrets / name / key: f"key {key} of the Secret {name}"
        for name, keys in secret_keys(spec).items()
        for key in keys
    }
    refs = (function.config_map for function in spec.python_functions)
    for ref in filter(None, refs):
        needed[config_maps / ref.name / ref.key] = f"key {ref.key} of the ConfigMap {ref.name}"
    missing = [f"{file}: {what}" for file, what in needed.items() if not file.is_file()]
    if missing:
        raise CommandError(
            "missing Secrets or ConfigMaps: create these files, or name the folders that hold them "
            "with --secrets and --config-maps:\n" + "\n".join(missing),
            code=2,
        )
