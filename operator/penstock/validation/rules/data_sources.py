"""What is known about data sources that the spec names itself, before Spark looks for them.

Spark finds out when the query starts (DataSource.createSink and FileStreamSink of Spark 4.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.sinks import CustomSink
from penstock.api.v1alpha1.sources import CustomSource

# Spark's own formats of files, with avro, which is a package of Spark's.
_FILES = ("parquet", "json", "csv", "orc", "text", "avro", "xml")
# Those that write a partition's files into a folder of its own.
_PARTITIONED = (*_FILES, "delta")
# Spark's own data sources that no stream can write to, or read.
_NO_SINK = ("binaryfile", "rate", "rate-micro-batch", "socket")
_NO_SOURCE = ("jdbc",)
# Formats that are in no image of Penstock's.
_PACKAGES = ("avro", "delta", "iceberg", "hudi")
_WRITE_ELSEWHERE = (
    "write to Kafka, from where Kafka Connect takes it, or name a data source of the image, in "
    "Java or in Python (module:Class, with a DataSourceStreamWriter)"
)


def find_problems(spec: StreamSpec) -> Iterator[Problem]:
    """Problems of source.custom and sink.custom, and of packages."""
    source, sink = spec.source.custom, spec.sink.custom
    if source is not None:
        yield from _source(source)
    if sink is not None:
        yield from _sink(sink, spec)
    has_more = spec.image is not None or spec.dependencies.jars or spec.dependencies.packages
    for end, custom in (("source", source), ("sink", sink)):
        if custom is not None and custom.secret_options and custom.format.lower() in _FILES:
            yield Problem(
                "DataSourceUnusable",
                f"spec.{end}.custom.secretOptions: {custom.format} takes none: "
                "use spec.secretSparkConf, for what its file system needs (spark.hadoop...)",
            )
        if custom is not None and not has_more and custom.format.lower() in _PACKAGES:
            yield Problem(
                "DependencyDoubtful",
                f"spec.{end}.custom.format: Penstock's image has no data source {custom.format}: "
                "name its package in spec.dependencies.packages, or an image that has it",
                "warning",
            )
    for number, package in enumerate(spec.dependencies.packages):
        if package.split(":")[1].endswith(("_2.11", "_2.12")):
            yield Problem(
                "DependencyDoubtful",
                f"spec.dependencies.packages[{number}]: {package} is for another version of Scala "
                "than Spark's, which is 2.13: name the artifact that ends with _2.13",
                "warning",
            )


def _source(source: CustomSource) -> Iterator[Problem]:
    name, field = source.format.lower(), "spec.source.custom.format"
    if name == "kafka":
        yield Problem(
            "KafkaAsDataSource",
            f"{field}: kafka is read as any data source here: its partitions are not counted, so "
            "that with numPartitions too low some are never read in continuous mode, and lag and "
            "lost records are not looked for: use source.kafka",
            "warning",
        )
    elif name in _NO_SOURCE:
        yield Problem(
            "DataSourceUnusable",
            f"{field}: Spark's {source.format} cannot be read as a stream: read a table in "
            "transform.python, and join it",
        )


def _sink(sink: CustomSink, spec: StreamSpec) -> Iterator[Problem]:
    name, field = sink.format.lower(), "spec.sink.custom"
    options = {option.lower(): option for option in sink.options}
    if name == "kafka":
        yield Problem(
            "KafkaAsDataSource",
            f"{field}.format: kafka is written as by any data source here, without Penstock's "
            "checks of topic, columns and options: use sink.kafka",
            "warning",
        )
    if name == "jdbc":
        yield Problem(
            "DataSourceUnusable",
            f"{field}.format: Spark cannot write a stream to jdbc: use sink.jdbc, for a table of "
            "PostgreSQL",
        )
    if name in _NO_SINK:
        yield Problem(
            "DataSourceUnusable",
            f"{field}.format: Spark cannot write a stream to {sink.format}: {_WRITE_ELSEWHERE}",
        )
    if name in _FILES and "path" not in options:
        yield Problem(
            "DataSourceUnusable",
            f"{field}.options: {sink.format} has no folder to write to: set the option path",
        )
    if name in _FILES and spec.output_mode in ("update", "complete"):
        yield Problem(
            "DataSourceUnusable",
            f"spec.outputMode: files cannot be changed once they are written, so {sink.format} "
            "takes outputMode append only: use append, with a watermark for an aggregate, or "
            "another sink",
        )
    if name in _PARTITIONED and "partitionby" in options:
        yield Problem(
            "DataSourceUnusable",
            f"{field}.options.{options['partitionby']}: Spark ignores it: use "
            "sink.custom.partitionBy, a list of columns",
        )
