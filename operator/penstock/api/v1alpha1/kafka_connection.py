"""The connection to Kafka: brokers, TLS, authentication, and options of Kafka's clients.

`spec.kafka` is the connection that source and sink share. A source or sink that names its own
`bootstrapServers` has its own whole connection and inherits nothing, so that credentials never go
to another broker. A parsed StreamSpec holds complete clients only: it applies `with_connection`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints, WithJsonSchema

from penstock.api.kafka_options import (
    CONSUMER_OPTIONS,
    GUARANTEES_IN_SIGHT,
    OF_CLIENTS,
    PRODUCER_OPTIONS,
    SECRET_CLIENT_OPTIONS,
    allowed_options,
)
from penstock.api.predicates import (
    ValidationRule,
    both_or_neither,
    cel_string,
    every,
    exactly_one,
    in_cel_only,
    is_one_of,
    is_set,
    matches,
    matching,
    some,
)
from penstock.api.v1alpha1.base import (
    MAX_SECRET_OPTIONS,
    NO_OPTION_TWICE,
    ClassName,
    DataKey,
    KeyRef,
    ObjectName,
    Options,
    SecretOptions,
    SpecObject,
    checked_by,
    text_like,
)

Topic = Annotated[
    str,
    text_like(
        # Anything but "." and "..", which are folders for the broker.
        r"^[a-zA-Z0-9._-]*([a-zA-Z0-9_-]|\.\.\.)[a-zA-Z0-9._-]*$",
        "takes at most 249 letters, digits, '.', '_' and '-', and is not . or ..",
        max_length=249,
    ),
]

# The mechanisms whose login modules take a user name and a password.
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

MAX_OPTIONS = 128
# Keys whose values are credentials, in the Kafka client's naming (sasl.jaas.config,
# ssl.*.password, ssl.keystore.key, sasl.oauthbearer.client.credentials.client.secret...).
_CREDENTIAL = r"(password|secret|jaas\.config|keystore\.key|private\.key)$"
# An option of a JAAS login module with a credential as its value: password="x", clientSecret=x,
# awsRoleSecretAccessKey="x". A reference that Kafka resolves itself, ${provider:path:key}, is none.
_JAAS_CREDENTIAL = (
    r"""(password|passwd|secret[a-z0-9_.]*|token|credentials?)["']?\s*=\s*["']?"""
    r"""([^"'$\s]|\$[^{])"""
)


NO_PLAIN_CREDENTIALS = ValidationRule(
    ~is_set("options") | ~some("options", _CREDENTIAL, any_case=True),
    "options cannot hold a credential in plain text: use secretOptions",
    words=lambda it: (
        "options cannot hold a credential in plain text: use secretOptions for "
        + ", ".join(matching(it.options, _CREDENTIAL, any_case=True))
    ),
)
CLIENT_OPTIONS_ONLY = ValidationRule(
    (~is_set("options") | every("options", OF_CLIENTS))
    & (~is_set("secretOptions") | every("secretOptions", OF_CLIENTS)),
    "spec.kafka takes options of Kafka's clients only, with the prefix kafka.: put options of "
    "Spark's source into spec.source.kafka, and those of its sink into spec.sink.kafka",
)
OWN_BROKERS_FOR_OWN_CREDENTIALS = ValidationRule(
    is_set("bootstrapServers") | ~is_set("tls") & ~is_set("sasl"),
    "tls and sasl need bootstrapServers beside them: set bootstrapServers here, or move them to "
    "spec.kafka",
)
CONNECTION_RULES = tuple(
    ValidationRule(
        is_set("kafka") | ~is_set(f"{end}.kafka") | is_set(f"{end}.kafka.bootstrapServers"),
        f"spec.{end}.kafka has no brokers: set its bootstrapServers, or set spec.kafka, which "
        "source and sink share",
    )
    for end in ("source", "sink")
)


class ClientCertificate(SpecObject):
    """A Secret of the type kubernetes.io/tls, or one with other keys, such as Strimzi's."""

    name: ObjectName = Field(description="Name of the Secret.")
    cert_key: DataKey = Field(
        "tls.crt",
        description="Its key with the certificate (PEM); of Strimzi's KafkaUser user.crt. "
        "Default: tls.crt.",
        examples=["user.crt"],
    )
    key_key: DataKey = Field(
        "tls.key",
        description="Its key with the private key (PEM, PKCS #8); of Strimzi's KafkaUser user.key. "
        "Default: tls.key.",
        examples=["user.key"],
    )


class Tls(SpecObject):
    """TLS to the brokers."""

    ca_secret: KeyRef | None = Field(
        None,
        description="PEM certificates of the authority that signed the brokers' certificates. "
        "Default: the authorities that the image's Java trusts.",
    )
    client_secret: ClientCertificate | None = Field(
        None, description="The client's own certificate and key, for mutual TLS."
    )


class Sasl(SpecObject):
    """Authentication to the brokers, by any mechanism that Kafka's client has or can load."""

    rules = (
        ValidationRule(
            exactly_one("passwordSecret", "jaasConfigSecret", "jaasConfig"),
            "sasl takes exactly one of: passwordSecret (with username), jaasConfigSecret, "
            "jaasConfig",
        ),
        ValidationRule(
            both_or_neither("username", "passwordSecret"),
            "username and passwordSecret need each other: set both, or use jaasConfigSecret or "
            "jaasConfig",
        ),
        ValidationRule(
            ~is_set("passwordSecret") | is_one_of("mechanism", *PASSWORD_MECHANISMS),
            "username and passwordSecret are for the mechanisms "
            f"{', '.join(PASSWORD_MECHANISMS)}: use jaasConfigSecret or jaasConfig for others",
        ),
        ValidationRule(
            ~is_set("jaasConfig") | ~matches("jaasConfig", _JAAS_CREDENTIAL),
            "jaasConfig cannot hold a credential in plain text: put the whole text into a Secret "
            "and use jaasConfigSecret",
        ),
    )
    mechanism: Annotated[
        str,
        text_like(r"^[A-Z0-9_-]{1,64}$", "takes at most 64 capital letters, digits, '-' and '_'"),
    ] = Field(
        description="The SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI "
        "(Kerberos), AWS_MSK_IAM, or another one whose classes are on the class path. PLAIN sends "
        "the password unencrypted: use it with tls only.",
        examples=["SCRAM-SHA-512"],
    )
    username: (
        Annotated[
            str,
            text_like(
                r'^[^"\\\n]{1,256}$', "takes at most 256 characters without quotes and backslashes"
            ),
        ]
        | None
    ) = Field(None, description="The user's name, for PLAIN and SCRAM. Needs passwordSecret.")
    password_secret: KeyRef | None = Field(
        None, description="The Secret's key that holds the password. Needs username."
    )
    jaas_config_secret: KeyRef | None = Field(
        None,
        description="The Secret's key that holds the whole JAAS configuration: a login module's "
        "class, `required`, its options, and a semicolon.",
    )
    jaas_config: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = Field(
        None,
        description="The JAAS configuration as plain text, for login modules that need no "
        "credential in it. A text with a credential is refused: use jaasConfigSecret.",
        examples=["software.amazon.msk.auth.iam.IAMLoginModule required;"],
    )
    login_callback_handler_class: ClassName | None = Field(
        None,
        description="The class that gets the credentials at login "
        "(sasl.login.callback.handler.class), such as the one that fetches OAUTHBEARER tokens.",
        examples=["org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"],
    )
    client_callback_handler_class: ClassName | None = Field(
        None,
        description="The class that answers the mechanism's questions "
        "(sasl.client.callback.handler.class).",
        examples=["software.amazon.msk.auth.iam.IAMClientCallbackHandler"],
    )
    kerberos_service_name: (
        Annotated[
            str,
            text_like(
                r"^[A-Za-z0-9._-]{1,256}$", "takes at most 256 letters, digits, '.', '_' and '-'"
            ),
        ]
        | None
    ) = Field(
        None,
        description="For GSSAPI: the primary of the brokers' Kerberos principal "
        "(sasl.kerberos.service.name).",
        examples=["kafka"],
    )


def options_field(what: str, example: dict[str, str]) -> object:
    """The `options` of a client, with Spark's names."""
    return Field(
        {},
        description=f"Further options of {what}, by Spark's own names. Options of Kafka's client "
        "have the prefix kafka., as in Spark.",
        examples=[example],
    )


def client_rules(owned: Mapping[str, str]) -> tuple[ValidationRule, ...]:
    """What holds of every connection; `owned` are the options that cannot be set, and why."""
    return (
        allowed_options(owned),
        NO_PLAIN_CREDENTIALS,
        NO_OPTION_TWICE,
        SECRET_CLIENT_OPTIONS,
        GUARANTEES_IN_SIGHT,
    )


# Kafka's client takes a protocol before the host, as brokers advertise it, and ignores it.
_PROTOCOL = r"((SASL_)?(PLAINTEXT|SSL)://)?"
_HOST_AND_PORT = _PROTOCOL + r"([A-Za-z0-9._%-]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}"
_SERVERS = rf"^\s*{_HOST_AND_PORT}(\s*,\s*{_HOST_AND_PORT})*\s*,?\s*$"
NOT_SERVERS = (
    "not a list of brokers: write host:port, separated by commas, for example kafka.kafka:9092"
)
SERVERS_RULE = ValidationRule(in_cel_only(f"self.matches({cel_string(_SERVERS)})"), NOT_SERVERS)


def _check_servers(servers: str) -> None:
    ports = re.findall(r":([0-9]{1,5})\s*(?:,|$)", servers)
    # One after another: a single expression over all of them would backtrack.
    parts = servers.strip().removesuffix(",").split(",")
    if not all(re.fullmatch(rf"\s*{_HOST_AND_PORT}\s*", part) for part in parts):
        raise ValueError(NOT_SERVERS)
    if not all(1 <= int(port) <= 65535 for port in ports):
        raise ValueError("a port is a number from 1 to 65535")


Servers = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4096),
    checked_by(_check_servers),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "x-kubernetes-validations": [SERVERS_RULE.as_schema()],
        }
    ),
]


class KafkaConnection(SpecObject):
    """A connection to Kafka that source and sink share."""

    rules = (*client_rules({**CONSUMER_OPTIONS, **PRODUCER_OPTIONS}), CLIENT_OPTIONS_ONLY)
    bootstrap_servers: Servers = Field(
        description="The brokers to connect to first, as host:port separated by commas.",
        examples=["kafka.kafka:9092"],
    )
    tls: Tls | None = Field(
        None,
        description="TLS to the brokers. `tls: {}` trusts the authorities that the image's Java "
        "trusts.",
    )
    sasl: Sasl | None = Field(None, description="Authentication by SASL.")
    options: Options = Field(
        {},
        description="Further options of Kafka's clients, with the prefix kafka., as in Spark.",
        examples=[{"kafka.client.dns.lookup": "use_all_dns_ips"}],
    )
    secret_options: SecretOptions = Field(
        {},
        description="Options whose values are in Secrets, such as kafka.ssl.key.password. The "
        "values are read in the pods only: they are in no ConfigMap, log or status.",
    )


class KafkaClient(KafkaConnection):
    """The connection of a source or sink: its own, or that of spec.kafka.

    In a parsed StreamSpec it is complete: `bootstrap_servers` is never empty, and what comes from
    spec.kafka is filled in.
    """

    bootstrap_servers: Servers = Field(
        "",
        description="The brokers to connect to first, as host:port separated by commas. With it, "
        "nothing of spec.kafka applies here. Default: the connection of spec.kafka.",
        examples=["kafka.kafka:9092"],
    )
    tls: Tls | None = Field(
        None, description="TLS to these brokers. Needs bootstrapServers beside it."
    )
    sasl: Sasl | None = Field(
        None,
        description="Authentication to these brokers by SASL. Needs bootstrapServers beside it.",
    )
    secret_options: SecretOptions = Field(
        {},
        description="Options whose values are in Secrets. The values are read in the pods only: "
        "they are in no ConfigMap, log or status.",
    )


AnyClient = TypeVar("AnyClient", bound=KafkaClient)


def with_connection(client: AnyClient, shared: KafkaConnection | None) -> AnyClient:
    """The client with its whole connection: its own, or the shared one under its own options.

    Raises ValueError if there are more options together than one client may have.
    """
    if shared is None or client.bootstrap_servers:
        return client
    own = {*client.options, *client.secret_options}
    options = {**_without(own, shared.options), **client.options}
    secret_options = {**_without(own, shared.secret_options), **client.secret_options}
    for field, merged, limit in (
        ("options", options, MAX_OPTIONS),
        ("secretOptions", secret_options, MAX_SECRET_OPTIONS),
    ):
        if len(merged) > limit:
            raise ValueError(
                f"{field} of spec.kafka and of a source or sink are more than {limit} together: "
                "remove some"
            )
    return client.model_copy(
        update={
            "bootstrap_servers": shared.bootstrap_servers,
            "tls": shared.tls,
            "sasl": shared.sasl,
            "options": options,
            "secret_options": secret_options,
        }
    )


_Value = TypeVar("_Value")


def _without(names: Iterable[str], options: Mapping[str, _Value]) -> dict[str, _Value]:
    """The options but for these names; Spark ignores their case."""
    lower = {name.lower() for name in names}
    return {name: value for name, value in options.items() if name.lower() not in lower}
