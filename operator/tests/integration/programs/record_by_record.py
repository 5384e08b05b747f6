"""Programs that look at one record at a time."""

from __future__ import annotations

import hashlib

from tests.integration.programs.program import Program, Record

_DOCS = "https://spark.apache.org/docs/latest"

RECORD_BY_RECORD = (
    Program(
        "nested-json",
        "https://www.data-dynamics.io/en/blog/pyspark-nested-semistructured-data",
        "CRSA",
        before=(
            Record('{"user": {"id": 1, "profile": {"name": "Ada", "tags": ["a", "b"]}}}', "k1"),
            Record('{"user": {"id": 2}}', "k2"),
        ),
        after=(Record('{"user": {"id": 3, "profile": {"tags": [], "more": {"x": 1}}}}', "k3"),),
        sql="""
            SELECT key, to_json(struct(e.user.id AS user, e.user.profile.name,
                                       size(e.user.profile.tags) AS tags)) AS value
            FROM (SELECT key, from_json(CAST(value AS STRING),
                'user STRUCT<id: BIGINT, profile: STRUCT<name: STRING, tags: ARRAY<STRING>>>') AS e
              FROM source)""",
        expected=(
            ("k1", '{"user":1,"name":"Ada","tags":2}'),
            ("k2", '{"user":2}'),
            ("k3", '{"user":3,"tags":0}'),
        ),
    ),
    Program(
        "corrupt-records-to-another-topic",
        "https://www.waitingforcode.com/apache-spark-structured-streaming/"
        "corrupted-records-poison-pill-records-apache-spark-structured-streaming/read",
        "CRA",
        before=(Record('{"id": 1, "amount": 2.50}'), Record("no JSON")),
        after=(Record('{"id": "x", "amount": 3}'), Record('{"id": 4}'), Record("")),
        topics={"in": 2, "good": 1, "bad": 1},
        out=("good", "bad"),
        sink={},
        shows=("topic", "value"),
        sql="""
            SELECT IF(e._corrupt_record IS NULL AND e IS NOT NULL, '<good>', '<bad>') AS topic,
                   coalesce(e._corrupt_record, to_json(struct(e.id, e.amount)), text) AS value
            FROM (SELECT CAST(value AS STRING) AS text,
                         from_json(CAST(value AS STRING),
                           'id BIGINT, amount DECIMAL(10, 2), _corrupt_record STRING',
                           map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord',
                               '_corrupt_record')) AS e
                  FROM source)""",
        expected=(
            ("good", '{"id":1,"amount":2.50}'),
            ("bad", "no JSON"),
            ("bad", '{"id": "x", "amount": 3}'),
            ("good", '{"id":4}'),
            ("bad", "{}"),
        ),
    ),
    Program(
        "json-tuple",
        f"{_DOCS}/sql-ref-syntax-qry-select-lateral-view.html",
        "RA",
        before=(Record('{"id": "a", "city": "Oslo"}'),),
        after=(Record('{"id": "b"}'), Record("broken")),
        sql="""
            SELECT t.id AS key, t.city AS value FROM source
            LATERAL VIEW json_tuple(CAST(value AS STRING), 'id', 'city') t AS id, city""",
        expected=(("a", "Oslo"), ("b", None), (None, None)),
    ),
    Program(
        "variant",
        "https://docs.databricks.com/en/ingestion/variant.html",
        "CRA",
        before=(
            Record('{"id": "a", "items": [{"sku": "s1", "price": 9.99}]}'),
            Record('{"id": "b", "items": []}'),
        ),
        after=(Record('{"id"'), Record('{"id": "c", "items": [{"sku": 7, "price": "dear"}]}')),
        sql="""
            SELECT variant_get(v, '$.id', 'STRING') AS key,
                   to_json(struct(variant_get(v, '$.items[0].sku', 'STRING') AS sku,
                     try_variant_get(v, '$.items[0].price', 'DECIMAL(8, 2)') AS price)) AS value
            FROM (SELECT try_parse_json(CAST(value AS STRING)) AS v FROM source)
            WHERE v IS NOT NULL""",
        expected=(("a", '{"sku":"s1","price":9.99}'), ("b", "{}"), ("c", '{"sku":"7"}')),
    ),
    Program(
        "order-lines-exploded",
        "https://www.application-architect.com/posts/pyspark-working-with-nested-json/",
        "RSA",
        before=(
            Record('{"id": "o1", "lines": [{"sku": "x", "qty": 2}, {"sku": "y", "qty": 1}]}'),
            Record('{"id": "o2", "lines": []}'),
        ),
        after=(Record('{"id": "o3", "lines": [{"sku": "z"}]}'),),
        sql="""
            WITH orders AS (
              SELECT from_json(CAST(value AS STRING),
                'id STRING, lines ARRAY<STRUCT<sku: STRING, qty: INT>>') AS o FROM source)
            SELECT o.id AS key, concat_ws(':', position, line.sku, line.qty) AS value
            FROM orders LATERAL VIEW OUTER posexplode(o.lines) l AS position, line""",
        expected=(("o1", "0:x:2"), ("o1", "1:y:1"), ("o2", ""), ("o3", "0:z")),
    ),
    Program(
        "map-of-unknown-fields",
        "https://www.application-architect.com/posts/spark-sql-map-functions",
        "CA",
        before=(Record('{"Host": "h1", "Empty": "", "LEVEL": "warn"}'),),
        after=(Record('{"Port": 80}'), Record("{}")),
        sql="""
            SELECT to_json(map_filter(transform_keys(m, (k, v) -> lower(k)), (k, v) -> v <> ''))
                     AS value
            FROM (SELECT from_json(CAST(value AS STRING), 'MAP<STRING, STRING>') AS m
                  FROM source)""",
        shows=("value",),
        expected=(('{"host":"h1","level":"warn"}',), ('{"port":"80"}',), ("{}",)),
    ),
    Program(
        "higher-order-functions",
        "https://jaceklaskowski.gitbooks.io/mastering-spark-sql/content/"
        "spark-sql-functions-collection.html",
        "CA",
        before=(Record("[10, 20]"), Record("[]")),
        after=(Record("[-5, 30, 40]"),),
        sql="""
            SELECT CAST(aggregate(filter(transform(readings, c -> c * 1.8D + 32), f -> f > 50),
                          0D, (total, f) -> total + f, total -> round(total, 1)) AS STRING)
                   || ' ' || exists(readings, c -> c < 0) AS value
            FROM (SELECT from_json(CAST(value AS STRING), 'ARRAY<DOUBLE>') AS readings
                  FROM source)""",
        shows=("value",),
        expected=(("68.0 false",), ("0.0 false",), ("190.0 true",)),
    ),
    Program(
        "access-log",
        "https://www.bytefusion.de/2017/06/10/analyze-access-log-with-apache-spark/",
        "CRA",
        before=(
            Record('64.242.88.10 - - [07/Mar/2004:16:58:54 -0800] "GET /a?b=1 HTTP/1.1" 200 6459'),
            Record("a line of something else"),
        ),
        after=(Record('::1 - bob [07/Mar/2004:17:00:00 +0000] "POST /x HTTP/1.1" 503 0'),),
        spec={"sparkConf": {"spark.sql.session.timeZone": "UTC"}},
        sql=r"""
            SELECT host AS key,
              CASE WHEN status >= 500 THEN 'error' WHEN status >= 400 THEN 'refused' ELSE 'ok' END
                || ' ' || path || ' ' || date_format(at, 'HH:mm') AS value
            FROM (
              SELECT regexp_extract(line, pattern, 1) AS host,
                to_timestamp(regexp_extract(line, pattern, 2), 'dd/MMM/yyyy:HH:mm:ss Z') AS at,
                regexp_extract(line, pattern, 4) AS path,
                CAST(regexp_extract(line, pattern, 5) AS INT) AS status
              FROM (
                SELECT CAST(value AS STRING) AS line,
                  r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) ([^ ?]+)[^"]*" (\d{3})' AS pattern
                FROM source)
              WHERE regexp_like(line, pattern))""",
        expected=(("64.242.88.10", "ok /a 00:58"), ("::1", "error /x 17:00")),
    ),
    Program(
        "csv",
        f"{_DOCS}/api/sql/index.html#from_csv",
        "CA",
        before=(Record("1;Ada;10.12.1815"),),
        after=(Record("2;Alan"), Record("x;Grace;09.12.1906")),
        sql="""
            SELECT to_json(from_csv(CAST(value AS STRING), 'id INT, name STRING, born DATE',
                     map('sep', ';', 'dateFormat', 'dd.MM.yyyy'))) AS value FROM source""",
        shows=("value",),
        expected=(
            ('{"id":1,"name":"Ada","born":"1815-12-10"}',),
            ('{"id":2,"name":"Alan"}',),
            ('{"name":"Grace","born":"1906-12-09"}',),
        ),
    ),
    Program(
        "money",
        f"{_DOCS}/sql-ref-number-pattern.html",
        "CA",
        before=(Record("$1,234.56"), Record("free")),
        after=(Record("$0.10"), Record("$12.00")),
        sql="""
            SELECT CAST(CAST(net * 1.19BD AS DECIMAL(12, 2)) AS STRING) AS value
            FROM (SELECT try_to_number(CAST(value AS STRING), '$9,999.99') AS net FROM source)""",
        shows=("value",),
        expected=(("1469.13",), (None,), ("0.12",), ("14.28",)),
    ),
    Program(
        "time-zones",
        "https://www.databricks.com/blog/2020/07/22/"
        "a-comprehensive-look-at-dates-and-timestamps-in-apache-spark-3-0.html",
        "CRA",
        before=(Record("2024-03-31T00:59:00Z"), Record("2024-03-31T01:00:00Z")),
        after=(Record("2024-10-27 02:30:00"),),
        spec={"sparkConf": {"spark.sql.session.timeZone": "Europe/Berlin"}},
        sql="""
            SELECT date_format(at, 'yyyy-MM-dd HH:mm') || ' ' || unix_seconds(at) || ' ' ||
              convert_timezone('Europe/Berlin', 'Asia/Tokyo', CAST(at AS TIMESTAMP_NTZ)) AS value
            FROM (SELECT CAST(CAST(value AS STRING) AS TIMESTAMP) AS at FROM source)""",
        shows=("value",),
        expected=(
            ("2024-03-31 01:59 1711846740 2024-03-31 09:59:00",),
            ("2024-03-31 03:00 1711846800 2024-03-31 10:00:00",),
            ("2024-10-27 02:30 1729989000 2024-10-27 09:30:00",),
        ),
    ),
    Program(
        "personal-data-masked",
        "https://databricks-pro-cert.pages.dev/lessons/s7-anonymization/",
        "CA",
        before=(Record('{"mail": "ada@example.com", "card": "4111 1111 1111 1234"}'),),
        after=(Record('{"mail": null, "card": "55"}'),),
        sql=r"""
            SELECT sha2(concat('pepper', p.mail), 256) AS key,
              concat_ws('|', regexp_replace(p.card, '\\d(?=(?:\\D*\\d){4})', '*'),
                CAST(aes_decrypt(unbase64(base64(aes_encrypt(p.card, '0123456789abcdef'))),
                  '0123456789abcdef') AS STRING), md5(p.card), crc32(p.card)) AS value
            FROM (SELECT from_json(CAST(value AS STRING), 'mail STRING, card STRING') AS p
                  FROM source)""",
        expected=(
            (
                hashlib.sha256(b"pepperada@example.com").hexdigest(),
                "**** **** **** 1234|4111 1111 1111 1234|"
                + hashlib.md5(b"4111 1111 1111 1234").hexdigest()
                + "|4236951642",
            ),
            (None, "55|55|b53b3a3d6ab90ce0268229151c9bde11|3042645098"),
        ),
    ),
    Program(
        "debezium-to-a-compacted-topic",
        "https://debezium.io/documentation/reference/integrations/serdes.html",
        "CRSA",
        before=(
            Record('{"op": "c", "after": {"id": 1, "name": "Ada"}}', '{"id": 1}'),
            Record('{"op": "u", "before": {"id": 1}, "after": {"id": 1}}', '{"id": 1}'),
        ),
        after=(
            Record('{"op": "d", "before": {"id": 1}, "after": null}', '{"id": 1}'),
            Record(None, '{"id": 1}'),
        ),
        sql="""
            SELECT get_json_object(CAST(key AS STRING), '$.id') AS key,
                   IF(p.op = 'd', NULL, to_json(p.after)) AS value
            FROM (SELECT key, from_json(CAST(value AS STRING),
                'op STRING, after STRUCT<id: BIGINT, name: STRING>') AS p
              FROM source WHERE value IS NOT NULL)""",
        expected=(("1", '{"id":1,"name":"Ada"}'), ("1", '{"id":1}'), ("1", None)),
    ),
    Program(
        "key-of-eight-bytes",
        "https://dev.to/rmoff/viewing-kafka-messages-bytes-as-hex-28a2",
        "CA",
        before=(Record("a", (258).to_bytes(8, "big")),),
        after=(Record("b", b"\x00" * 7 + b"\x07"), Record("c")),
        sql="SELECT conv(hex(key), 16, 10) AS key, value FROM source",
        expected=(("258", "a"), ("7", "b"), (None, "c")),
    ),
    Program(
        "columns-stacked",
        f"{_DOCS}/api/sql/index.html#stack",
        "RA",
        before=(Record('{"id": "s1", "t": 20.5, "h": 40}'),),
        after=(Record('{"id": "s2", "t": 21}'),),
        sql="""
            SELECT r.id || '/' || name AS key, CAST(reading AS STRING) AS value
            FROM (SELECT from_json(CAST(value AS STRING), 'id STRING, t DOUBLE, h DOUBLE') AS r
                  FROM source)
            LATERAL VIEW stack(2, 't', r.t, 'h', r.h) s AS name, reading
            WHERE reading IS NOT NULL""",
        expected=(("s1/t", "20.5"), ("s1/h", "40.0"), ("s2/t", "21.0")),
    ),
    Program(
        "functions-of-functions",
        "https://github.com/SalilJain/pyspark_dbscan/issues/10",
        "CR",
        before=(Record("52.52,13.40,48.85,2.35"),),
        after=(Record("0,0,0,180"),),
        transform={
            "functions": [
                {
                    "name": "hav",
                    "parameters": [{"name": "angle", "type": "DOUBLE"}],
                    "returns": "DOUBLE",
                    "expression": "pow(sin(radians(angle) / 2), 2)",
                },
                {
                    "name": "km",
                    "parameters": [
                        {"name": name, "type": "DOUBLE"} for name in ("y1", "x1", "y2", "x2")
                    ],
                    "returns": "INT",
                    "expression": "round(12742 * asin(sqrt(hav(y2 - y1) "
                    "+ cos(radians(y1)) * cos(radians(y2)) * hav(x2 - x1))))",
                },
            ]
        },
        sql="""
            SELECT CAST(km(p[0], p[1], p[2], p[3]) AS STRING) AS value
            FROM (SELECT transform(split(CAST(value AS STRING), ','), t -> CAST(t AS DOUBLE)) AS p
                  FROM source)""",
        shows=("value",),
        expected=(("878",), ("20015",)),
    ),
    Program(
        "xml",
        f"{_DOCS}/api/sql/index.html#from_xml",
        "CA",
        before=(Record('<order id="1"><line>a</line><line>b</line></order>'),),
        after=(Record("<order id='2'/>"),),
        sql="""
            SELECT CAST(o._id AS STRING) AS key, array_join(o.line, '+') AS value
            FROM (SELECT from_xml(CAST(value AS STRING), '_id INT, line ARRAY<STRING>') AS o
                  FROM source)""",
        expected=(("1", "a+b"), ("2", None)),
    ),
    Program(
        "casts-of-spark-3",
        f"{_DOCS}/sql-ref-ansi-compliance.html",
        "CA",
        before=(Record("12"), Record("twelve")),
        after=(Record("0"),),
        spec={"sparkConf": {"spark.sql.ansi.enabled": "false"}},
        sql="SELECT CAST(24 / CAST(CAST(value AS STRING) AS INT) AS STRING) AS value FROM source",
        shows=("value",),
        expected=(("2.0",), (None,), (None,)),
    ),
    Program(
        "casts-that-may-fail",
        f"{_DOCS}/sql-ref-ansi-compliance.html#useful-functions-for-ansi-mode",
        "CR",
        before=(Record("12"), Record("twelve")),
        after=(Record("0"),),
        sql="""
            SELECT CAST(try_divide(24, try_cast(CAST(value AS STRING) AS INT)) AS STRING) AS value
            FROM source""",
        shows=("value",),
        expected=(("2.0",), (None,), (None,)),
    ),
    Program(
        "lookup-in-values",
        "https://www.application-architect.com/posts/spark-streaming-join-streaming-with-static-data",
        "RSA",
        before=(Record("DE"), Record("XX")),
        after=(Record("FR"), Record("DE")),
        sql="""
            SELECT c.name AS key, s.code AS value
            FROM (SELECT CAST(value AS STRING) AS code FROM source) s
            LEFT JOIN (VALUES ('DE', 'Germany'), ('FR', 'France')) AS c(code, name)
              ON s.code = c.code""",
        expected=(("Germany", "DE"), (None, "XX"), ("France", "FR"), ("Germany", "DE")),
    ),
    Program(
        "union-of-two-branches",
        "https://github.com/AbsaOSS/ABRiS/issues/32",
        "SA",
        before=(Record("5"), Record("500")),
        after=(Record("700"),),
        topics={"in": 2, "all": 1, "large": 1},
        out=("all", "large"),
        sink={},
        shows=("topic", "value"),
        sql="""
            SELECT '<all>' AS topic, value FROM source
            UNION ALL
            SELECT '<large>' AS topic, value FROM source WHERE CAST(value AS STRING) > 100""",
        expected=(
            ("all", "5"),
            ("all", "500"),
            ("large", "500"),
            ("all", "700"),
            ("large", "700"),
        ),
    ),
    Program(
        "time-of-processing",
        "https://jaceklaskowski.gitbooks.io/spark-structured-streaming/content/"
        "spark-structured-streaming-batch-processing-time.html",
        "RA",
        before=(Record("a", ms=1_700_000_000_000),),
        after=(Record("b", ms=1_700_000_060_000),),
        sql="""
            SELECT date_format(timestamp, 'yyyy/MM/dd') AS key,
              CAST(value AS STRING) || (current_timestamp() > timestamp) AS value
            FROM source""",
        expected=(("2023/11/14", "atrue"), ("2023/11/14", "btrue")),
    ),
)
