"""TLS and SASL options with references to Secrets, and the checks of the Secrets' files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.security import check_secrets, security_options
from penstock.validation.schema_errors import describe_error
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
def test_the_protocol_follows_from_tls_and_sasl(
    client: dict[str, Any], protocol: str | None
) -> None:
    assert options(**client).get("kafka.security.protocol") == protocol


def test_the_password_is_a_reference() -> None:
    made = options(sasl=SASL)
    assert made["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="fraud" password="${secret:/etc/penstock-secrets/login:password}";'
    )
    assert made["kafka.config.providers"] == "secret"
    assert made["kafka.config.providers.secret.param.allowed.paths"] == str(SECRETS)


OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.mark.parametrize(
    ("sasl", "expected"),
    [
        pytest.param(
            {
                "mechanism": "OAUTHBEARER",
                "jaasConfigSecret": {"name": "oauth", "key": "jaas"},
                "loginCallbackHandlerClass": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            },
            {
                "mechanism": "OAUTHBEARER",
                "jaas.config": "${secret:/etc/penstock-secrets/oauth:jaas}",
                "login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            },
            id="OAUTHBEARER",
        ),
        pytest.param(
            {
                "mechanism": "GSSAPI",
                "jaasConfig": "com.sun.security.auth.module.Krb5LoginModule required "
                'useKeyTab=true storeKey=true keyTab="/keys/a.keytab" principal="a@EXAMPLE.ORG";',
                "kerberosServiceName": "kafka",
            },
            {
                "mechanism": "GSSAPI",
                "jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
                'useKeyTab=true storeKey=true keyTab="/keys/a.keytab" principal="a@EXAMPLE.ORG";',
                "kerberos.service.name": "kafka",
            },
            id="GSSAPI",
        ),
        pytest.param(
            {
                "mechanism": "AWS_MSK_IAM",
                "jaasConfig": "software.amazon.msk.auth.iam.IAMLoginModule required;",
                "clientCallbackHandlerClass": "software.amazon.msk.auth.iam."
                "IAMClientCallbackHandler",
            },
            {
                "mechanism": "AWS_MSK_IAM",
                "jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
                "client.callback.handler.class": "software.amazon.msk.auth.iam."
                "IAMClientCallbackHandler",
            },
            id="AWS_MSK_IAM",
        ),
    ],
)
def test_other_mechanisms_are_options_of_the_client(
    sasl: dict[str, Any], expected: dict[str, str]
) -> None:
    made = options(tls={}, sasl=sasl)
    prefix = "kafka.sasl."
    assert made["kafka.security.protocol"] == "SASL_SSL"
    assert {
        name.removeprefix(prefix): value for name, value in made.items() if name.startswith(prefix)
    } == expected
    assert ("kafka.config.providers" in made) == ("jaasConfigSecret" in sasl)


@pytest.mark.parametrize(
    ("jaas", "taken"),
    [
        ("a.B required;", True),
        ('a.B required username="u" useTicketCache=true storePass=true;', True),
        ('a.B required password="${vault:path:key}";', True),
        ('a.B required password="p";', False),
        ("a.B required password = p;", False),
        ("a.B required \"password\"='p';", False),
        ("a.B required clientSecret=p;", False),
        ('a.B required awsRoleSecretAccessKey="p";', False),
        ('a.B required accessToken="p";', False),
        ('a.B required password="$p";', False),
    ],
)
def test_a_jaas_text_with_a_credential_is_refused_and_not_repeated(jaas: str, taken: bool) -> None:
    document = kafka_source(sasl={"mechanism": "X", "jaasConfig": jaas})
    if taken:
        assert stream(document)
        return
    with pytest.raises(ValidationError) as refused:
        stream(document)
    (problem,) = describe_error(refused.value)
    assert "jaasConfigSecret" in problem.message
    assert jaas not in problem.message


def test_certificates() -> None:
    made = options(tls={**TLS, "clientSecret": {"name": "client"}})
    assert made["kafka.ssl.truststore.location"] == "/etc/penstock-secrets/ca/ca.crt"
    assert made["kafka.ssl.keystore.key"] == "${secret:/etc/penstock-secrets/client:tls.key}"


def test_the_keys_of_a_secret_of_strimzi(tmp_path: Path) -> None:
    """A KafkaUser's Secret has user.crt and user.key; where one is missing, the way out is said."""
    own = {"name": "client", "certKey": "user.crt", "keyKey": "user.key"}
    made = options(tls={**TLS, "clientSecret": own})
    chain, key = made["kafka.ssl.keystore.certificate.chain"], made["kafka.ssl.keystore.key"]
    assert chain == "${secret:/etc/penstock-secrets/client:user.crt}"
    assert key == "${secret:/etc/penstock-secrets/client:user.key}"
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca" / "ca.crt").write_text("c")
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "user.crt").write_text("c")
    named = stream(kafka_source(tls={**TLS, "clientSecret": {"name": "client"}}))
    with pytest.raises(DriverError, match="certKey and keyKey"):
        check_secrets(named.spec, tmp_path)


def test_secret_options() -> None:
    name = {"name": "other", "key": "rack"}
    made = options(secretOptions={"kafka.client.rack": name})
    assert made["kafka.client.rack"] == "${secret:/etc/penstock-secrets/other:rack}"


def test_config_providers_of_the_user_stay_in_any_case() -> None:
    own = {"Kafka.Config.Providers": "vault", "kafka.config.providers.vault.class": "com.acme.V"}
    assert options(sasl=SASL, options=own)["kafka.config.providers"] == "vault,secret"


def test_a_client_without_secrets_needs_no_provider() -> None:
    assert options() == {}
    assert "kafka.config.providers" not in options(tls=TLS)


def failure(folder: Path, secret: str | None, sasl: dict[str, Any] = SASL) -> Failure | None:
    """What the driver says of this text in the Secret that the client uses."""
    if secret is not None:
        (folder / "login").mkdir()
        (folder / "login" / "password").write_text(secret)
    try:
        check_secrets(stream(kafka_source(sasl=sasl)).spec, folder)
    except DriverError as error:
        return error.failure
    return None


@pytest.mark.parametrize("password", ["", "hunter2\n", 'hun"ter2', "hunter\\2"])
def test_a_password_that_jaas_cannot_hold_is_refused_and_not_shown(
    tmp_path: Path, password: str
) -> None:
    found = failure(tmp_path, password)
    assert found is not None
    assert found.reason == "SecretInvalid"
    assert "hun" not in found.message


def test_a_missing_secret_is_recoverable(tmp_path: Path) -> None:
    found = failure(tmp_path, None)
    assert found is not None
    assert (found.reason, found.permanent, found.recoverable) == ("SecretMissing", True, True)
    assert "login" in found.message


def test_a_value_of_an_option_is_text(tmp_path: Path) -> None:
    ref = {"name": "login", "key": "keystore"}
    sink = {"custom": {"format": "a.B", "secretOptions": {"it": ref}}}
    spec = stream(sink=sink, trigger={"microBatch": {}}).spec
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "keystore").write_bytes(b"\xfe\xed")
    with pytest.raises(DriverError) as raised:
        check_secrets(spec, tmp_path)
    found = raised.value.failure
    assert (found.reason, found.recoverable) == ("SecretInvalid", True)
    assert "The key keystore of the Secret login is not text" in found.message
    (tmp_path / "login" / "keystore").write_text("text")
    check_secrets(spec, tmp_path)


def test_any_other_password_is_accepted(tmp_path: Path) -> None:
    assert failure(tmp_path, "p4$s{w}ord 'x' ;") is None


BY_JAAS: dict[str, Any] = {
    "mechanism": "PLAIN",
    "jaasConfigSecret": {"name": "login", "key": "password"},
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "hunter2 hunter2",
        "a.B hunter2;",
        "a.B required",
        'a.B required password="x"hunter2";',
        "a.B required password=correct hunter2 battery;",
        "a.B required password=x;hunter2 y;",
        'a.B required password="x\nhunter2";',
    ],
)
def test_a_secret_that_is_no_jaas_configuration_is_refused_and_not_shown(
    tmp_path: Path, text: str
) -> None:
    """Kafka's own message would repeat a word of it."""
    found = failure(tmp_path, text, BY_JAAS)
    assert found is not None
    assert (found.reason, found.permanent, found.recoverable) == ("SecretInvalid", True, True)
    assert "hunter2" not in found.message


@pytest.mark.parametrize(
    "text",
    [
        "a.B required;\n",
        'a.B REQUIRED\n  username="u"\n  password="p";',
        "a.B optional x=y z='w';",
        r'a.B required oauth.client.id = "i" password="a\"b\\ ;c";',
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true principal='a/b@C';",
    ],
)
def test_any_jaas_configuration_is_accepted(tmp_path: Path, text: str) -> None:
    assert failure(tmp_path, text, BY_JAAS) is None
