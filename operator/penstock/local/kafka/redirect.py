"""Redirects a stream to another Kafka broker. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.kafka import KafkaClient, KafkaConnection
from penstock.api.v1alpha1.stream import ContinuousStream

# Kafka client options about security; the local broker has none.
_SECURITY = re.compile(r"^kafka\.(ssl\.|sasl\.|security\.|config\.providers)")
_SECURITY_FIELDS = ("tls", "sasl", "secret_options")


@dataclass(frozen=True)
class Redirected:
    """A stream that uses the other broker, and what was removed from it."""

    stream: ContinuousStream
    dropped: tuple[str, ...]
    """The paths of the removed fields and options in the resource."""


def uses_kafka(spec: StreamSpec) -> bool:
    """Whether the source or the sink is Kafka."""
    return spec.source.kafka is not None or spec.sink.kafka is not None


def redirect(
    stream: ContinuousStream, bootstrap: str, *, keep_security: bool = False
) -> Redirected:
    """The stream with this address for source and sink, and without TLS and SASL unless kept."""
    spec, dropped = stream.spec, list[str]()
    # Source and sink hold complete connections, so the shared one has no more readers.
    changes: dict[str, Any] = {"kafka": None}
    for part in ("source", "sink"):
        end = getattr(spec, part)
        client: KafkaClient | None = end.kafka
        if client is None:
            continue
        update: dict[str, Any] = {"bootstrap_servers": bootstrap}
        if not keep_security:
            update |= _without_security(client)
            shared = _shared_settings(spec, client)
            dropped += [
                f"spec.kafka.{each}" if each in shared else f"spec.{part}.kafka.{each}"
                for each in _security_settings(client)
            ]
        changes[part] = end.model_copy(update={"kafka": client.model_copy(update=update)})
    return Redirected(
        stream.model_copy(update={"spec": spec.model_copy(update=changes)}),
        tuple(dict.fromkeys(dropped)),
    )


def _shared_settings(spec: StreamSpec, client: KafkaClient) -> list[str]:
    """The security settings that the client has from spec.kafka."""
    shared = spec.kafka
    if shared is None or shared.bootstrap_servers != client.bootstrap_servers:
        return []
    return _security_settings(shared)


def _security_settings(client: KafkaConnection) -> list[str]:
    fields = [name for name in _SECURITY_FIELDS if getattr(client, name)]
    aliases = [type(client).model_fields[name].alias or name for name in fields]
    options = [f"options.{name}" for name in client.options if _SECURITY.match(name)]
    return [*aliases, *options]


def _without_security(client: KafkaClient) -> dict[str, Any]:
    kept = {name: value for name, value in client.options.items() if not _SECURITY.match(name)}
    return {"tls": None, "sasl": None, "secret_options": {}, "options": kept}
