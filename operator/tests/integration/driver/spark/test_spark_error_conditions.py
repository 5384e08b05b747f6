"""Error conditions of Spark that a record causes, each provoked for real over one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.driver.exceptions.chain import read_python_chain
from penstock.driver.exceptions.classify import classify
from penstock.driver.exceptions.spark_error_conditions import OF_KAFKA, verdict
from testkit.driver.spark_error_conditions import (
    CLASSES,
    failure_of,
    of_spark,
    of_the_connector,
    shows_its_text,
)
from testkit.kafka.jars import connector_jars
from testkit.plugins.figures import RecordFigure

_STRICT = "'a INT', map('mode', 'FAILFAST')"
_KEY = "'0123456789abcdef'"
# What raises each of them over value = 'card 4111', number = n = 4111 and zero = 0.
PROVOKED = {
    "ARITHMETIC_OVERFLOW": "number * 9223372036854775807L",
    "BINARY_ARITHMETIC_OVERFLOW": "CAST(number - 4000 AS TINYINT) + CAST(number - 4000 AS TINYINT)",
    "CAST_INVALID_INPUT": "CAST(value AS INT)",
    "CAST_OVERFLOW": "CAST(number * 1000000000 AS INT)",
    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION": "CAST(number AS DECIMAL(2,0))",
    "CANNOT_PARSE_TIMESTAMP": "to_timestamp(value, 'yyyy')",
    "CONVERSION_INVALID_INPUT": "to_binary(value, 'hex')",
    "INVALID_FORMAT.MISMATCH_INPUT": "to_number(value, '$999.99')",
    "CANNOT_DECODE_URL": "url_decode(concat(value, '%'))",
    "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER": "sequence(0L, number * 10000000000L)",
    "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION": "make_date(2024, n, 1)",
    "DATETIME_OVERFLOW": "timestampadd(YEAR, number * 1000, timestamp'2024-01-01')",
    "DIVIDE_BY_ZERO": "number / zero",
    "REMAINDER_BY_ZERO": "number % zero",
    "INTERVAL_DIVIDED_BY_ZERO": "INTERVAL '1' DAY / zero",
    "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION": "make_ym_interval(n * 500000)",
    "DUPLICATED_MAP_KEY": "map_from_arrays(array(value, value), array(1, 2))",
    "NULL_MAP_KEY": "map_from_arrays(array(nullif(value, value)), array(1))",
    "ILLEGAL_DAY_OF_WEEK": "next_day(date'2024-01-01', value)",
    "INVALID_ARRAY_INDEX": "array(1)[n]",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "element_at(array(1), n)",
    "INVALID_INDEX_OF_ZERO": "element_at(array(1), zero)",
    "INVALID_FRACTION_OF_SECOND": "make_timestamp(2024, 1, 1, 1, 1, 60.5 + zero)",
    "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE": "CAST(value AS INTERVAL DAY)",
    "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING": "CAST(value AS INTERVAL YEAR)",
    "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION": f"from_json(value, {_STRICT})",
    "MALFORMED_RECORD_IN_PARSING.CANNOT_PARSE_JSON_ARRAYS_AS_STRUCTS": (
        f"from_json(concat('[', n, ']'), {_STRICT})"
    ),
    "INVALID_PARAMETER_VALUE.AES_KEY_LENGTH": "aes_decrypt(value, value)",
    "INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR": f"aes_decrypt(repeat(value, 10), {_KEY})",
    "UNSUPPORTED_FEATURE.AES_MODE": f"aes_decrypt(value, {_KEY}, value)",
    "INVALID_PARAMETER_VALUE.AES_IV_LENGTH": f"aes_encrypt(value, {_KEY}, 'GCM', 'DEFAULT', value)",
    "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE": "bit_get(1L, n)",
    "INVALID_PARAMETER_VALUE.CHARSET": "encode(value, value)",
    "MALFORMED_CHARACTER_CODING": "encode(concat(value, 'é'), 'US-ASCII')",
    "INVALID_PARAMETER_VALUE.PATTERN": "regexp_extract(value, concat(value, '('), 1)",
    "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX": "regexp_extract(value, '(c)', n)",
    "INVALID_REGEXP_REPLACE": "regexp_replace(value, '(c)', '$9')",
    "INVALID_TIMEZONE": "from_utc_timestamp(timestamp'2024-01-01', value)",
    "INVALID_URL": "parse_url(concat('http://', value), 'HOST')",
    "INVALID_UTF8_STRING": "validate_utf8(CAST(concat(CAST(value AS BINARY), X'80') AS STRING))",
    "INVALID_VARIANT_CAST": "CAST(parse_json(concat('\"', value, '\"')) AS INT)",
    "INVALID_VARIANT_GET_PATH": "variant_get(parse_json('{}'), value)",
    "VARIANT_DUPLICATE_KEY": "parse_json(concat('{\"', value, '\":1,\"', value, '\":2}'))",
    "USER_RAISED_EXCEPTION": "raise_error(value)",
    "HLL_INVALID_INPUT_SKETCH_BUFFER": "hll_sketch_estimate(CAST(value AS BINARY))",
    "THETA_INVALID_INPUT_SKETCH_BUFFER": "theta_sketch_estimate(CAST(value AS BINARY))",
    "KLL_INVALID_INPUT_SKETCH_BUFFER": "kll_sketch_get_n_bigint(CAST(value AS BINARY))",
    "COMPARATOR_RETURNS_NULL": "array_sort(array(value, 'b'), (a, b) -> CAST(NULL AS INT))",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN": "date_format(now(), value)",
    "NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION": "percentile(number, 0.5, -number)",
    "WKB_PARSE_ERROR": "st_geomfromwkb(CAST(value AS BINARY))",
    "INVALID_PARAMETER_VALUE.START": "slice(array(1), zero, 1)",
    "INVALID_PARAMETER_VALUE.LENGTH": "slice(array(1), 1, -n)",
}


@pytest.mark.proves("failures.md#what-is-shown-of-records")
@pytest.mark.full
@pytest.mark.parametrize(("condition", "sql"), PROVOKED.items(), ids=PROVOKED)
def test_a_record_that_causes_it_is_at_fault_and_not_shown(
    condition: str, sql: str, spark: SparkSession
) -> None:
    columns = "value STRING, number LONG, n INT, zero INT"
    rows = spark.createDataFrame([("card 4111", 4111, 4111, 0)], columns)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        rows.selectExpr(f"{sql} AS computed").write.format("noop").mode("overwrite").save()
    chain = read_python_chain(raised.value)
    assert condition in {each.condition for each in chain}
    failure = classify(chain)
    assert failure.maybe_poison
    assert not failure.permanent
    assert "4111" not in failure.message


def test_how_many_are_provoked(record_figure: RecordFigure) -> None:
    known = {each.name for each in of_spark()}
    assert PROVOKED.keys() <= known
    record_figure("conditions of Spark that are provoked for real", len(PROVOKED))


@pytest.mark.proves("failures.md#what-is-shown-of-records")
def test_every_condition_of_the_kafka_connector_has_a_verdict(record_figure: RecordFigure) -> None:
    """A new version of the connector fails here with those that nobody has judged, or that show a
    text of their exception. Lost records are told by partition and offset."""
    known = {each.name: each for each in of_the_connector(connector_jars())}
    assert "KAFKA_NULL_TOPIC_IN_DATA" in known
    assert [name for name, each in known.items() if verdict(name, each.sql_state) is None] == []
    # And no verdict is on a condition that is gone.
    assert [n for n in OF_KAFKA if not any(name.startswith(n) for name in known)] == []
    classes = CLASSES["SparkRuntimeException"]
    failures = {name: failure_of(each, classes) for name, each in known.items()}
    shown = {name for name, failure in failures.items() if shows_its_text(failure)}
    assert all(name.startswith("KAFKA_DATA_LOSS") for name in shown)
    record_figure("conditions and cases of the connector", len(known))
    of_records = [name for name, failure in failures.items() if failure.maybe_poison]
    record_figure("of the connector, that a record may cause", len(of_records))
