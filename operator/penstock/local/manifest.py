"""The file that is run: one stream, judged by the rules before a JVM is started."""

from __future__ import annotations

from pathlib import Path

from penstock.api.group_version import API_VERSION, KIND
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.local.errors import Refused
from penstock.validation.manifests import Unreadable, documents, findings_of


def load(path: Path) -> tuple[ContinuousStream, list[str]]:
    """The stream and what to warn about; raises Refused with everything that is wrong."""
    try:
        streams = list(documents(path))
    except Unreadable as error:
        raise Refused(str(error), code=2) from error
    if len(streams) != 1:
        raise Refused(f"{path}: {_not_one([document for _, document in streams])}")
    ((line, document),) = streams
    found = list(findings_of(str(path), line, document, local=True))
    errors = [each.as_text() for each in found if each.severity == "error"]
    if errors:
        raise Refused("\n".join(errors))
    stream = on_one_machine(ContinuousStream.model_validate(document))
    return stream, [each.as_text() for each in found]


def on_one_machine(stream: ContinuousStream) -> ContinuousStream:
    """The stream without the limits that its owner set for a cluster: cores cost nothing here."""
    executor = stream.spec.executor.model_copy(update={"min_instances": 1, "max_instances": None})
    return stream.model_copy(update={"spec": stream.spec.model_copy(update={"executor": executor})})


def _not_one(streams: list[dict[str, object]]) -> str:
    if not streams:
        return f"there is no {KIND} ({API_VERSION}) in it"
    names = [
        str(metadata.get("name", "?")) if isinstance(metadata, dict) else "?"
        for metadata in (each.get("metadata") for each in streams)
    ]
    return (
        f"there are {len(streams)} streams in it ({', '.join(names)}): "
        "put the one to run into a file of its own"
    )
