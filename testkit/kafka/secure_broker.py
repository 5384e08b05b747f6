"""A real broker with TLS, SCRAM and client certificates, and the files of its Secrets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from testkit.kafka.broker import LocalBroker, free_ports

USER, PASSWORD = "fraud", "p4$s{w}ord-of-the-test"
CA, CLIENT, LOGIN = "kafka.ca", "client", "login"


class SecureBroker(LocalBroker):
    """Beside the usual listener one for SASL over TLS, and one that wants a certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sasl_port, self.mutual_port = free_ports(2)
        make_certificates(folder)
        super().__init__(folder)

    @property
    def sasl(self) -> str:
        """SASL/SCRAM over TLS."""
        return f"127.0.0.1:{self.sasl_port}"

    @property
    def mutual(self) -> str:
        """TLS with a certificate of the client's."""
        return f"127.0.0.1:{self.mutual_port}"

    @property
    def secrets(self) -> Path:
        """As the kubelet lays Secrets out."""
        return self.folder / "secrets"

    def add_user(self) -> None:
        """The SCRAM user, by the plain listener."""
        command = [*self._java("kafka.admin.ConfigCommand"), "--bootstrap-server", self.bootstrap]
        scram = f"SCRAM-SHA-512=[password={PASSWORD}]"
        subprocess.run(
            [*command, "--alter", "--entity-type", "users", "--entity-name", USER,
             "--add-config", scram],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip

    def grant(self, topic: str, operation: AclOperation) -> None:
        """A right of the SCRAM user's, who has no others."""
        rule = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_acls([rule]).values():
            future.result(30)

    def _settings(self) -> str:
        plain = super()._settings()
        listeners = {
            "SASLTLS": (self.sasl, "SASL_SSL", "none"),
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
                # The plain listener's and the certificate's.
                "super.users=User:ANONYMOUS;User:CN=client",
                "listener.name.sasltls.sasl.enabled.mechanisms=SCRAM-SHA-512",
                f"listener.name.sasltls.scram-sha-512.sasl.jaas.config={module} required;",
                "",
            ]
        )


@contextmanager
def secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """A fresh one, gone at the end of the block."""
    broker = SecureBroker(folder)
    try:
        broker.start()
        broker.add_user()
        yield broker
    finally:
        broker.kill()


def make_certificates(folder: Path) -> None:
    """An authority, a certificate for the broker and one for the client (PEM, PKCS #8)."""
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 "
             "-subj /CN=test-authority")  # fmt: skip
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("broker", "client"):
        _openssl(folder, f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr "
                 f"-subj /CN={name}")  # fmt: skip
        _openssl(folder, f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial "
                 f"-days 2 -extfile san -out {name}.crt")  # fmt: skip
    pair = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pair)
    files = {
        f"{CA}/ca.crt": (folder / "ca.crt").read_text(),
        f"{CLIENT}/tls.crt": (folder / "client.crt").read_text(),
        f"{CLIENT}/tls.key": (folder / "client.key").read_text(),
        f"{LOGIN}/password": PASSWORD,
    }
    for name, text in files.items():
        path = folder / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(
        ["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True, timeout=60
    )
