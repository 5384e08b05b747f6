"""What a Kafka source and a Kafka sink have in common: where the brokers are and how to get in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from penstock.api.rules import Rule, cel_string, not_among
from penstock.api.v1alpha1.base import KeyRef, ObjectName, Option, Options, SpecObject

Topic = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]

# Options that a field says; and those whose values would be credentials in plain sight.
COMMON_OPTIONS = {
    "kafka.bootstrap.servers": "use bootstrapServers",
    "kafka.security.protocol": "use tls and sasl",
    "kafka.sasl.mechanism": "use sasl.mechanism",
    "kafka.sasl.jaas.config": "use sasl, or secretOptions",
    "kafka.ssl.truststore.password": "use tls.caSecret, or secretOptions",
    "kafka.ssl.keystore.password": "use tls.clientSecret, or secretOptions",
    "kafka.ssl.keystore.key": "use tls.clientSecret, or secretOptions",
    "kafka.ssl.key.password": "use tls.clientSecret, or secretOptions",
    "checkpointLocation": "use spec.checkpoint",
}

# Keys whose values are credentials, in the Kafka client's naming (sasl.jaas.config,
# ssl.*.password, ssl.keystore.key, sasl.oauthbearer.client.credentials.client.secret...).
_CREDENTIAL = r"(password|secret|jaas\.config|keystore\.key|private\.key)$"


def _credentials(options: Mapping[str, str]) -> list[str]:
    return [
        name
        for name in options
        if name not in COMMON_OPTIONS and re.search(_CREDENTIAL, name.lower())
    ]


NO_PLAIN_CREDENTIALS = Rule(
    cel="!has(self.options) || !self.options.exists(k, k.lowerAscii()"
    f".matches({cel_string(_CREDENTIAL)}))",
    message="options cannot hold a credential in plain text: use secretOptions",
    holds=lambda it: not _credentials(it.options),
    words=lambda it: (
        "options cannot hold a credential in plain text: use secretOptions for "
        + ", ".join(_credentials(it.options))
    ),
)
NOT_SAID_TWICE = Rule(
    cel="!has(self.options) || !has(self.secretOptions) || "
    "!self.options.exists(k, k in self.secretOptions)",
    message="an option stands in options and in secretOptions: keep the one in secretOptions",
    holds=lambda it: not set(it.options) & set(it.secret_options),
)
ONE_WAY_IN = Rule(
    cel="!has(self.sasl) || !has(self.secretOptions) || "
    "!('kafka.sasl.jaas.config' in self.secretOptions)",
    message="sasl and secretOptions kafka.sasl.jaas.config exclude each other: keep one",
    holds=lambda it: it.sasl is None or "kafka.sasl.jaas.config" not in it.secret_options,
)


class ClientCertificate(SpecObject):
    """A Secret of the type kubernetes.io/tls."""

    name: ObjectName = Field(
        description="Name of the Secret; its keys are tls.crt and tls.key (PEM, PKCS #8)."
    )


class Tls(SpecObject):
    """TLS to the brokers."""

    ca_secret: KeyRef | None = Field(
        None,
        description="PEM certificates of the authority that signed the brokers'. Default: those "
        "the image's Java trusts.",
    )
    client_secret: ClientCertificate | None = Field(
        None, description="The client's own certificate and key, for mutual TLS."
    )


class Sasl(SpecObject):
    """A user name and a password to the brokers."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        description="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. PLAIN sends the password as it is: use "
        "it with tls only."
    )
    username: Annotated[str, StringConstraints(pattern=r'^[^"\\\n]{1,256}$')] = Field(
        description="The user's name."
    )
    password_secret: KeyRef = Field(description="The Secret's key that holds the password.")


class KafkaClient(SpecObject):
    """The fields of every Kafka client."""

    bootstrap_servers: str = Field(
        min_length=1,
        max_length=4096,
        description="Brokers to begin with, host:port separated by commas.",
        examples=["kafka.kafka:9092"],
    )
    tls: Tls | None = Field(
        None, description="TLS to the brokers; `tls: {}` trusts the usual authorities."
    )
    sasl: Sasl | None = Field(None, description="User name and password.")
    secret_options: Annotated[dict[str, KeyRef], Field(max_length=32)] = Field(
        {},
        description="Options whose values are in Secrets, such as kafka.sasl.jaas.config. A value "
        "is read in the pods, and stands in no ConfigMap, log or status.",
    )


def options_field(what: str, example: dict[str, str]) -> object:
    """The `options` of a client, with Spark's names."""
    return Field(
        {},
        description=f"Further options of {what}, by Spark's own names; the Kafka client's take the "
        "prefix kafka. as in Spark.",
        examples=[example],
    )


def client_rules(**more: str) -> tuple[Rule, ...]:
    """What holds of every Kafka client; `more` are options that fields of this one say."""
    return (
        not_among("options", {**COMMON_OPTIONS, **more}),
        NO_PLAIN_CREDENTIALS,
        NOT_SAID_TWICE,
        ONE_WAY_IN,
    )


__all__ = [
    "COMMON_OPTIONS", "ClientCertificate", "KafkaClient", "Option", "Options", "Sasl", "Tls",
    "Topic", "client_rules", "options_field",
]  # fmt: skip
