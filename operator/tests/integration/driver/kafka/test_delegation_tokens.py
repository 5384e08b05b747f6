"""Kafka's delegation tokens, which Spark renews for an application, over penstock-kafka."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql.streaming.query import StreamingQuery

from penstock.driver.jvm import Jvm
from penstock.driver.spark import executors
from penstock.driver.spark.sources import PENSTOCK_KAFKA
from testkit.driver.bare_query import bare_session
from testkit.kafka.secure_broker import PASSWORD, USER, SecureBroker, TokenBroker, running_secured
from testkit.kafka.topics import Topics
from testkit.streams.streams import stream
from testkit.wait import wait_for

CLUSTER = "tested"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Tokens:
    """The user's tokens, where Spark's own renewal puts them: in Hadoop's credentials."""

    def __init__(self, jvm: Jvm, broker: SecureBroker) -> None:
        self._java = jvm.gateway.jvm
        self._hadoop = self._java.org.apache.hadoop.security
        options = self._java.java.util.HashMap()
        login = f'{SCRAM} required username="{USER}" password="{PASSWORD}";'
        for name, value in {
            **tls(broker),
            "bootstrap.servers": broker.sasl,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": login,
        }.items():
            options.put(name, value)
        self._admin = self._java.org.apache.kafka.clients.admin.AdminClient.create(options)

    def renew(self) -> Any:
        """A new token, which Spark finds instead of the one before."""
        token = self._admin.createDelegationToken().delegationToken().get()
        util = self._java.org.apache.spark.kafka010.KafkaTokenUtil
        self._hadoop.UserGroupInformation.getCurrentUser().addToken(
            self._hadoop.token.Token(
                token.tokenInfo().tokenId().encode(),
                token.hmacAsBase64String().encode(),
                util.TOKEN_KIND(),
                util.getTokenService(CLUSTER),
            )
        )
        return token

    def expire(self, token: Any) -> None:
        """Kafka takes it no longer."""
        self._admin.expireDelegationToken(token.hmac()).expiryTimestamp().get()

    def forget(self) -> None:
        """Other sessions in this JVM would look for the cluster of the tokens."""
        self._hadoop.UserGroupInformation.reset()
        self._admin.close()


def tls(broker: SecureBroker) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.folder / "ca.crt")}


def wait_received(topics: Topics, sink: str, numbers: range, query: StreamingQuery) -> None:
    """Waits until the numbers have arrived, or the query has failed."""

    def all_received() -> bool:
        assert query.isActive, query.exception()
        return set(numbers) <= set(topics.received(sink))

    wait_for("the numbers", all_received, every=0.25)


@pytest.mark.proves("decisions/own-data-source.md")
@pytest.mark.full
def test_a_renewed_delegation_token(jvm: Jvm, tmp_path: Path) -> None:
    """Records flow on when the token with which the query began is no longer valid."""
    with running_secured(TokenBroker(tmp_path)) as broker:
        topics, tokens = Topics(broker.bootstrap), Tokens(jvm, broker)
        source, sink = topics.make(1), topics.make(1)
        broker.grant(source, AclOperation.READ)
        broker.grant(sink, AclOperation.WRITE)
        of_cluster = {
            "auth.bootstrap.servers": broker.sasl,
            "target.bootstrap.servers.regex": broker.sasl,
            "sasl.token.mechanism": "SCRAM-SHA-512",
        }
        conf = {f"spark.kafka.clusters.{CLUSTER}.{name}": it for name, it in of_cluster.items()}
        try:
            first = tokens.renew()
            with bare_session(jvm, stream(sparkConf=conf), tmp_path / "session") as spark:
                clients = {"bootstrap.servers": broker.sasl, **tls(broker)}
                at = {f"kafka.{name}": value for name, value in clients.items()}
                read = spark.readStream.format(PENSTOCK_KAFKA).options(**at, subscribe=source)
                frame = read.option("startingOffsets", "earliest").load()
                writer = frame.writeStream.format(PENSTOCK_KAFKA).options(**at, topic=sink)
                writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
                query = writer.trigger(continuous="300 milliseconds").start()
                topics.send(source, range(20))
                wait_received(topics, sink, range(20), query)
                tokens.renew()
                # The clients take the new one with their next records. Spark renews it long before.
                topics.send(source, range(20, 40))
                wait_received(topics, sink, range(40), query)
                tokens.expire(first)
                for batch in range(2, 6):  # for longer than Kafka trusts a connection
                    topics.send(source, range(20 * batch, 20 * batch + 20))
                    wait_received(topics, sink, range(20 * batch + 20), query)
                    time.sleep(broker.reauthentication_ms / 2_000)
                with executors.without_stop_warnings(spark.sparkContext):
                    query.stop()
                    executors.wait_until_idle(spark.sparkContext)
            assert topics.received(sink) == dict.fromkeys(range(120), 1)
        finally:
            tokens.forget()
