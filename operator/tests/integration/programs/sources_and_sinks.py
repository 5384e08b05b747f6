"""Programs that differ in what they read, from where, and in what they write."""

from __future__ import annotations

import zlib

from tests.integration.programs.program import Program, Record

_KAFKA_GUIDE = (
    "https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html"
)
_PAST = 1_700_000_000_000

SOURCES_AND_SINKS = (
    Program(
        "copy-with-tombstones",
        "https://kafka.apache.org/documentation/#compaction",
        "CRSA",
        before=(Record("1", "a"), Record(None, "a")),
        after=(Record("", ""), Record(b"", None), Record(None, None)),
        expected=(("a", "1"), ("a", None), ("", ""), (None, ""), (None, None)),
    ),
    Program(
        "keys-only",
        "https://kafka.apache.org/documentation/#design_compactionbasics",
        "CA",
        before=(Record("1", "a"), Record(None, "b")),
        after=(Record("2"), Record("3", "c")),
        sql="SELECT key, CAST(NULL AS STRING) AS value FROM source WHERE key IS NOT NULL",
        expected=(("a", None), ("b", None), ("c", None)),
    ),
    Program(
        "names-in-capitals",
        "https://github.com/databricks/iceberg-kafka-connect/issues/163",
        "CA",
        before=(Record("a", "k1"), Record("b", "k2")),
        after=(Record("c", "k3"),),
        sql="SELECT KEY AS key, upper(CAST(VALUE AS STRING)) AS value FROM SOURCE",
        expected=(("k1", "A"), ("k2", "B"), ("k3", "C")),
    ),
    Program(
        "value-replaced",
        "https://github.com/confluentinc/ksql/issues/2525",
        "CA",
        before=(Record("a", "k1"), Record("b", "k2")),
        after=(Record("c", "k3"),),
        sql="""
            SELECT * EXCEPT (value, partition), upper(CAST(value AS STRING)) AS value
            FROM source""",
        expected=(("k1", "A"), ("k2", "B"), ("k3", "C")),
    ),
    Program(
        "time-kept-in-the-value",
        "https://github.com/apache/spark/pull/48695",
        "CA",
        before=(Record("a", "k1", ms=_PAST),),
        after=(Record("b", "k2", ms=_PAST + 1),),
        sql="""
            SELECT key, to_json(struct(CAST(value AS STRING) AS v, unix_millis(timestamp) AS at))
              AS value FROM source""",
        expected=(
            ("k1", f'{{"v":"a","at":{_PAST}}}'),
            ("k2", f'{{"v":"b","at":{_PAST + 1}}}'),
        ),
    ),
    Program(
        "headers-kept-and-added",
        "https://github.com/apache/spark/pull/22282",
        "CRA",
        before=(Record("1", headers=(("trace", b"t1"), ("trace", b"t2"))), Record("2")),
        after=(Record("3", headers=(("empty", b""), ("bytes", b"\x00\xff"))),),
        source={"topics": ["<in>"], "includeHeaders": True},
        shows=("value", "headers"),
        sql="""
            SELECT value, concat(
                coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)),
                array(struct('by' AS key, CAST('penstock' AS BINARY) AS value))) AS headers
            FROM source""",
        expected=(
            ("1", (("trace", b"t1"), ("trace", b"t2"), ("by", b"penstock"))),
            ("2", (("by", b"penstock"),)),
            ("3", (("empty", b""), ("bytes", b"\x00\xff"), ("by", b"penstock"))),
        ),
    ),
    Program(
        "filtered-by-a-header",
        "https://github.com/timeplus-io/proton/issues/899",
        "CA",
        before=(Record("1", headers=(("type", b"order"), ("type", b"late"))), Record("2")),
        after=(Record("3", headers=(("type", b"order"),)), Record("4", headers=(("x", b"order"),))),
        source={"topics": ["<in>"], "includeHeaders": True},
        shows=("value", "headers"),
        sql="""
            SELECT value FROM source
            WHERE CAST(try_element_at(filter(headers, h -> h.key = 'type'), -1).value AS STRING)
              = 'order'""",
        expected=(("3", ()),),
    ),
    Program(
        "topics-by-pattern",
        _KAFKA_GUIDE,
        "CRA",
        before=(Record("1", topic="in-a"), Record("2", topic="in-b", partition=2)),
        after=(Record("3", topic="in-a"), Record("4", topic="in-b", partition=0)),
        source={"topicPattern": r"<topics>in-[a-z]"},
        topics={"in-a": 1, "in-b": 3, "out": 1},
        sql="SELECT replace(topic, '<topics>', '') AS key, value FROM source",
        expected=(("in-a", "1"), ("in-b", "2"), ("in-a", "3"), ("in-b", "4")),
    ),
    Program(
        "topics-of-different-sizes",
        _KAFKA_GUIDE,
        "CRSA",
        before=(Record("1", topic="in-a"), Record("2", topic="in-b", partition=2)),
        after=(Record("3", topic="in-b", partition=1), Record("4", topic="in-c")),
        source={"topics": ["<in-a>", "<in-b>", "<in-c>"]},
        topics={"in-a": 1, "in-b": 3, "in-c": 1, "out": 2},
        sql="SELECT concat(topic, '/', partition, '/', offset) AS key, value FROM source",
        shows=("value",),
        expected=(("1",), ("2",), ("3",), ("4",)),
    ),
    Program(
        "topic-of-each-record",
        "https://tessl.io/registry/tessl/maven-org-apache-spark--spark-sql-kafka-0-10_2-13/3.5.0/"
        "files/docs/writing.md",
        "CRSA",
        before=(Record('{"country": "DE", "n": 1}'), Record('{"country": "fr", "n": 2}')),
        after=(Record('{"n": 3}'), Record('{"country": "de", "n": 4}')),
        topics={"in": 2, "orders-de": 1, "orders-fr": 2, "orders-other": 1},
        out=("orders-de", "orders-fr", "orders-other"),
        sink={},
        shows=("topic", "value"),
        sql="""
            SELECT concat('<topics>orders-', coalesce(lower(o.country), 'other')) AS topic,
                   CAST(o.n AS STRING) AS value
            FROM (SELECT from_json(CAST(value AS STRING), 'country STRING, n INT') AS o
                  FROM source)""",
        expected=(
            ("orders-de", "1"),
            ("orders-fr", "2"),
            ("orders-other", "3"),
            ("orders-de", "4"),
        ),
    ),
    Program(
        "partition-of-each-record",
        f"{_KAFKA_GUIDE}#writing-data-to-kafka",
        "CRA",
        before=tuple(Record(str(n), f"k{n}") for n in range(3)),
        after=tuple(Record(str(n), f"k{n}") for n in range(3, 6)),
        topics={"in": 2, "out": 3},
        shows=("partition", "value"),
        sql="SELECT key, value, CAST(pmod(crc32(key), 3) AS INT) AS partition FROM source",
        expected=tuple((zlib.crc32(f"k{n}".encode()) % 3, str(n)) for n in range(6)),
    ),
    Program(
        "starts-of-partitions",
        "https://github.com/apache/spark/pull/15504",
        "CRA",
        before=tuple(Record(f"{n}-{p}", partition=p) for p in range(3) for n in range(3)),
        after=tuple(Record(f"3-{p}", partition=p) for p in range(3)),
        topics={"in": 3, "out": 1},
        source={
            "topics": ["<in>"],
            "startingOffsetsByPartition": {"<in>": {"0": 2, "1": -2, "2": -1}},
        },
        shows=("value",),
        expected=(("2-0",), ("0-1",), ("1-1",), ("2-1",), ("3-0",), ("3-1",), ("3-2",)),
    ),
    Program(
        "starts-at-a-time",
        "https://github.com/apache/spark/pull/32609",
        "CRA",
        before=(
            Record("old", partition=0, ms=_PAST),
            Record("new", partition=0, ms=_PAST + 60_000),
            Record("old", partition=1, ms=_PAST),
        ),
        after=(
            # With an older time than the start: the checkpoint decides.
            Record("more", partition=0, ms=_PAST),
            Record("more", partition=1, ms=_PAST + 90_000),
        ),
        source={
            "topics": ["<in>"],
            "options": {
                "startingTimestamp": str(_PAST + 30_000),
                "startingOffsetsByTimestampStrategy": "latest",
            },
        },
        shows=("value",),
        expected=(("new",), ("more",), ("more",)),
    ),
    Program(
        "starts-at-times-of-partitions",
        "https://github.com/apache/spark/pull/23747",
        "CA",
        before=(
            Record("old", partition=0, ms=_PAST),
            Record("new", partition=0, ms=_PAST + 60_000),
            Record("all", partition=1, ms=_PAST),
        ),
        after=(Record("more", partition=1, ms=_PAST),),
        source={
            "topics": ["<in>"],
            "options": {
                "startingOffsetsByTimestamp": f'{{"<in>": {{"0": {_PAST + 1}, "1": {_PAST}}}}}'
            },
        },
        shows=("value",),
        expected=(("new",), ("all",), ("more",)),
    ),
    Program(
        "committed-transactions-only",
        "https://github.com/apache/hudi/issues/8258",
        "CRSAN",
        before=(
            Record("1", partition=0, transaction=True),
            Record("aborted", partition=0, transaction=False),
            Record("2", partition=1),
        ),
        after=(
            Record("aborted", partition=1, transaction=False),
            Record("3", partition=1, transaction=True),
            Record("4", partition=0, transaction=True),
            Record("aborted", partition=0, transaction=False),
        ),
        source={"topics": ["<in>"], "options": {"kafka.isolation.level": "read_committed"}},
        shows=("value",),
        expected=(("1",), ("2",), ("3",), ("4",)),
    ),
    Program(
        "compressed-by-each-codec",
        "https://kafka.apache.org/documentation/#producerconfigs_compression.type",
        "CA",
        before=(Record("none"), Record("gzip", compression="gzip")),
        after=tuple(Record(codec, compression=codec) for codec in ("snappy", "lz4", "zstd")),
        sink={"topic": "<out>", "options": {"kafka.compression.type": "zstd"}},
        shows=("value",),
        expected=(("none",), ("gzip",), ("snappy",), ("lz4",), ("zstd",)),
    ),
    Program(
        "what-is-there-now",
        "https://adhdecode-articles-4.pages.dev/articles/spark-streaming/"
        "spark-streaming-trigger-onceavailable",
        "N",
        before=tuple(Record(str(n)) for n in range(5)),
        after=tuple(Record(str(n)) for n in range(5, 12)),
        source={"topics": ["<in>"], "options": {"maxOffsetsPerTrigger": "2"}},
        sql="SELECT CAST(CAST(value AS STRING) * 2 AS INT) || '' AS value FROM source",
        shows=("value",),
        expected=tuple((str(2 * n),) for n in range(12)),
    ),
    Program(
        "a-few-records-a-batch",
        f"{_KAFKA_GUIDE}#creating-a-kafka-source-for-streaming-queries",
        "AS",
        before=tuple(Record(str(n)) for n in range(7)),
        after=tuple(Record(str(n)) for n in range(7, 10)),
        source={
            "topics": ["<in>"],
            "options": {"maxOffsetsPerTrigger": "3", "minPartitions": "4"},
        },
        shows=("value",),
        expected=tuple((str(n),) for n in range(10)),
    ),
    Program(
        "files-to-kafka",
        "https://github.com/josephedward/spark_databricks",
        "AN",
        before=(Record('{"id": 1, "tags": ["a"]}', topic="files"),),
        after=(
            Record('{"id": 2}', topic="files"),
            Record("broken", topic="files"),
        ),
        topics={"out": 1},
        spec={
            "source": {
                "custom": {
                    "format": "json",
                    "schema": "id BIGINT, tags ARRAY<STRING>",
                    "options": {"path": "<folder>/files", "maxFilesPerTrigger": "1"},
                }
            }
        },
        sql="SELECT CAST(id AS STRING) AS key, to_json(struct(*)) AS value FROM source",
        expected=(("1", '{"id":1,"tags":["a"]}'), ("2", '{"id":2}'), (None, "{}")),
    ),
    Program(
        "kafka-to-files",
        "https://github.com/irfa89/DE-Python-DesignPatterns",
        "AN",
        before=(Record("1", "a"), Record("2", "b")),
        after=(Record("3", "c"),),
        topics={"in": 2},
        out=(),
        spec={"sink": {"custom": {"format": "json", "options": {"path": "<folder>/written"}}}},
        sql="""
            SELECT CAST(key AS STRING) AS key, CAST(CAST(value AS STRING) AS INT) AS n
            FROM source""",
        expected=(
            ('{"key":"a","n":1}',),
            ('{"key":"b","n":2}',),
            ('{"key":"c","n":3}',),
        ),
    ),
    Program(
        "files-in-folders",
        "https://github.com/apache/spark/pull/12409",
        "AN",
        before=(Record("1", "a"), Record("2", "b")),
        after=(Record("3", "a"), Record("4")),
        topics={"in": 2},
        out=(),
        spec={
            "sink": {
                "custom": {
                    "format": "json",
                    "options": {"path": "<folder>/written"},
                    "partitionBy": ["shop", "Even"],
                }
            }
        },
        sql="""
            SELECT CAST(key AS STRING) AS shop, CAST(CAST(value AS STRING) AS INT) AS n,
                   CAST(CAST(value AS STRING) AS INT) % 2 = 0 AS even
            FROM source""",
        expected=(
            ("shop=a/even=false", '{"n":1}'),
            ("shop=b/even=true", '{"n":2}'),
            ("shop=a/even=false", '{"n":3}'),
            ("shop=__HIVE_DEFAULT_PARTITION__/even=true", '{"n":4}'),
        ),
    ),
)
