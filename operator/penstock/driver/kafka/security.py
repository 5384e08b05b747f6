"""How a Kafka client is told to get in: references to Secrets' files, never their contents.

Kafka's clients resolve `${provider:path:key}` in their own configuration, through the config
providers that the configuration names (KIP-297; kafka-clients' AbstractConfig). So the options that
pass through Spark, its plans and its logs hold paths only, and each client reads the mounted files
itself, in the driver and in the executors alike. Spark hands data source options on as they are.
"""

from __future__ import annotations

from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.kafka import KafkaClient, Sasl, Tls
from penstock.contract.secrets import TLS_CERTIFICATE, TLS_KEY, secret_keys
from penstock.driver.failures import DriverError, Failure

PREFIX = "kafka."

_PROVIDER = "secret"
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def security_options(client: KafkaClient, secrets: Path) -> dict[str, str]:
    """Spark's options for TLS, SASL and secretOptions; `secrets` is where they are mounted."""
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
    """Raises, with the name of the Secret and the key, if one is not there or cannot be used."""
    for name, keys in secret_keys(spec).items():
        for key in keys:
            if not (secrets / name / key).is_file():
                raise DriverError(
                    Failure(
                        "SecretMissing",
                        f"the Secret {name} with the key {key} is not there: create it in the "
                        "stream's namespace; the stream starts by itself when it is",
                        permanent=True,
                        recoverable=True,
                    )
                )
    for client in (spec.source.kafka, spec.sink.kafka):
        if client is not None and client.sasl is not None:
            _check_password(client.sasl, secrets)


def _check_password(sasl: Sasl, secrets: Path) -> None:
    """A password stands inside a quoted string of JAAS, which knows no way to quote a line's end.

    (java.io.StreamTokenizer, "quote character": the string ends where the line does.)
    """
    ref = sasl.password_secret
    text = (secrets / ref.name / ref.key).read_text(errors="replace")
    if not text or any(character in text for character in '"\\\r\n'):
        raise DriverError(
            Failure(
                "SecretInvalid",
                f"the key {ref.key} of the Secret {ref.name} cannot be used as a password: it is "
                "empty, or holds a line break (often at its end: use printf or echo -n), a double "
                "quote or a backslash",
                permanent=True,
                recoverable=True,
            )
        )


def _protocol(client: KafkaClient) -> str:
    transport = "PLAINTEXT" if client.tls is None else "SSL"
    return transport if client.sasl is None else f"SASL_{transport}"


def _tls(tls: Tls, secrets: Path) -> dict[str, str]:
    """PEM, as Kubernetes has it (KIP-651); of a certificate authority the path says all."""
    options = {}
    if tls.ca_secret is not None:
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.location"] = str(
            secrets / tls.ca_secret.name / tls.ca_secret.key
        )
    if tls.client_secret is not None:
        name = tls.client_secret.name
        options["kafka.ssl.keystore.type"] = "PEM"
        options["kafka.ssl.keystore.certificate.chain"] = _reference(secrets, name, TLS_CERTIFICATE)
        options["kafka.ssl.keystore.key"] = _reference(secrets, name, TLS_KEY)
    return options


def _sasl(sasl: Sasl, secrets: Path) -> dict[str, str]:
    password = _reference(secrets, sasl.password_secret.name, sasl.password_secret.key)
    return {
        "kafka.sasl.mechanism": sasl.mechanism,
        "kafka.sasl.jaas.config": f"{_LOGIN_MODULES[sasl.mechanism]} required "
        f'username="{sasl.username}" password="{password}";',
    }


def _provider(client: KafkaClient, secrets: Path) -> dict[str, str]:
    """The provider that resolves our references, beside any that the user's options name."""
    own = getattr(client, "options", {}).get("kafka.config.providers", "")
    return {
        "kafka.config.providers": ",".join(name for name in (own, _PROVIDER) if name),
        f"kafka.config.providers.{_PROVIDER}.class": _PROVIDER_CLASS,
        f"kafka.config.providers.{_PROVIDER}.param.allowed.paths": str(secrets),
    }


def _reference(secrets: Path, name: str, key: str) -> str:
    return f"${{{_PROVIDER}:{secrets / name}:{key}}}"
