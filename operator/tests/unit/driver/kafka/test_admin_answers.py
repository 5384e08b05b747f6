"""The admin client's options and the reading of its answers, without Kafka."""

import json
from pathlib import Path
from typing import cast

import pytest

from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka import admin, offsets
from penstock.driver.kafka.sink_topic import require_replicas, require_topic
from testkit.streams.streams import kafka_source, stream


def test_the_admin_client_has_the_sources_options() -> None:
    own = {"kafka.client.id": "mine", "minPartitions": "5"}
    source = stream(kafka_source(options=own)).spec.source.kafka
    assert source is not None
    options = admin.client_options(source, Path())
    assert options["client.id"] == "mine"
    assert options["bootstrap.servers"] == "kafka:9092"
    assert "minPartitions" not in options
    assert "minpartitions" not in options
    assert int(options["default.api.timeout.ms"]) <= 10_000


def test_its_options_count_in_any_case() -> None:
    """As in Spark, which gives its own clients the name in lower case."""
    own = {"Kafka.Isolation.Level": "read_committed", "KAFKA.client.id": "mine"}
    source = stream(kafka_source(options=own)).spec.source.kafka
    assert source is not None
    options = admin.client_options(source, Path())
    assert options["isolation.level"] == "read_committed"
    assert options["client.id"] == "mine"
    assert options.keys() == {name.lower() for name in options}


def test_a_stream_without_a_commit_starts_at_its_first_offsets() -> None:
    first = {"in": {0: 5, 1: 7}}
    newest = {"in": {0: 50, 1: 7, 2: 3}}
    assert json.loads(offsets.starting_offsets(first, newest)) == {
        # A partition that was added since is read from its earliest record.
        "in": {"0": 5, "1": 7, "2": offsets.EARLIEST}
    }


def test_a_topic_that_was_created_again_is_read_from_its_earliest_record() -> None:
    assert json.loads(offsets.starting_offsets({"in": {0: 500}}, {"in": {0: 3}})) == {
        "in": {"0": offsets.EARLIEST}
    }


def test_lag() -> None:
    assert offsets.lag({"in": {0: 5}}, {"in": {0: 8, 1: 2}}) == 5
    assert offsets.lag({"in": {0: 9}}, {"in": {0: 8}}) == 0


class Brokers:
    """Replaces an Admin: whether the topic exists, and whether brokers create topics."""

    def __init__(self, topics: Failure | None, creates: bool | Failure) -> None:
        self._topics = topics
        self._creates = creates

    def topics(self, names: list[str]) -> dict[str, admin.Topic]:
        if self._topics is not None:
            raise DriverError(self._topics)
        return {name: admin.Topic("id", 1) for name in names}

    def creates_topics(self) -> bool:
        if isinstance(self._creates, Failure):
            raise DriverError(self._creates)
        return self._creates


MISSING = Failure("TopicMissing", "")
NOT_ALLOWED = Failure("KafkaAuthorization", "")


@pytest.mark.parametrize(
    ("topics", "creates", "reason"),
    [
        pytest.param(None, False, None, id="it exists"),
        pytest.param(MISSING, True, None, id="it will be created"),
        pytest.param(MISSING, NOT_ALLOWED, None, id="may not ask"),
        pytest.param(MISSING, False, "TopicMissing", id="it is missing"),
        pytest.param(NOT_ALLOWED, True, "KafkaAuthorization", id="not authorized"),
    ],
)
def test_an_output_topic(
    topics: Failure | None, creates: bool | Failure, reason: str | None
) -> None:
    brokers = cast(admin.Admin, Brokers(topics, creates))
    if reason is None:
        require_topic(brokers, "out", lambda: False)
        return
    with pytest.raises(DriverError) as raised:
        require_topic(brokers, "out", lambda: True)
    assert raised.value.failure.reason == reason
    if reason == "TopicMissing":
        assert "The output topic out " in raised.value.failure.message
        assert "what stood in it is gone" in raised.value.failure.message
        with pytest.raises(DriverError) as first:
            require_topic(brokers, "out", lambda: False)
        assert "gone" not in first.value.failure.message


class Copies:
    """Replaces an Admin: the replicas of a topic."""

    def __init__(self, answer: admin.Replicas | Failure) -> None:
        self._answer = answer

    def replicas(self, name: str) -> admin.Replicas:
        if isinstance(self._answer, Failure):
            raise DriverError(self._answer)
        return self._answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (admin.Replicas(assigned=1, needed=1), None),
        (admin.Replicas(assigned=3, needed=2), None),
        (admin.Replicas(assigned=1, needed=2), "TooFewReplicas"),
        (NOT_ALLOWED, None),
        (Failure("BrokerUnreachable", ""), "BrokerUnreachable"),
    ],
)
def test_the_replicas_of_an_output_topic(
    answer: admin.Replicas | Failure, reason: str | None
) -> None:
    copies = cast(admin.Admin, Copies(answer))
    if reason is None:
        require_replicas(copies, "out", "kafka:9092")
        return
    with pytest.raises(DriverError) as raised:
        require_replicas(copies, "out", "kafka:9092")
    assert raised.value.failure.reason == reason
    if reason == "TooFewReplicas":
        assert "--topic out --add-config min.insync.replicas=1" in raised.value.failure.message
