"""A real broker with TLS, SCRAM, OAUTHBEARER and client certificates, and its Secrets' files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from testkit.certificates import Authority
from testkit.kafka.broker import Broker, free_ports
from testkit.kafka.jars import kafka_jars

USER, PASSWORD = "fraud", "p4$s{w}ord-of-the-test"
CA, CLIENT, LOGIN, OAUTH = "kafka.ca", "client", "login", "oauth"
# Kafka's own login module makes an unsecured token of these claims, for tests.
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
CLAIM = "claim-of-the-test"
JAAS = f"""{OAUTH_MODULE} required
  unsecuredLoginStringClaim_sub="{USER}" unsecuredLoginStringClaim_note="{CLAIM}";
"""
_UNSECURED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecured"
LOGIN_HANDLER = f"{_UNSECURED}LoginCallbackHandler"


class SecureBroker(Broker):
    """It has listeners for SCRAM and OAUTHBEARER over TLS, one for mutual TLS, and a plain one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sasl_port, self.oauth_port, self.mutual_port = free_ports(3)
        _make_certificates(folder)
        super().__init__(folder, kafka_jars())

    @property
    def sasl(self) -> str:
        return f"127.0.0.1:{self.sasl_port}"

    @property
    def oauth(self) -> str:
        """SASL/OAUTHBEARER over TLS, with unsecured tokens."""
        return f"127.0.0.1:{self.oauth_port}"

    @property
    def mutual(self) -> str:
        return f"127.0.0.1:{self.mutual_port}"

    @property
    def secrets(self) -> Path:
        """The Secrets' files, in the kubelet's layout."""
        return self.folder / "secrets"

    def add_user(self) -> None:
        """Creates the SCRAM user, through the plain listener."""
        command = [*self._java("kafka.admin.ConfigCommand"), "--bootstrap-server", self.bootstrap]
        scram = f"SCRAM-SHA-512=[password={PASSWORD}]"
        subprocess.run(
            [*command, "--alter", "--entity-type", "users", "--entity-name", USER,
             "--add-config", scram],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip

    def grant(self, topic: str, operation: AclOperation) -> None:
        """Grants the user a right on a topic. The user has no others."""
        self._grant(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, operation)

    def revoke(self, topic: str) -> None:
        """Takes all of the user's rights on a topic away."""
        wanted = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*",
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_acls([wanted]).values():
            assert future.result(30)

    def grant_all(self, of: ResourceType, prefix: str, operation: AclOperation) -> None:
        """Grants the user a right on all groups or transactional ids with a prefix."""
        self._grant(of, prefix, ResourcePatternType.PREFIXED, operation)

    def _grant(
        self, of: ResourceType, name: str, pattern: ResourcePatternType, operation: AclOperation
    ) -> None:
        rule = AclBinding(
            of, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_acls([rule]).values():
            future.result(30)

    def _settings(self) -> str:
        plain = super()._settings()
        listeners = {
            "SASLTLS": (self.sasl, "SASL_SSL", "none"),
            "OAUTH": (self.oauth, "SASL_SSL", "none"),
            "MUTUAL": (self.mutual, "SSL", "required"),
        }
        lines = []
        for line in plain.splitlines():
            name, _, value = line.partition("=")
            if name == "listener.security.protocol.map":
                value += "".join(f",{each}:{it[1]}" for each, it in listeners.items())
            if name in ("listeners", "advertised.listeners"):
                value += "".join(f",{each}://{it[0]}" for each, it in listeners.items())
            lines.append(f"{name}={value}" if value else line)
        for each, (_, _, auth) in listeners.items():
            prefix = f"listener.name.{each.lower()}"
            lines += [
                f"{prefix}.ssl.keystore.type=PEM",
                f"{prefix}.ssl.keystore.location={self.folder / 'broker.pem'}",
                f"{prefix}.ssl.truststore.type=PEM",
                f"{prefix}.ssl.truststore.location={self.folder / 'ca.crt'}",
                f"{prefix}.ssl.client.auth={auth}",
            ]
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return "\n".join(
            [
                *lines,
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # The principals of the plain listener and of the certificate.
                "super.users=User:ANONYMOUS;User:CN=client",
                "listener.name.sasltls.sasl.enabled.mechanisms=SCRAM-SHA-512",
                f"listener.name.sasltls.scram-sha-512.sasl.jaas.config={module} required;",
                "listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER",
                f"listener.name.oauth.oauthbearer.sasl.jaas.config={OAUTH_MODULE} required "
                'unsecuredLoginStringClaim_sub="broker";',
                "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class="
                f"{_UNSECURED}ValidatorCallbackHandler",
                "",
            ]
        )


class TokenBroker(SecureBroker):
    """It also issues delegation tokens, and asks connected clients for their credentials again."""

    reauthentication_ms = 2_000

    def _settings(self) -> str:
        again = f"listener.name.sasltls.connections.max.reauth.ms={self.reauthentication_ms}"
        return f"{super()._settings()}delegation.token.secret.key=of-the-test\n{again}\n"


AnyBroker = TypeVar("AnyBroker", bound=SecureBroker)


@contextmanager
def running_secured(broker: AnyBroker) -> Iterator[AnyBroker]:
    """The broker, with its user, until the end of the block."""
    try:
        broker.start()
        broker.add_user()
        yield broker
    finally:
        broker.kill()


def _make_certificates(folder: Path) -> None:
    """Those of broker and client, and the Secrets' files."""
    authority = Authority(folder)
    for name in ("broker", "client"):
        authority.certify(name)
    pair = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pair)
    files = {
        f"{CA}/ca.crt": (folder / "ca.crt").read_text(),
        f"{CLIENT}/tls.crt": (folder / "client.crt").read_text(),
        f"{CLIENT}/tls.key": (folder / "client.key").read_text(),
        f"{LOGIN}/password": PASSWORD,
        f"{OAUTH}/jaas": JAAS,
    }
    for name, text in files.items():
        path = folder / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
