"""TLS and SASL options of Kafka's clients, with references to Secrets' files.

Kafka's clients resolve `${provider:path:key}` in their own configuration, through the config
providers that the configuration names (KIP-297; AbstractConfig of kafka-clients). So the options
that pass through Spark, its plans and its logs hold paths only, and each client reads the mounted
files itself, in the driver and in the executors. Spark passes data source options on unchanged.
"""

from __future__ import annotations

import re
from pathlib import Path

from penstock.api.kafka_options import JAAS_OPTION
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.base import KeyRef
from penstock.api.v1alpha1.kafka_connection import KafkaConnection, Sasl, Tls
from penstock.contract.secrets import secret_keys
from penstock.driver.failures import DriverError, Failure
from penstock.driver.secret_values import file_of, read

_PROVIDERS = "kafka.config.providers"
_PROVIDER = "secret"
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# A login module, its control flag, its options and a semicolon: what Kafka's JaasConfig parses. Of
# any other text its messages repeat words, which may be parts of a password: so it is checked here.
# A value is in quotes, or a word that begins with a letter (StreamTokenizer reads numbers too).
_JAAS_VALUE = r"""(?:"(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\\\r\n]|\\[^\r\n])*'|[A-Za-z_$][\w.$-]*)"""
_JAAS_SHAPE = re.compile(
    r"\s*[\w.$-]+\s+(?:required|requisite|sufficient|optional)"
    rf"(?:\s+[\w.$-]+\s*=\s*{_JAAS_VALUE})*\s*;\s*",
    re.IGNORECASE,
)


def security_options(client: KafkaConnection, secrets: Path) -> dict[str, str]:
    """Spark's options for TLS, SASL and secretOptions; `secrets` is the Secrets' mount point."""
    options: dict[str, str] = {}
    if client.tls is not None or client.sasl is not None:
        options["kafka.security.protocol"] = _protocol(client)
    if client.tls is not None:
        options |= _tls(client.tls, secrets)
    if client.sasl is not None:
        options |= _sasl(client.sasl, secrets)
    for name, ref in client.secret_options.items():
        options[name] = _reference(secrets, ref.name, ref.key)
    if any(f"${{{_PROVIDER}:" in value for value in options.values()):
        options |= _provider(client, secrets)
    return options


def check_secrets(spec: StreamSpec, secrets: Path) -> None:
    """Raises DriverError, which names Secret and key, if one is missing or cannot be used."""
    for name, keys in secret_keys(spec).items():
        for key in keys:
            if not (secrets / name / key).is_file():
                raise DriverError(
                    Failure(
                        "SecretMissing",
                        f"The Secret {name} has no key {key}, or does not exist. Create it in the "
                        f"stream's namespace, and the stream starts by itself.{_other_keys(key)}",
                        permanent=True,
                        recoverable=True,
                    )
                )
    for ref in spec.secret_value_refs:
        _check_text(ref, secrets)
    for client in (spec.source.kafka, spec.sink.kafka):
        if client is not None and client.sasl is not None:
            _check_password(client.sasl, secrets)
            _check_jaas(client.sasl, secrets)


def _other_keys(key: str) -> str:
    """How to use a client's certificate that has other names in its Secret."""
    if key not in ("tls.crt", "tls.key"):
        return ""
    return (
        " If certificate and key have other names there, such as user.crt and user.key in the "
        "Secret of a KafkaUser of Strimzi, name them in tls.clientSecret.certKey and keyKey."
    )


def _check_text(ref: KeyRef, secrets: Path) -> None:
    try:
        read(file_of(ref, secrets))
    except UnicodeDecodeError:
        raise DriverError(
            Failure(
                "SecretInvalid",
                f"The key {ref.key} of the Secret {ref.name} is not text in UTF-8, which an option "
                "is. For a file, mount the Secret with podTemplate, and name its path.",
                permanent=True,
                recoverable=True,
            )
        ) from None


def _check_password(sasl: Sasl, secrets: Path) -> None:
    """A password is in a quoted string of JAAS, which has no escape for a line break.

    (java.io.StreamTokenizer, "quote character": the string ends where the line does.)
    """
    ref = sasl.password_secret
    if ref is None:
        return
    text = file_of(ref, secrets).read_text(errors="replace")
    if not text or any(character in text for character in '"\\\r\n'):
        raise DriverError(
            Failure(
                "SecretInvalid",
                f"The key {ref.key} of the Secret {ref.name} cannot be used as a password: it is "
                "empty, or has a line break (often at its end: use printf or echo -n), a double "
                "quote or a backslash.",
                permanent=True,
                recoverable=True,
            )
        )


def _check_jaas(sasl: Sasl, secrets: Path) -> None:
    ref = sasl.jaas_config_secret
    if ref is None:
        return
    text = file_of(ref, secrets).read_text(errors="replace")
    if _JAAS_SHAPE.fullmatch(text) is None:
        raise DriverError(
            Failure(
                "SecretInvalid",
                f"The key {ref.key} of the Secret {ref.name} is no JAAS configuration. Write the "
                'login module\'s class, `required`, its options as name="value", and a semicolon. '
                "A double quote or a backslash in a value has a backslash before it.",
                permanent=True,
                recoverable=True,
            )
        )


def _protocol(client: KafkaConnection) -> str:
    transport = "PLAINTEXT" if client.tls is None else "SSL"
    return transport if client.sasl is None else f"SASL_{transport}"


def _tls(tls: Tls, secrets: Path) -> dict[str, str]:
    """Options for PEM files, as Kubernetes stores them (KIP-651).

    An authority's certificates are no secret, so Kafka's client gets their path.
    """
    options = {}
    if tls.ca_secret is not None:
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.location"] = str(
            secrets / tls.ca_secret.name / tls.ca_secret.key
        )
    if tls.client_secret is not None:
        own = tls.client_secret
        options["kafka.ssl.keystore.type"] = "PEM"
        options["kafka.ssl.keystore.certificate.chain"] = _reference(
            secrets, own.name, own.cert_key
        )
        options["kafka.ssl.keystore.key"] = _reference(secrets, own.name, own.key_key)
    return options


def _sasl(sasl: Sasl, secrets: Path) -> dict[str, str]:
    options = {
        "kafka.sasl.mechanism": sasl.mechanism,
        JAAS_OPTION: _jaas(sasl, secrets),
        "kafka.sasl.login.callback.handler.class": sasl.login_callback_handler_class,
        "kafka.sasl.client.callback.handler.class": sasl.client_callback_handler_class,
        "kafka.sasl.kerberos.service.name": sasl.kerberos_service_name,
    }
    return {name: value for name, value in options.items() if value is not None}


def _jaas(sasl: Sasl, secrets: Path) -> str | None:
    if sasl.password_secret is not None:
        password = _reference(secrets, sasl.password_secret.name, sasl.password_secret.key)
        module = _LOGIN_MODULES[sasl.mechanism]
        return f'{module} required username="{sasl.username}" password="{password}";'
    if sasl.jaas_config_secret is not None:
        return _reference(secrets, sasl.jaas_config_secret.name, sasl.jaas_config_secret.key)
    return sasl.jaas_config


def _provider(client: KafkaConnection, secrets: Path) -> dict[str, str]:
    """The provider that resolves our references, besides those that the user's options name."""
    own = {name.lower(): value for name, value in client.options.items()}.get(_PROVIDERS)
    return {
        _PROVIDERS: ",".join(name for name in (own, _PROVIDER) if name),
        f"{_PROVIDERS}.{_PROVIDER}.class": _PROVIDER_CLASS,
        f"{_PROVIDERS}.{_PROVIDER}.param.allowed.paths": str(secrets),
    }


def _reference(secrets: Path, name: str, key: str) -> str:
    return f"${{{_PROVIDER}:{secrets / name}:{key}}}"
