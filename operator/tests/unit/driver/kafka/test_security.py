"""References in place of secrets, and what is checked before they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.security import check_secrets, security_options
from testkit.streams.streams import kafka_source, stream

SECRETS = Path("/etc/penstock-secrets")
TLS: dict[str, Any] = {"caSecret": {"name": "ca", "key": "ca.crt"}}
SASL: dict[str, Any] = {
    "mechanism": "PLAIN",
    "username": "fraud",
    "passwordSecret": {"name": "login", "key": "password"},
}


def options(**client: Any) -> dict[str, str]:
    source = stream(kafka_source(**client)).spec.source.kafka
    assert source is not None
    return security_options(source, SECRETS)


@pytest.mark.parametrize(
    ("client", "protocol"),
    [
        ({"tls": {}}, "SSL"),
        ({"sasl": SASL}, "SASL_PLAINTEXT"),
        ({"tls": TLS, "sasl": SASL}, "SASL_SSL"),
        ({}, None),
    ],
)
def test_the_protocol_follows_from_what_there_is(
    client: dict[str, Any], protocol: str | None
) -> None:
    assert options(**client).get("kafka.security.protocol") == protocol


def test_a_password_is_a_reference() -> None:
    made = options(sasl=SASL)
    assert made["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="fraud" password="${secret:/etc/penstock-secrets/login:password}";'
    )
    assert made["kafka.config.providers"] == "secret"
    assert made["kafka.config.providers.secret.param.allowed.paths"] == str(SECRETS)


def test_certificates() -> None:
    made = options(tls={**TLS, "clientSecret": {"name": "client"}})
    assert made["kafka.ssl.truststore.location"] == "/etc/penstock-secrets/ca/ca.crt"
    assert made["kafka.ssl.keystore.key"] == "${secret:/etc/penstock-secrets/client:tls.key}"


def test_secret_options() -> None:
    name = {"name": "other", "key": "jaas"}
    made = options(secretOptions={"kafka.sasl.jaas.config": name})
    assert made["kafka.sasl.jaas.config"] == "${secret:/etc/penstock-secrets/other:jaas}"


def test_nothing_secret_needs_no_provider() -> None:
    assert options() == {}
    assert "kafka.config.providers" not in options(tls=TLS)


def failure(folder: Path, password: str | None) -> Failure | None:
    if password is not None:
        (folder / "login").mkdir()
        (folder / "login" / "password").write_text(password)
    try:
        check_secrets(stream(kafka_source(sasl=SASL)).spec, folder)
    except DriverError as error:
        return error.failure
    return None


@pytest.mark.parametrize("password", ["", "hunter2\n", 'hun"ter2', "hunter\\2"])
def test_a_password_that_jaas_cannot_hold_is_refused_unseen(tmp_path: Path, password: str) -> None:
    found = failure(tmp_path, password)
    assert found is not None
    assert found.reason == "SecretInvalid"
    assert "hun" not in found.message


def test_a_missing_secret_is_waited_for(tmp_path: Path) -> None:
    found = failure(tmp_path, None)
    assert found is not None
    assert (found.reason, found.permanent, found.recoverable) == ("SecretMissing", True, True)
    assert "login" in found.message


def test_any_other_password_is_fine(tmp_path: Path) -> None:
    assert failure(tmp_path, "p4$s{w}ord 'x' ;") is None
