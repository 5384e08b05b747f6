"""Programs in SQL that keep state: windows, counts, joins of the stream with itself."""

from __future__ import annotations

from tests.integration.programs.program import Program, Record

_UTC = {"sparkConf": {"spark.sql.session.timeZone": "UTC"}}
_WORDS = """(
    SELECT e.at, e.word FROM (
      SELECT from_json(CAST(value AS STRING), 'at TIMESTAMP, word STRING') AS e FROM source
    )) WATERMARK at DELAY OF INTERVAL 10 SECONDS"""


def _word(clock: str, word: str) -> Record:
    return Record(f'{{"at": "2024-01-01T{clock}Z", "word": "{word}"}}')


def _user(clock: str, user: str) -> Record:
    return Record(f'{{"at": "2024-01-01T{clock}Z", "user": "{user}"}}')


def _ad(clock: str, kind: str, ad: str) -> Record:
    return Record(f'{{"at": "2024-01-01T{clock}Z", "kind": "{kind}", "ad": "{ad}"}}')


_ADS = """
    WITH events AS (
      SELECT e.at, e.kind, e.ad FROM (
        SELECT from_json(CAST(value AS STRING), 'at TIMESTAMP, kind STRING, ad STRING') AS e
        FROM source)) """

STATEFUL = (
    Program(
        "words-in-windows",
        "https://github.com/kranthiB/courses",
        "A",
        before=(
            _word("00:00:01", "owl"),
            _word("00:00:05", "owl"),
            _word("00:00:05", "dog"),
            _word("00:00:12", "owl"),
        ),
        after=(_word("00:00:08", "owl"), _word("00:00:14", "cat"), _word("00:05:00", "end")),
        spec=_UTC,
        sql=f"""
            SELECT date_format(window.start, 'HH:mm:ss') || word AS key,
                   CAST(count(*) AS STRING) AS value
            FROM {_WORDS}
            GROUP BY window(at, '10 seconds'), word""",
        expected=(
            ("00:00:00owl", "3"),
            ("00:00:00dog", "1"),
            ("00:00:10owl", "1"),
            ("00:00:10cat", "1"),
        ),
    ),
    Program(
        "late-records-dropped-after-a-restart",
        "https://structured-streaming.vercel.app/examples/aggregation-with-watermark",
        "A",
        before=(_word("00:00:01", "owl"), _word("00:01:00", "dog")),
        after=(_word("00:00:02", "owl"), _word("00:00:55", "cat"), _word("00:09:00", "end")),
        spec=_UTC,
        sql=f"""
            SELECT date_format(window.start, 'HH:mm:ss') AS key,
                   array_join(array_sort(collect_set(word)), ' ') AS value
            FROM {_WORDS}
            GROUP BY window(at, '10 seconds')""",
        expected=(("00:00:00", "owl"), ("00:00:50", "cat"), ("00:01:00", "dog")),
    ),
    Program(
        "watermark-of-the-spec",
        "https://www.waitingforcode.com/apache-spark-structured-streaming/kafka-timestamp-watermark/read",
        "AUMR",
        before=(Record("a", "x", ms=1_700_000_000_000), Record("b", "x", ms=1_700_000_001_000)),
        after=(Record("c", "x", ms=1_700_000_002_000), Record("d", "y", ms=1_700_009_000_000)),
        transform={"watermark": {"column": "timestamp", "delay": "1m"}},
        spec=_UTC,
        sql="""
            SELECT key, CAST(n AS STRING) AS value FROM (
              SELECT CAST(key AS STRING) || date_format(window.start, ' HH:mm') AS key,
                     count(*) AS n, max(window.end) AS until
              FROM source GROUP BY window(timestamp, '10 minutes'), key)
            WHERE until < '2023-11-14T23:00:00Z'""",
        expected=(("x 22:10", "3"),),
    ),
    Program(
        "sessions",
        "https://databricks.com/blog/2021/10/12/"
        "native-support-of-session-window-in-spark-structured-streaming.html",
        "A",
        before=(_user("00:00:00", "u1"), _user("00:02:00", "u1"), _user("00:03:00", "u2")),
        after=(_user("00:06:00", "u1"), _user("00:20:00", "u1"), _user("02:00:00", "u9")),
        spec=_UTC,
        sql="""
            SELECT user AS key, date_format(session_window.start, 'HH:mm') || '-' ||
                   date_format(session_window.end, 'HH:mm') || ' ' || count(*) AS value
            FROM (SELECT e.at, e.user FROM (
                SELECT from_json(CAST(value AS STRING), 'at TIMESTAMP, user STRING') AS e
                FROM source)) WATERMARK at DELAY OF INTERVAL 30 MINUTES
            GROUP BY session_window(at, '5 minutes'), user""",
        expected=(("u1", "00:00-00:11 3"), ("u2", "00:03-00:08 1"), ("u1", "00:20-00:25 1")),
    ),
    Program(
        "word-count",
        "https://spark.apache.org/docs/latest/streaming/getting-started.html#quick-example",
        "UMR",
        before=(Record("apache spark"), Record("apache hadoop")),
        after=(Record("apache kafka"), Record("")),
        sql="""
            SELECT word AS key, CAST(count(*) AS STRING) AS value
            FROM (SELECT explode(split(CAST(value AS STRING), ' ')) AS word FROM source)
            WHERE word <> '' GROUP BY word""",
        expected=(("apache", "3"), ("spark", "1"), ("hadoop", "1"), ("kafka", "1")),
    ),
    Program(
        "top-of-all",
        "https://spark.apache.org/docs/latest/streaming/"
        "apis-on-dataframes-and-datasets.html#unsupported-operations",
        "M",
        before=(Record("a"), Record("b"), Record("b")),
        after=(Record("a"), Record("a"), Record("c")),
        sql="""
            SELECT key, CAST(n AS STRING) AS value FROM (
              SELECT CAST(value AS STRING) AS key, count(*) AS n FROM source GROUP BY ALL)
            WHERE n >= 2 ORDER BY n DESC, key LIMIT 10""",
        expected=(("a", "3"), ("b", "2")),
    ),
    Program(
        "distinct-values",
        "https://www.application-architect.com/posts/spark-streaming-deduplication-in-streaming",
        "UR",
        before=(Record("a"), Record("b"), Record("a")),
        after=(Record("b"), Record("c")),
        sql="SELECT DISTINCT CAST(value AS STRING) AS key, 'seen' AS value FROM source",
        expected=(("a", "seen"), ("b", "seen"), ("c", "seen")),
    ),
    Program(
        "newest-of-each-key",
        "https://github.com/irfa89/DE-Python-DesignPatterns",
        "UR",
        before=(Record('{"v": 2, "s": "new"}', "a"), Record('{"v": 1, "s": "old"}', "a")),
        after=(Record('{"v": 1, "s": "late"}', "a"), Record('{"v": 1, "s": "only"}', "b")),
        sql="""
            SELECT CAST(key AS STRING) AS key,
                   to_json(struct(max_by(r.s, r.v) AS state, max(r.v) AS version,
                     approx_count_distinct(r.s) AS states,
                     percentile_approx(r.v, 0.5) AS median)) AS value
            FROM (SELECT key, from_json(CAST(value AS STRING), 'v INT, s STRING') AS r FROM source)
            GROUP BY key""",
        expected=(
            ("a", '{"state":"new","version":2,"states":3,"median":1}'),
            ("b", '{"state":"only","version":1,"states":1,"median":1}'),
        ),
    ),
    Program(
        "rows-turned-into-columns",  # PIVOT makes two aggregates, which Spark refuses here
        "https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select-pivot.html",
        "UMR",
        before=(Record("in,5", "a"), Record("out,2", "a")),
        after=(Record("in,1", "a"), Record("in,7", "b")),
        sql="""
            SELECT key, concat_ws(' ', sum(n) FILTER (WHERE way = 'in'),
                                  sum(n) FILTER (WHERE way = 'out')) AS value
            FROM (SELECT CAST(key AS STRING) AS key,
                         split_part(CAST(value AS STRING), ',', 1) AS way,
                         CAST(split_part(CAST(value AS STRING), ',', 2) AS INT) AS n FROM source)
            GROUP BY key""",
        expected=(("a", "6 2"), ("b", "7")),
    ),
    Program(
        "salted-sums",
        "https://www.databricks.com/blog/multiple-stateful-operators-structured-streaming",
        "A",
        before=tuple(_word(f"00:00:0{n}", "hot") for n in range(6)),
        after=(_word("00:00:08", "hot"), _word("00:09:00", "end"), _word("00:30:00", "end")),
        spec=_UTC,
        sql=f"""
            SELECT word AS key, date_format(window.start, 'mm:ss ') || sum(n) AS value FROM (
              SELECT window, word, count(*) AS n FROM {_WORDS}
              GROUP BY window(at, '10 seconds'), word, pmod(hash(at), 4))
            GROUP BY window, word""",
        expected=(("hot", "00:00 7"), ("end", "09:00 1")),
    ),
    Program(
        "windows-of-windows",
        "https://www.databricks.com/blog/multiple-stateful-operators-structured-streaming#hours",
        "A",
        before=(_word("00:00:01", "a"), _word("00:00:02", "a"), _word("00:00:31", "a")),
        after=(_word("00:01:05", "a"), _word("00:30:00", "end"), _word("00:50:00", "end")),
        spec=_UTC,
        sql=f"""
            SELECT date_format(window.start, 'mm:ss') AS key, CAST(max(n) AS STRING) AS value
            FROM (
              SELECT window_time(window) AS at, n FROM (
                SELECT window, count(*) AS n FROM {_WORDS} GROUP BY window(at, '10 seconds')))
            GROUP BY window(at, '1 minute')""",
        expected=(("00:00", "2"), ("01:00", "1"), ("30:00", "1")),
    ),
    Program(
        "clicks-joined-with-impressions",
        "https://www.databricks.com/blog/2018/03/13/"
        "introducing-stream-stream-joins-in-apache-spark-2-3.html",
        "A",
        before=(_ad("00:00:00", "shown", "a"), _ad("00:01:00", "shown", "b")),
        after=(
            _ad("00:05:00", "click", "a"),
            _ad("00:06:00", "click", "c"),
            _ad("00:59:00", "click", "b"),
        ),
        spec=_UTC,
        sql=_ADS
        + """
            SELECT s.ad AS key, CAST(timestampdiff(SECOND, s.at, c.at) AS STRING) AS value
            FROM (SELECT * FROM events WHERE kind = 'shown')
                   WATERMARK at DELAY OF INTERVAL 2 HOURS AS s
            JOIN (SELECT * FROM events WHERE kind = 'click')
                   WATERMARK at DELAY OF INTERVAL 2 HOURS AS c
              ON s.ad = c.ad AND c.at BETWEEN s.at AND s.at + INTERVAL 10 MINUTES""",
        expected=(("a", "300"),),
    ),
    Program(
        "impressions-without-a-click",
        "https://github.com/Evusma/Databricks_DE_associate",
        "A",
        before=(_ad("00:00:00", "shown", "a"), _ad("00:01:00", "shown", "b")),
        after=(
            _ad("00:05:00", "click", "a"),
            _ad("05:00:00", "shown", "z"),
            _ad("05:00:00", "click", "y"),
        ),
        spec=_UTC,
        sql=_ADS
        + """
            SELECT s.ad AS key, if(c.ad IS NULL, 'ignored', 'clicked') AS value
            FROM (SELECT * FROM events WHERE kind = 'shown')
                   WATERMARK at DELAY OF INTERVAL 1 HOUR AS s
            LEFT JOIN (SELECT * FROM events WHERE kind = 'click')
                   WATERMARK at DELAY OF INTERVAL 1 HOUR AS c
              ON s.ad = c.ad AND c.at BETWEEN s.at AND s.at + INTERVAL 10 MINUTES""",
        expected=(("a", "clicked"), ("b", "ignored")),
    ),
)
