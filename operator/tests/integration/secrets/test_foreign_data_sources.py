"""Data sources of others get the values of Secrets from Penstock, and work as without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import impatient, running, second_jvm
from testkit.driver.spark_pages import ui_pages
from testkit.kafka.secure_broker import CA, PASSWORD, USER, SecureBroker, running_secured
from testkit.kafka.topics import Topics
from testkit.object_store.server import LocalObjectStore
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH, RATE, kafka_source, stream


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with running_secured(SecureBroker(tmp_path_factory.mktemp("secure"))) as broker:
        yield broker


KAFKA = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.ssl.truststore.type": "PEM",
}


@pytest.mark.proves("security.md#other-credentials")
@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_a_data_source_that_is_not_ours_logs_in(
    secured: SecureBroker,
    trigger: dict[str, Any],
    class_path: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Spark's own `kafka` as a custom source and sink: it has no idea of Penstock's Secrets.

    The first password is wrong. The right one reaches the query by its next start.
    """
    topics = Topics(secured.bootstrap)
    source, sink = topics.make(1), topics.make(1)
    secured.grant(source, AclOperation.READ)
    secured.grant(sink, AclOperation.WRITE)
    topics.send(source, range(20))
    login = tmp_path / "secrets" / "login"
    login.mkdir(parents=True)
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required "
    (login / "jaas").write_text(f'{jaas} username="{USER}" password="wrong-{PASSWORD}";')
    client = {
        **KAFKA,
        "kafka.bootstrap.servers": secured.sasl,
        "kafka.ssl.truststore.location": str(secured.secrets / CA / "ca.crt"),
    }
    secret = {"secretOptions": {"kafka.sasl.jaas.config": {"name": "login", "key": "jaas"}}}
    read = {**client, "subscribe": source, "startingOffsets": "earliest"}
    made = stream(
        {"custom": {"format": "kafka", "options": read, **secret}},
        {"custom": {"format": "kafka", "options": {**client, "topic": sink}, **secret}},
        trigger=trigger,
        transform={"sql": "SELECT value FROM source"},
    )
    where = LocalEnvironment(tmp_path / "checkpoint", secrets=tmp_path / "secrets")
    with (
        second_jvm(class_path) as jvm,
        running(made, jvm, where, policy=impatient(made)) as driver,
    ):
        refused = driver.wait("refused", lambda report: report.last_failure is not None)
        (login / "jaas").write_text(f'{jaas} username="{USER}" password="{PASSWORD}";\n')
        topics.wait_received(sink, range(20))
        driver.wait_ready()
        out, err = capfd.readouterr()
        for text in (out, err, repr(driver.reports)):
            assert PASSWORD not in text
        assert refused.last_failure is not None


@pytest.mark.proves("recipes.md#into-tables-and-files")
def test_files_are_written_to_an_object_store(
    s3: LocalObjectStore,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also by a stream whose checkpoint is elsewhere. Spark's web UI shows none of the keys."""
    s3.make_bucket("lake")
    source = topics.make(2)
    topics.send(source, range(50))
    keys = tmp_path / "secrets" / "lake"
    keys.mkdir(parents=True)
    (keys / "id").write_text(f"{s3.access_key}\n")
    (keys / "secret").write_text(f"{s3.secret_key}\n")
    made = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        {"custom": {"format": "parquet", "options": {"path": "s3a://lake/numbers"}}},
        trigger=MICRO_BATCH,
        transform={"sql": "SELECT CAST(value AS STRING) AS value FROM source"},
        sparkConf={
            "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        },
        secretSparkConf={
            "spark.hadoop.fs.s3a.access.key": {"name": "lake", "key": "id"},
            "spark.hadoop.fs.s3a.secret.key": {"name": "lake", "key": "secret"},
        },
        observability={"ui": True},
    )
    where = LocalEnvironment(tmp_path / "checkpoint", secrets=tmp_path / "secrets")
    with second_jvm(class_path) as jvm, running(made, jvm, where) as driver:
        driver.wait_committed(50)
        import pyarrow.parquet  # type: ignore[import-untyped]

        files = [name for name in s3.names("lake", "numbers/") if name.endswith(".parquet")]
        rows = 0
        for number, name in enumerate(files):
            file = tmp_path / f"{number}.parquet"
            file.write_bytes(s3.read("lake", name))
            rows += pyarrow.parquet.read_metadata(file).num_rows
        assert rows == 50
        out, err = capfd.readouterr()
        shown = out + err + "".join(ui_pages(driver).values())
        assert s3.access_key not in shown
        assert s3.secret_key not in shown


def secret(folder: Path, **values: str) -> LocalEnvironment:
    for key, value in values.items():
        file = folder / "secrets" / "own" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
    return LocalEnvironment(folder / "checkpoint", secrets=folder / "secrets")


@pytest.mark.parametrize(
    ("custom", "reason", "says"),
    [
        ({"format": "com.example.Nowhere"}, "ClassNotFound", "com.example.Nowhere"),
        # By a name that the rules of validation do not know.
        (
            {"format": "org.apache.spark.sql.execution.datasources.csv.CSVFileFormat"},
            "OptionInvalid",
            "is a format of files, which has no secret options: use spec.secretSparkConf",
        ),
        ({"format": "socket"}, "SparkUnsupportedOperation", "streamed writing"),
    ],
)
def test_what_is_refused(
    custom: dict[str, Any], reason: str, says: str, jvm: Jvm, tmp_path: Path
) -> None:
    """As it would be without secretOptions."""
    options = {"path": str(tmp_path / "out"), "host": "127.0.0.1", "port": "1"}
    made = stream(
        RATE,
        {
            "custom": {
                **custom,
                "options": options,
                "secretOptions": {"password": {"name": "own", "key": "password"}},
            }
        },
        trigger=MICRO_BATCH,
    )
    with running(made, jvm, secret(tmp_path, password="secret-1")) as driver:
        failure = driver.wait("failed", lambda report: report.last_failure is not None).last_failure
        assert failure is not None
        assert (failure.permanent, says in failure.message) == (True, True), failure
        assert failure.reason == reason


def test_a_key_that_is_missing_is_waited_for(jvm: Jvm, tmp_path: Path) -> None:
    """And one that goes costs a running query nothing."""
    ref = {"name": "own", "key": "rows"}
    made = stream(
        RATE,
        {"custom": {"format": "console", "secretOptions": {"numRows": ref}}},
        trigger=MICRO_BATCH,
        secretSparkConf={"spark.hadoop.a.b": {"name": "own", "key": "conf"}},
    )
    where = secret(tmp_path, rows="1")
    with running(made, jvm, where, policy=impatient(made)) as driver:
        failed = driver.wait_failure("SecretMissing").last_failure
        assert failed is not None
        assert "The Secret own has no key conf" in failed.message
        secret(tmp_path, conf="x")
        before = driver.wait_ready()
        (tmp_path / "secrets" / "own" / "rows").unlink()
        after = driver.wait("more", lambda report: (report.epoch or 0) > (before.epoch or 0) + 2)
        assert after.query_restarts == before.query_restarts
