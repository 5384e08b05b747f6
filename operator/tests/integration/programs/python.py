"""Programs in Python."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.integration.programs.program import Program, Record


def _write_countries(folder: Path) -> None:
    # It has no types, and is loaded by those who need it only.
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    table = pyarrow.table({"code": ["DE", "FR"], "name": ["Germany", "France"]})
    (folder / "countries").mkdir()
    parquet.write_table(table, folder / "countries" / "part-0.parquet")


_ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming."
    "state.RocksDBStateStoreProvider"
}

PYTHON = (
    Program(
        "columns-of-python",
        "https://databricks.com/blog/2017/02/23/"
        "working-complex-data-formats-structured-streaming-apache-spark-2-1.html",
        "CRA",
        before=(Record('{"a": {"b": 1}, "c": [1, 2]}'),),
        after=(Record('{"c": [3]}'),),
        python="""
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

SCHEMA = StructType([
    StructField("a", StructType([StructField("b", LongType())])),
    StructField("c", ArrayType(LongType())),
])

def transform(source):
    parsed = source.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("r"))
    return parsed.select("r.*").select(
        f.coalesce(f.col("a.b"), f.lit(0)).cast("string").alias("key"),
        f.array_join("c", "-").alias("value"),
    )
""",
        expected=(("1", "1-2"), ("0", "3")),
    ),
    Program(
        "protobuf-in-a-python-udf",
        "https://flynn.gg/blog/protobuf-pyspark-pbspark",
        "CA",
        before=(Record(b"\x0a\x05hello\x10\x05"), Record(b"\x0a\x7fcut")),
        after=(Record(b"\x10\xac\x02\x0a\x02hi"),),
        # spark-protobuf is not in the image.
        python="""
from pyspark.sql.functions import col, udf

def number(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at

@udf("name STRING, quantity BIGINT")
def decode(data):
    message, at = {}, 0
    try:
        while at < len(data):
            tag, at = number(data, at)
            if tag & 7 == 0:
                message["quantity"], at = number(data, at)
            else:
                length, at = number(data, at)
                message["name"], at = data[at:at + length].decode(), at + length
                if at > len(data):
                    return None
    except IndexError:
        return None
    return message

def transform(source):
    messages = source.select(decode("value").alias("m")).select("m.*")
    return messages.select(col("name").alias("key"), col("quantity").cast("string").alias("value"))
""",
        expected=(("hello", "5"), (None, None), ("hi", "300")),
    ),
    Program(
        "pandas-udf-called-from-sql",
        "https://tefter.io/bookmarks/285238/readable",
        "CA",
        before=(Record("1,2"), Record("3,4")),
        after=(Record("5,6"),),
        python="""
import pandas
from pyspark.sql.functions import pandas_udf

@pandas_udf("double")
def score(x: pandas.Series, y: pandas.Series) -> pandas.Series:
    return 0.5 * x + 2 * y

def transform(source):
    source.sparkSession.udf.register("score", score)
    return source.sparkSession.sql('''
        SELECT CAST(score(CAST(p[0] AS INT), CAST(p[1] AS INT)) AS STRING) AS value
        FROM (SELECT split(CAST(value AS STRING), ',') AS p FROM source)''')
""",
        shows=("value",),
        expected=(("4.5",), ("9.5",), ("14.5",)),
    ),
    Program(
        "map-in-pandas",
        "https://issues.apache.org/jira/browse/SPARK-26412",
        "A",
        before=(Record("1"), Record("2")),
        after=(Record("30"),),
        python="""
def parts(frames):
    factor = 10  # such as a model, loaded once
    for frame in frames:
        frame["value"] = (frame["value"].astype(int) * factor).astype(str)
        yield frame[frame["value"] != "20"]

def transform(source):
    return source.selectExpr("CAST(value AS STRING) AS value").mapInPandas(parts, "value STRING")
""",
        shows=("value",),
        expected=(("10",), ("300",)),
    ),
    Program(
        "lookup-in-parquet",
        "https://www.databricksters.com/p/mastering-stream-static-joins-in",
        "RA",
        before=(Record("DE"), Record("XX")),
        after=(Record("FR"),),
        prepare=_write_countries,
        python="""
from pyspark.sql.functions import broadcast, col

def transform(source):
    countries = source.sparkSession.read.parquet("<folder>/countries")
    codes = source.select(col("value").cast("string").alias("code"))
    return codes.join(broadcast(countries), "code", "left").selectExpr(
        "code AS key", "name AS value")
""",
        expected=(("DE", "Germany"), ("XX", None), ("FR", "France")),
    ),
    Program(
        "apply-in-pandas-with-state",
        "https://www.databricks.com/blog/python-arbitrary-stateful-processing-structured-streaming",
        "U",
        before=(Record("1", "a"), Record("2", "a"), Record("5", "b")),
        after=(Record("3", "a"),),
        python="""
import pandas
from pyspark.sql.streaming.state import GroupStateTimeout

def add(key, frames, state):
    total = sum(int(each) for frame in frames for each in frame["value"])
    total += state.get[0] if state.exists else 0
    state.update((total,))
    yield pandas.DataFrame({"key": [key[0]], "value": [str(total)]})

def transform(source):
    return (
        source.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
        .groupBy("key")
        .applyInPandasWithState(
            add, "key STRING, value STRING", "total LONG", "update", GroupStateTimeout.NoTimeout)
    )
""",
        expected=(("a", "6"), ("b", "5")),
    ),
    Program(
        "transform-with-state-in-pandas",
        "https://www.pascalspoerri.ch/blog/2026-03-21-stateful-stream-processing-spark",
        "U",
        before=(Record("gate B1", "LH1"), Record("belt 7", "LH1"), Record("gate A2", "LH2")),
        after=(Record("gate B9", "LH1"),),
        spec={"sparkConf": _ROCKSDB},
        python="""
import pandas
from pyspark.sql.streaming import StatefulProcessor

class Flight(StatefulProcessor):
    def init(self, handle):
        self.facts = handle.getMapState("facts", "name STRING", "fact STRING")

    def handleInputRows(self, key, rows, timers):
        for frame in rows:
            for value in frame["value"]:
                name, fact = value.split(" ")
                self.facts.updateValue((name,), (fact,))
        facts = sorted(f"{name[0]}={fact[0]}" for name, fact in self.facts.iterator())
        yield pandas.DataFrame({"key": [key[0]], "value": [" ".join(facts)]})

def transform(source):
    return (
        source.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
        .groupBy("key")
        .transformWithStateInPandas(Flight(), "key STRING, value STRING", "Update", "None")
    )
""",
        expected=(("LH1", "belt=7 gate=B9"), ("LH2", "gate=A2")),
    ),
    Program(
        "duplicates-dropped-within-watermark",
        "https://structured-streaming.vercel.app/guides/operators/stateful/deduplication",
        "A",
        before=(
            Record('{"id": "a", "at": "2024-01-01T00:00:00Z"}'),
            Record('{"id": "a", "at": "2024-01-01T00:00:01Z"}'),
        ),
        after=(
            Record('{"id": "a", "at": "2024-01-01T00:00:02Z"}'),
            Record('{"id": "b", "at": "2024-01-01T00:00:02Z"}'),
        ),
        python="""
from pyspark.sql.functions import col, from_json

def transform(source):
    events = source.select(
        from_json(col("value").cast("string"), "id STRING, at TIMESTAMP").alias("e")).select("e.*")
    return (
        events.withWatermark("at", "10 hours").dropDuplicatesWithinWatermark(["id"])
        .selectExpr("id AS value")
    )
""",
        shows=("value",),
        expected=(("a",), ("b",)),
    ),
    Program(
        "duplicates-dropped",
        "https://community.databricks.com/t5/technical-blog/deep-dive-streaming-deduplication/"
        "ba-p/105062",
        "AR",
        before=(Record("x", "a"), Record("x", "a"), Record("y", "b")),
        after=(Record("x", "a"), Record("z", "c"), Record("y", "b")),
        python="""
def transform(source):
    rows = source.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
    return rows.dropDuplicates(["key"])
""",
        expected=(("a", "x"), ("b", "y"), ("c", "z")),
    ),
    Program(
        "sliding-windows-of-python",
        "https://structured-streaming.vercel.app/examples/aggregation-with-watermark",
        "UAR",
        before=(
            Record('{"at": "2024-01-01T00:00:10Z", "n": 1}'),
            Record('{"at": "2024-01-01T00:00:40Z", "n": 2}'),
        ),
        after=(
            Record('{"at": "2024-01-01T00:00:50Z", "n": 4}'),
            Record('{"at": "2024-01-01T01:00:00Z", "n": 8}'),
        ),
        spec={"sparkConf": {"spark.sql.session.timeZone": "UTC"}},
        python="""
from pyspark.sql import functions as f

def transform(source):
    events = source.select(f.from_json(
        f.col("value").cast("string"), "at TIMESTAMP, n INT").alias("e")).select("e.*")
    sums = (
        events.withWatermark("at", "1 minute")
        .groupBy(f.window("at", "1 minute", "30 seconds")).agg(f.sum("n").alias("n"))
        .where("window.start < '2024-01-01 00:30:00'")
    )
    return sums.select(
        f.date_format("window.start", "HH:mm:ss").alias("key"),
        f.col("n").cast("string").alias("value"),
    )
""",
        expected=(("23:59:30", "1"), ("00:00:00", "7"), ("00:00:30", "6")),
    ),
)
