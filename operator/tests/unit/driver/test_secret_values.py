"""Secrets' values in texts, and the options of data sources that have some."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from penstock.api.modes import Mode
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.base import KeyRef
from penstock.contract.secrets import secret_keys
from penstock.contract.sizing import Size
from penstock.driver import secret_values
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import Failure
from penstock.driver.secret_values import redact, redact_from_now_on, values_of
from penstock.driver.spark.session import spark_conf
from penstock.driver.spark.sinks import sink_options
from penstock.driver.spark.sources import source_options
from penstock.driver.spark.user_python import with_secret_options
from testkit.streams.streams import MICRO_BATCH, stream

SIZE = Size(partitions=1, executors=0, cores_per_executor=1, slots=1)
REF = {"name": "shop", "key": "password"}
SINK: dict[str, Any] = {
    "custom": {"format": "a.B", "options": {"url": "x"}, "secretOptions": {"password": REF}}
}
CONF = {"spark.hadoop.fs.s3a.a": REF, "spark.sql.catalog.lake.credential": REF, "spark.hive.x": REF}


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_values, "_known", secret_values._Known())
    monkeypatch.setattr(secret_values, "_read_at", {})


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "password").write_text('pa"ss word\n')
    return tmp_path


def written(file: Path, text: str, at: int) -> Path:
    file.write_text(text)
    os.utime(file, (at, at))
    return file


@pytest.mark.parametrize(
    ("value", "text", "left"),
    [
        ("secret-1", "at secret-1: secret-1", "at ***: ***"),
        ('a"b\\c', json.dumps({"it": 'a"b\\c'}), '{"it": "***"}'),
        ("a b/c", "http://h/?p=a+b%2Fc", "http://h/?p=***"),
        ("first-line\nsecond-line", "first-line\n second-line", "***\n ***"),
        ("abcd\r\n", "<abcd>", "<***>"),
        ("abc", "abc", "abc"),  # too short
        ("9092", "port 9092", "port 9092"),
        ("true", "true", "true"),
        ("time", '{"time": "time"}', '{"time": "time"}'),
        ("secret-1", 'invalid token "secret-1": 401', 'invalid token "***": 401'),
        ("ab/c+ d", "ab%2Fc%2B%20d ab/c%2B%20d ab%2Fc%2B+d", "*** *** ***"),
        ('a"b\\c', json.dumps(json.dumps({"it": 'a"b\\c'})), '"{\\"it\\": \\"***\\"}"'),
        ("it's\\n", json.dumps({"a": repr({"b": "it's\\n"})}), '{"a": "{\'b\': \\"***\\"}"}'),
        ("", "empty", "empty"),
    ],
)
def test_values_are_cut_out(value: str, text: str, left: str, tmp_path: Path) -> None:
    redact_from_now_on([written(tmp_path / "value", value, 1)])
    assert redact(text) == left


def test_a_value_within_another_is_cut_out_with_it(tmp_path: Path) -> None:
    redact_from_now_on(
        [written(tmp_path / "a", "pass", 1), written(tmp_path / "b", "my-pass-2", 1)]
    )
    assert redact("my-pass-2 pass") == "*** ***"


def test_what_a_secret_held_before_is_cut_out_too(tmp_path: Path) -> None:
    file = written(tmp_path / "value", "before", 1)
    redact_from_now_on([file])
    assert redact("before after") == "*** after"
    written(file, "after", 2)
    assert redact("before after") == "*** ***"
    file.unlink()
    assert redact("before after") == "*** ***"


def test_a_file_that_comes_later_is_read_then(tmp_path: Path) -> None:
    redact_from_now_on([tmp_path / "value"])
    assert redact("value") == "value"
    (tmp_path / "value").write_text("value")
    assert redact("value") == "***"


def test_a_failure_has_no_value(tmp_path: Path) -> None:
    redact_from_now_on([written(tmp_path / "value", "secret-1", 1)])
    failure = Failure("Some", "the login secret-1 is refused")
    assert failure.message == "the login *** is refused"
    assert failure.to_status(datetime.now(UTC)).message == failure.message


def test_spark_gets_paths(secrets: Path) -> None:
    file = str(secrets / "shop" / "password")
    spec = stream({"custom": {**SINK["custom"], "schema": "a INT"}}, SINK, trigger=MICRO_BATCH).spec
    expected = {
        "url": "x",
        "penstock.format": "a.B",
        "penstock.secretFiles": json.dumps({"password": file}),
    }
    named, options = sink_options(spec.sink, secrets)
    assert (named, options) == ("dev.penstock.spark.secrets.SinkWithSecrets", expected)
    named, options = source_options(spec.source, secrets, Mode.MICRO_BATCH)
    assert (named, options) == ("dev.penstock.spark.secrets.SourceWithSecrets", expected)


def test_a_python_data_source_keeps_its_name(secrets: Path) -> None:
    sink = {"custom": {**SINK["custom"], "format": "a.b:C"}}
    named, options = sink_options(stream(sink=sink, trigger=MICRO_BATCH).spec.sink, secrets)
    assert named == "a.b:C"
    assert set(options) == {"url", "penstock.secretFiles"}


class Source:
    def __init__(self, options: CaseInsensitiveDict) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return cls.__name__


def test_a_python_data_source_gets_the_values(secrets: Path) -> None:
    """In place of an option that differs in case only; Spark's options ignore it."""
    file = secrets / "shop" / "password"
    files = json.dumps({"Password": str(file)})
    made = with_secret_options(Source, "penstock.secretFiles", files)
    assert made.name() == "Source_with_secrets"
    options = CaseInsensitiveDict({"url": "x", "password": "y", "penstock.secretfiles": files})
    assert dict(made(options).options) == {"url": "x", "password": 'pa"ss word'}
    file.unlink()
    assert dict(made(options).options) == {"url": "x", "password": 'pa"ss word'}
    assert options["password"] == "y"


def test_spark_conf(secrets: Path, tmp_path: Path) -> None:
    it = stream(trigger=MICRO_BATCH, secretSparkConf=CONF, sparkConf={"spark.ui.filters": "own"})
    conf = spark_conf(it, LocalEnvironment(tmp_path / "checkpoint", secrets=secrets), SIZE)
    assert {name: conf[name] for name in CONF} == dict.fromkeys(CONF, 'pa"ss word')
    assert conf["spark.penstock.secretFiles"] == "\n".join([str(secrets / "shop/password")] * 3)
    assert conf["spark.ui.filters"] == "own,dev.penstock.spark.secrets.RedactingFilter"
    assert conf["spark.plugins"] == "dev.penstock.spark.secrets.RedactionPlugin"
    # Hadoop's settings are shown by their own names.
    assert conf["spark.redaction.regex"].endswith(
        r"|credential|fs\.s3a\.a|spark\.sql\.catalog\.lake\.credential|hive\.x"
    )


def test_a_stream_without_secret_values_has_nothing_of_it(tmp_path: Path) -> None:
    conf = spark_conf(stream(), LocalEnvironment(tmp_path), SIZE)
    assert not {"spark.ui.filters", "spark.plugins", "spark.redaction.regex"} & set(conf)


def test_what_cannot_be_read_is_passed_over(secrets: Path) -> None:
    """check_secrets names it."""
    (secrets / "shop" / "key").write_bytes(b"\xff\xfe")
    refs = {key: KeyRef(name="shop", key=key) for key in ("password", "none", "key")}
    assert values_of(refs, secrets) == {"password": 'pa"ss word'}


@pytest.mark.parametrize(
    "fields",
    [
        {"sink": SINK},
        {"source": SINK},
        {"secretSparkConf": CONF},
    ],
)
def test_the_pods_mount_the_keys_and_need_the_classes(fields: dict[str, Any]) -> None:
    spec = stream(**{"trigger": MICRO_BATCH, **fields}).spec
    assert isinstance(spec, StreamSpec)
    assert secret_keys(spec) == {"shop": ("password",)}
    assert spec.needs_connector
    assert not stream().spec.needs_connector
