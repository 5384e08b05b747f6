"""Loads the manifest to run: one stream, checked by the rules before a JVM is started."""

from __future__ import annotations

from pathlib import Path

from penstock.api.group_version import API_VERSION, KIND
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.local.errors import CommandError
from penstock.validation.findings import check_document
from penstock.validation.loading import UnreadableFile, load_documents
from penstock.validation.output import as_text


def load_stream(path: Path) -> tuple[ContinuousStream, list[str]]:
    """The stream and its warnings; raises CommandError with everything that is wrong."""
    try:
        documents = list(load_documents(path))
    except UnreadableFile as error:
        raise CommandError(str(error), code=2) from error
    if len(documents) != 1:
        raise CommandError(f"{path}: {_not_one([each.content for each in documents])}")
    (document,) = documents
    findings = list(check_document(str(path), document, local=True))
    errors = [as_text(each) for each in findings if each.severity == "error"]
    if errors:
        raise CommandError("\n".join(errors))
    stream = without_cluster_limits(ContinuousStream.model_validate(document.content))
    return stream, [as_text(each) for each in findings]


def without_cluster_limits(stream: ContinuousStream) -> ContinuousStream:
    """The stream without its limits on executors, which are meant for a cluster."""
    executor = stream.spec.executor.model_copy(update={"min_instances": 1, "max_instances": None})
    return stream.model_copy(update={"spec": stream.spec.model_copy(update={"executor": executor})})


def _not_one(streams: list[dict[str, object]]) -> str:
    if not streams:
        return f"no {KIND} ({API_VERSION}) found"
    names = [
        str(metadata.get("name", "?")) if isinstance(metadata, dict) else "?"
        for metadata in (each.get("metadata") for each in streams)
    ]
    return (
        f"{len(streams)} streams found ({', '.join(names)}): "
        "put the one to run in a file of its own"
    )
