"""from_json with mode FAILFAST, as in the recipes: what it takes, and what it says of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.driver.exceptions.chain import read_python_chain
from penstock.driver.exceptions.classify import classify
from penstock.driver.jvm import Jvm
from penstock.driver.spark import json_schemas
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topic_reader import TopicReader
from testkit.kafka.topics import Topics
from testkit.streams.examples import consume, produce
from testkit.streams.streams import MICRO_BATCH, MOSTLY_BOTH_ENGINES, kafka_to_kafka, stream
from testkit.wait import wait_for

SCHEMA = (
    "id BIGINT, name STRING, at TIMESTAMP, price DOUBLE, sum DECIMAL(6,2), of STRUCT<c: DATE>, "
    "more ARRAY<INT>, ok BOOLEAN, by MAP<STRING, INT>"
)
SQL = f"""
    SELECT to_json(row) AS value FROM (
      SELECT from_json(CAST(value AS STRING), '{SCHEMA}', map('mode', 'FAILFAST')) AS row
      FROM source
    )
"""
SECRET = "4111111111"
# No record text may be in any message: neither a value nor the key of a map.
BAD = {
    f'not JSON {SECRET}': "it is not JSON",
    f'{{"id":"{SECRET}': "it is not JSON",
    f'[{{"id":{SECRET}}}]': "it is JSON, and not what the schema says as a whole",
    "null": "it is JSON, and not what the schema says as a whole",
    f"{SECRET}": "it is not what the schema says",
    f'{{"id":"{SECRET}"}}': "the field id is text in quotes, and the schema says BIGINT",
    f'{{"name":"{SECRET}","id":true}}': "the field id is true or false, and the schema says BIGINT",
    f'{{"id":{SECRET}.5}}': (
        "the field id is a number with a fraction or an exponent, and the schema says BIGINT"
    ),
    f'{{"id":{SECRET * 3}}}': "a number is too large for the type that the schema says",
    f'{{"price":"{SECRET}"}}': "the field price is text in quotes, and the schema says DOUBLE",
    f'{{"sum":{SECRET}}}': "the field sum is a number that is too large for DECIMAL(6,2)",
    f'{{"at":"{SECRET} {SECRET}"}}': "the field at is text that is no TIMESTAMP",
    f'{{"of":{{"c":"{SECRET} {SECRET}"}}}}': "the field c is text that is no DATE",
    f'{{"of":"{SECRET}"}}': "the field of is text in quotes, and the schema says STRUCT",
    f'{{"more":["{SECRET}"]}}': "a value is text in quotes, and the schema says INT",
    f'{{"ok":"{SECRET}"}}': "the field ok is text in quotes, and the schema says BOOLEAN",
    f'{{"by":{{"{SECRET}":"{SECRET}"}}}}': "it is not what the schema says",
}  # fmt: skip
GOOD = {
    "{}": "{}",
    '{"id":null}': "{}",
    '{"id":1,"another":5}': '{"id":1}',
    '{"price":1,"sum":"1.5","name":5}': '{"name":"5","price":1.0,"sum":1.50}',
    '{"by":{"k":1},"more":[1,null]}': '{"more":[1,null],"by":{"k":1}}',
}


@pytest.mark.proves(31)
@pytest.mark.parametrize(("record", "why"), BAD.items(), ids=range(len(BAD)))
def test_what_is_wrong_with_a_record_is_said_without_a_value(
    record: str, why: str, spark: SparkSession
) -> None:
    """Neither a value nor the key of a map is in the message."""
    rows = spark.createDataFrame([(record,)], "value STRING")
    parsed = rows.selectExpr(f"from_json(value, '{SCHEMA}', map('mode', 'FAILFAST')) AS row")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        parsed.write.format("noop").mode("overwrite").save()
    failure = classify(read_python_chain(raised.value), fields=json_schemas.fields_of(parsed))
    assert failure.maybe_poison
    assert failure.reason == "MalformedRecordInParsing"
    assert f"from_json: {why}." in failure.message
    assert SECRET not in failure.message


@pytest.mark.proves(31)
def test_a_field_that_only_the_record_names_is_not_shown(spark: SparkSession) -> None:
    """Also if its type is in the message; and all fields of the type, if Spark names none."""
    rows = spark.createDataFrame([(f'{{"at":"{SECRET} {SECRET}"}}',)], "value STRING")
    schema = "at TIMESTAMP, also STRUCT<then: TIMESTAMP>"
    parsed = rows.selectExpr(f"from_json(value, '{schema}', map('mode', 'FAILFAST')) AS row")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        parsed.write.format("noop").mode("overwrite").save()
    chain = read_python_chain(raised.value)
    failure = classify(chain, fields=json_schemas.fields_of(parsed))
    assert "one of the fields at, then is text that is no TIMESTAMP" in failure.message
    assert "from_json: a value is text that is no TIMESTAMP" in classify(chain).message


@pytest.mark.proves("failures.md#the-transform-cannot-process-a-record")
@pytest.mark.parametrize("trigger", MOSTLY_BOTH_ENGINES)
def test_a_bad_record_is_a_dead_letter_and_a_missing_field_is_none(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink, letters = topics.make(1), topics.make(1), topics.make(1)
    quoted = f'{{"id":"{SECRET}"}}'
    produce(topics.bootstrap, source, [quoted, *GOOD])
    flow = stream(
        **kafka_to_kafka(
            topics.bootstrap,
            source,
            sink,
            trigger,
            {"deadLetters": {"topic": letters}},
            transform={"sql": SQL},
        )
    )
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        wait_for(
            "every record",
            lambda: {value for _, value in consume(topics.bootstrap, sink)} == set(GOOD.values()),
        )
        said = json.dumps([report.model_dump(mode="json") for report in driver.reports])
    (letter,) = TopicReader(topics.bootstrap).read(letters)
    headers = {name: value for name, value in letter.headers() or [] if isinstance(value, bytes)}
    assert letter.value() == quoted.encode()
    assert headers["__penstock.errors.reason"] == b"MalformedRecordInParsing"
    message = headers["__penstock.errors.message"].decode()
    assert f"from_json: {BAD[quoted]}." in message
    assert SECRET not in message
    assert SECRET not in said


@pytest.mark.proves("failures.md#the-transform-cannot-process-a-record")
def test_an_aggregate_does_not_swallow_a_bad_record(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It would be counted and not summed. Dead letters need a query without a shuffle."""
    source, sink = topics.make(1), topics.make(1)
    produce(topics.bootstrap, source, ['{"price":2.5}', f'{{"price":"{SECRET}"}}'])
    sql = f"""
        SELECT to_json(struct(count(*), sum(row.price))) AS value FROM (
          SELECT from_json(CAST(value AS STRING), '{SCHEMA}', map('mode', 'FAILFAST')) AS row
          FROM source)
    """
    of_source = {"startingOffsets": "earliest"}
    flow = stream(
        **kafka_to_kafka(
            topics.bootstrap,
            source,
            sink,
            MICRO_BATCH,
            of_source,
            outputMode="complete",
            transform={"sql": sql},
        )
    )
    with running(flow, jvm, tmp_path, impatient(flow)) as driver:
        report = driver.wait_failure("MalformedRecordInParsing")
        assert report.last_failure is not None
        assert "the field price is text in quotes" in report.last_failure.message
    assert consume(topics.bootstrap, sink) == []
