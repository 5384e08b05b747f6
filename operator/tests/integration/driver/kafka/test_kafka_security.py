"""Kafka over TLS with a password, a token or a certificate. Nothing shows the Secrets' values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from prometheus_client import generate_latest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.api.v1alpha1.transforms import Transform
from penstock.contract.driver_report import QueryState
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import consumer_group
from penstock.driver.reporting.publisher import as_annotation
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.consumer_groups import describe
from testkit.kafka.secure_broker import (
    CA,
    CLAIM,
    CLIENT,
    LOGIN,
    LOGIN_HANDLER,
    OAUTH,
    PASSWORD,
    USER,
    SecureBroker,
    running_secured,
)
from testkit.kafka.topics import Topics
from testkit.streams.examples import example
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH, MOSTLY_CONTINUOUS, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.proves(33, "security.md#credentials-for-kafka")

TLS: dict[str, Any] = {"caSecret": {"name": CA, "key": "ca.crt"}}
MUTUAL: dict[str, Any] = {"tls": {**TLS, "clientSecret": {"name": CLIENT}}}
SASL: dict[str, Any] = {
    "tls": TLS,
    "sasl": {
        "mechanism": "SCRAM-SHA-512",
        "username": USER,
        "passwordSecret": {"name": LOGIN, "key": "password"},
    },
}
TOKEN: dict[str, Any] = {
    "tls": TLS,
    "sasl": {
        "mechanism": "OAUTHBEARER",
        "jaasConfigSecret": {"name": OAUTH, "key": "jaas"},
        "loginCallbackHandlerClass": LOGIN_HANDLER,
    },
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with running_secured(SecureBroker(tmp_path_factory.mktemp("secure"))) as broker:
        for name, files in (("kafka-ca", CA), ("kafka-client", CLIENT), ("kafka-login", LOGIN)):
            (broker.secrets / name).symlink_to(broker.secrets / files)  # those of the examples
        yield broker


def flow(
    bootstrap: str,
    source: str,
    sink: str,
    client: dict[str, Any],
    trigger: dict[str, Any],
    **of_source: Any,
) -> ContinuousStream:
    """Copies numbers from topic to topic, over a shared connection."""
    return stream(
        {"kafka": {"topics": [source], "startingOffsets": "earliest", **of_source}},
        {"kafka": {"topic": sink}},
        trigger=trigger,
        kafka={"bootstrapServers": bootstrap, **client},
    )


@contextmanager
def logged_in_full(jvm: Jvm, jvm_log: Path) -> Iterator[list[str]]:
    """The JVM logs at DEBUG during the block; then the list holds what it logged."""
    log4j = jvm.gateway.jvm.org.apache.logging.log4j
    configurator, before = log4j.core.config.Configurator, jvm_log.stat().st_size
    logged: list[str] = []
    configurator.setRootLevel(log4j.Level.DEBUG)
    try:
        yield logged
    finally:
        configurator.setRootLevel(log4j.Level.WARN)
        logged.append(jvm_log.read_bytes()[before:].decode())


full = pytest.mark.full


@pytest.mark.parametrize(
    ("way", "trigger"),
    [
        # The files in examples/, which are continuous.
        pytest.param("kafka-sasl-ssl", CONTINUOUS, id="scram-continuous"),
        pytest.param("kafka-mtls", CONTINUOUS, id="mutual-continuous"),
        pytest.param("oauthbearer", MICRO_BATCH, id="oauthbearer-micro-batch"),
        pytest.param("oauthbearer", CONTINUOUS, id="oauthbearer-continuous", marks=full),
        pytest.param("scram", MICRO_BATCH, id="scram-micro-batch", marks=full),
        pytest.param("mutual", MICRO_BATCH, id="mutual-micro-batch", marks=full),
    ],
)
def test_records_flow_and_no_secret_is_shown(
    way: str,
    trigger: dict[str, Any],
    secured: SecureBroker,
    jvm: Jvm,
    jvm_log: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topics = Topics(secured.bootstrap)
    source, sink = topics.make(), topics.make()
    bootstrap, client = {
        "kafka-mtls": (secured.mutual, None),
        "kafka-sasl-ssl": (secured.sasl, None),
        "mutual": (secured.mutual, MUTUAL),
        "oauthbearer": (secured.oauth, TOKEN),
        "scram": (secured.sasl, SASL),
    }[way]
    # All rights that the stream needs (docs/security.md).
    secured.grant(source, AclOperation.READ)
    secured.grant(sink, AclOperation.WRITE)
    if client is None:
        secret_flow = example(way, {"topics": [source]}, {"topic": sink}, bootstrap)
    else:
        secret_flow = flow(bootstrap, source, sink, client, trigger)
    environment = LocalEnvironment(tmp_path, secrets=secured.secrets)
    with logged_in_full(jvm, jvm_log) as log, running(secret_flow, jvm, environment) as driver:
        topics.send(source, range(50))
        topics.wait_received(sink, range(50))
        driver.wait_ready()
        metrics = generate_latest(driver.metrics.registry).decode()
        # The admin client has the same credentials.
        driver.wait("no lag", lambda report: report.lag == 0)
    logged = capfd.readouterr()
    said = [as_annotation(report) for report in driver.reports]
    kept = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    key = (secured.secrets / CLIENT / "tls.key").read_text().splitlines()[3]
    assert '"level":"DEBUG","logger":"org.apache.kafka.clients.' in log[0]
    assert "Config values" not in log[0]  # not all that is secret is a password
    for text in (logged.out, logged.err, *log, metrics, secret_flow.to_yaml(), *said, *kept):
        for secret in (PASSWORD, CLAIM, key):
            assert secret not in text


@pytest.mark.proves("how-to/dead-letters.md#when-it-does-not-help")
@pytest.mark.parametrize("has", [[], [AclOperation.DESCRIBE]], ids=["nothing", "describe"])
def test_a_missing_right_on_the_dead_letters_is_reported_before_anything_runs(
    has: list[AclOperation], secured: SecureBroker, jvm: Jvm, tmp_path: Path
) -> None:
    topics = Topics(secured.bootstrap)
    source, sink, letters = topics.make(1), topics.make(1), topics.make(1)
    topics.send(source, range(20))
    secured.grant(source, AclOperation.READ)
    secured.grant(sink, AclOperation.WRITE)
    for operation in has:
        secured.grant(letters, operation)
    it = flow(secured.sasl, source, sink, SASL, CONTINUOUS, deadLetters={"topic": letters})
    fails = {"sql": "SELECT IF(value = X'37', raise_error('7'), CAST(value AS STRING)) AS value "
             "FROM source"}  # fmt: skip
    it = it.model_copy(
        update={"spec": it.spec.model_copy(update={"transform": Transform.model_validate(fails)})}
    )
    environment = LocalEnvironment(tmp_path, secrets=secured.secrets)
    with running(it, jvm, environment, impatient(it)) as driver:
        failure = driver.wait_failure("KafkaAuthorization").last_failure
        assert not driver.runtime.has_session
        assert failure is not None
        assert letters in failure.message
        secured.grant(letters, AclOperation.WRITE)
        topics.wait_received(sink, set(range(20)) - {7})
        driver.wait_failure("DeadLetter")
        # The same while it runs.
        secured.revoke(letters)
        topics.send(source, range(20, 30))
        topics.send(source, range(7, 8))
        failure = driver.wait_failure("KafkaAuthorization").last_failure
        assert failure is not None
        assert f"may not write to the dead-letter topic {letters}" in failure.message
        secured.grant(letters, AclOperation.WRITE)
        topics.wait_received(sink, set(range(30)) - {7})
        driver.wait_committed(31)
    assert topics.received(letters) == {7: 2}


@pytest.mark.proves("failures.md#the-brokers-reject-the-credentials")
def test_a_wrong_password_is_reported_and_not_shown(
    secured: SecureBroker, jvm: Jvm, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(secured.bootstrap)
    source, sink = topics.make(), topics.make()
    secrets = tmp_path / "secrets"
    (secrets / CA).mkdir(parents=True)
    (secrets / CA / "ca.crt").write_text((secured.secrets / CA / "ca.crt").read_text())
    environment = LocalEnvironment(tmp_path / "checkpoint", secrets=secrets)
    secured.grant(source, AclOperation.READ)
    secured.grant(sink, AclOperation.WRITE)
    wrong = flow(secured.sasl, source, sink, SASL, CONTINUOUS)
    with running(wrong, jvm, environment, impatient(wrong)) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "SecretMissing"
        assert LOGIN in report.last_failure.message
        (secrets / LOGIN).mkdir()
        (secrets / LOGIN / "password").write_text("not-the-password")
        driver.wait_failure("KafkaAuthentication")
        (secrets / LOGIN / "password").write_text(PASSWORD)
        topics.send(source, range(10))
        topics.wait_received(sink, range(10))
    logged = capfd.readouterr()
    for secret in ("not-the-password", PASSWORD):
        assert secret not in logged.out + logged.err
        assert not [report for report in driver.reports if secret in as_annotation(report)]


@pytest.mark.proves("failures.md#a-permission-on-a-topic-is-missing")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
@pytest.mark.parametrize(
    ("has", "lacks", "of"),
    [
        ([], AclOperation.READ, "source"),
        ([AclOperation.DESCRIBE], AclOperation.READ, "source"),
        ([], AclOperation.WRITE, "sink"),
        ([AclOperation.DESCRIBE], AclOperation.WRITE, "sink"),
    ],
    ids=["source", "read", "sink", "write"],
)
def test_a_missing_right_is_reported_and_the_stream_waits_for_it(
    has: list[AclOperation],
    lacks: AclOperation,
    of: str,
    trigger: dict[str, Any],
    secured: SecureBroker,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    topics = Topics(secured.bootstrap)
    source, sink = topics.make(), topics.make()
    topics.send(source, range(20))
    topic = source if of == "source" else sink
    rights = {source: [AclOperation.READ], sink: [AclOperation.WRITE]} | {topic: has}
    for each, operations in rights.items():
        for operation in operations:
            secured.grant(each, operation)
    it = flow(secured.sasl, source, sink, SASL, trigger)
    environment = LocalEnvironment(tmp_path, secrets=secured.secrets)
    with running(it, jvm, environment, impatient(it)) as driver:
        report = driver.wait("refused", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "KafkaAuthorization"
        assert topic in report.last_failure.message
        secured.grant(topic, lacks)
        topics.wait_received(sink, range(20))
        driver.wait_ready()


@pytest.mark.proves("guarantees.md#exactly-once")
def test_rights_that_exactly_once_needs_are_named_and_waited_for(
    secured: SecureBroker, jvm: Jvm, tmp_path: Path
) -> None:
    topics = Topics(secured.bootstrap)
    source, sink = topics.make(), topics.make()
    topics.send(source, range(20))
    secured.grant(source, AclOperation.READ)
    secured.grant(sink, AclOperation.WRITE)
    it = stream(
        {"kafka": {"topics": [source], "startingOffsets": "earliest"}},
        {"kafka": {"topic": sink, "delivery": "ExactlyOnce"}},
        kafka={"bootstrapServers": secured.sasl, **SASL},
    )
    prefix = f"penstock/{it.metadata.namespace}/{it.metadata.name}/"
    environment = LocalEnvironment(tmp_path, secrets=secured.secrets)
    with running(it, jvm, environment, impatient(it)) as driver:
        for option, of, right in (
            ("--transactional-id", ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
            ("--group", ResourceType.GROUP, AclOperation.READ),
        ):
            named = f"{option} {prefix} --resource-pattern-type prefixed"
            report = driver.wait(
                option,
                lambda report: named in getattr(report.last_failure, "message", ""),  # noqa: B023
            )
            assert report.last_failure is not None
            assert report.last_failure.reason == "KafkaAuthorization"
            assert report.state is QueryState.FAILED
            secured.grant_all(of, prefix, right)
        topics.wait_received(sink, range(20))
        driver.wait_ready()


@pytest.mark.proves("operate.md#lag-in-kafkas-own-tools")
def test_a_missing_right_for_the_consumer_group_is_a_warning_with_the_command(
    secured: SecureBroker, jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_group, "INTERVAL_SECONDS", 0.2)
    topics = Topics(secured.bootstrap)
    source, sink, group = topics.make(1), topics.make(1), "fraud-flags"
    secured.grant(source, AclOperation.READ)
    secured.grant(sink, AclOperation.WRITE)
    topics.send(source, range(10))
    it = flow(secured.sasl, source, sink, SASL, CONTINUOUS, consumerGroup=group)
    environment = LocalEnvironment(tmp_path, secrets=secured.secrets)
    with running(it, jvm, environment) as driver:
        driver.wait_failure("ConsumerGroupNotCommitted")
        grant = f"--add --allow-principal User:{USER} --operation Read --group {group}"
        driver.wait("the command", lambda report: grant in report.message)
        assert driver.health.ready
        topics.wait_received(sink, range(10))
        secured.grant_all(ResourceType.GROUP, group, AclOperation.READ)
        driver.wait("no warning", lambda report: not report.message)
        wait_for("no lag", lambda: describe(topics.bootstrap, group)[source, 0].lag == 0)
