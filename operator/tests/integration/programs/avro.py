"""Programs that read and write Avro. They need Spark's jar for it."""

from __future__ import annotations

from tests.integration.programs.program import Program, Record

_SCHEMA = """{"type": "record", "name": "Car", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}"""


def _car(number: int, name: str | None) -> bytes:
    """A record of the schema in Avro's binary encoding; numbers are small."""
    text = b"\x00" if name is None else bytes([2, 2 * len(name)]) + name.encode()
    return bytes([2 * number]) + text


def _registered(schema_id: int, content: bytes) -> bytes:
    """As the serializers of a schema registry write it."""
    return b"\x00" + schema_id.to_bytes(4, "big") + content


AVRO = (
    Program(
        "avro-of-one-schema",
        "https://spark.apache.org/docs/latest/sql-data-sources-avro.html#to_avro-and-from_avro",
        "CRA",
        before=(Record(_car(1, "one")), Record(b"\x04")),
        after=(Record(_car(3, None)), Record(None)),
        sql=f"""
            SELECT CAST(car.id AS STRING) AS key, car.name AS value
            FROM (SELECT from_avro(value, '{_SCHEMA}', map('mode', 'PERMISSIVE')) AS car
                  FROM source)""",
        expected=(("1", "one"), (None, None), ("3", None), (None, None)),
    ),
    Program(
        "avro-of-a-schema-registry",
        "https://datachef.co/blog/deserialzing-confluent-avro-record-kafka-spark/",
        "CA",
        before=(Record(_registered(7, _car(1, "one"))), Record(_registered(8, b"not a car"))),
        after=(Record(_registered(7, _car(2, None))),),
        shows=("value",),
        sql=f"""
            SELECT hex(concat(unhex('0000000009'), to_avro(struct(car.id + 1 AS id,
                     upper(car.name) AS name), '{_SCHEMA}'))) AS value
            FROM (SELECT from_avro(substring(value, 6), '{_SCHEMA}') AS car FROM source
                  WHERE conv(hex(substring(value, 2, 4)), 16, 10) = 7)""",
        expected=(
            (_registered(9, _car(2, "ONE")).hex().upper(),),
            (_registered(9, _car(3, None)).hex().upper(),),
        ),
    ),
)
