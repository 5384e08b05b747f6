"""Creates an archive of the classes that drivers and executors load (AppCDS).

From a driver's start to its first epoch the JVM spends most of its time on loading classes. With an
archive it does not. The class path must be exactly the one that is used later: the jars in the
order of their names. Otherwise the JVM ignores the archive and starts without it.

Usage: class_archive.py ARCHIVE
"""

import contextlib
import logging
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, java_import
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

JARS = Path(pyspark.__file__).parent / "jars"
OPTIONS = Path(__file__).with_name("java-options")
# What uses the classes of these packages needs brokers or executors, which the build does not have,
# or depends on the query. All of them are loaded.
PACKAGES = (
    "dev/penstock/",
    "org/apache/kafka/clients/",
    "org/apache/kafka/common/errors/",
    "org/apache/kafka/common/record/",
    "org/apache/kafka/common/requests/",
    "org/apache/logging/log4j/layout/template/",
    "org/apache/spark/deploy/k8s/",
    "org/apache/spark/executor/",
    "org/apache/spark/network/shuffle/streaming/",
    "org/apache/spark/scheduler/cluster/k8s/",
    "org/apache/spark/shuffle/streaming/",
    "org/apache/spark/sql/execution/streaming/",
    "org/apache/spark/sql/kafka010/",
    "org/codehaus/",
    "org/rocksdb/",
)
# The JVM archives no class of a signed jar. Spark compiles each query with these two.
SIGNED = ("commons-compiler", "janino")
SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "training",
    "spark.ui.enabled": "false",
    "spark.plugins": "dev.penstock.spark.RunningTasks",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "dev.penstock.spark.checkpoint.DurableCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def class_path() -> str:
    """Every jar, in the order of the driver (jvm.py) and of executors (entrypoint.sh)."""
    jars = sorted(JARS.glob("*.jar"), key=lambda it: (not it.name.startswith("spark-"), it.name))
    return os.pathsep.join(map(str, jars))


def launch(classes: Path) -> tuple[subprocess.Popen[bytes], JavaGateway]:
    """Starts the JVM that pyspark starts, without pyspark's script and the JVM before it.

    It lists the classes that it loads.
    """
    info = Path(tempfile.mkdtemp()) / "gateway"
    process = subprocess.Popen(
        [
            "java", f"@{OPTIONS}", f"-XX:DumpLoadedClassList={classes}", "-Xmx768m",
            "-XX:+UseSerialGC", "-cp", class_path(),
            "org.apache.spark.api.python.PythonGatewayServer",
        ],
        env={
            **os.environ,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdin=subprocess.PIPE,
    )  # fmt: skip
    for _ in range(600):
        if info.exists() and info.stat().st_size > 4:
            break
        time.sleep(0.1)
    with info.open("rb") as stream:
        (port,) = struct.unpack("!i", stream.read(4))
        (length,) = struct.unpack("!i", stream.read(4))
        secret = stream.read(length).decode()
    parameters = GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    for package in (
        "org.apache.spark.SparkConf", "org.apache.spark.api.java.*",
        "org.apache.spark.api.python.*", "org.apache.spark.sql.*",
        "org.apache.spark.sql.classic.*", "scala.Tuple2",
    ):  # fmt: skip
        java_import(gateway.jvm, package)
    return process, gateway


def remove_signatures() -> None:
    """Writes the signed jars anew, without their signatures. pip has compared their hash."""
    for jar in (jar for name in SIGNED for jar in JARS.glob(f"{name}-*.jar")):
        draft = jar.with_suffix(".draft")
        with zipfile.ZipFile(jar) as signed, zipfile.ZipFile(draft, "w") as written:
            for entry in signed.infolist():
                if not re.fullmatch(r"META-INF/[^/]+\.(SF|DSA|RSA|EC)", entry.filename):
                    written.writestr(entry, signed.read(entry))
        draft.replace(jar)


def load_packages(gateway: JavaGateway) -> None:
    """Loads the classes of the packages. One that needs what is not there is skipped."""
    java = gateway.jvm.java.lang
    loader = java.ClassLoader.getSystemClassLoader()
    for jar in JARS.glob("*.jar"):
        with zipfile.ZipFile(jar) as file:
            names = [it.removesuffix(".class") for it in file.namelist() if it.endswith(".class")]
        for name in names:
            if name.startswith(PACKAGES):
                with contextlib.suppress(Py4JJavaError):
                    java.Class.forName(name.replace("/", "."), False, loader)


def use_kafka(gateway: JavaGateway) -> None:
    """Loads the classes of Kafka's clients. No broker answers on this port, nor has to."""
    jvm = gateway.jvm
    kafka, duration = jvm.org.apache.kafka, jvm.java.time.Duration
    settings = jvm.java.util.HashMap()
    settings["bootstrap.servers"] = "127.0.0.1:1"
    settings["group.id"] = "training"
    settings["max.block.ms"] = "300"  # of the producer, which asks for the topic's partitions
    for part in ("key", "value"):
        package = "org.apache.kafka.common.serialization"
        settings[f"{part}.deserializer"] = f"{package}.ByteArrayDeserializer"
        settings[f"{part}.serializer"] = f"{package}.ByteArraySerializer"
    consumer = kafka.clients.consumer.KafkaConsumer(settings)
    consumer.subscribe(["training"])
    consumer.poll(duration.ofMillis(300))
    producer = kafka.clients.producer.KafkaProducer(settings)
    producer.send(kafka.clients.producer.ProducerRecord("training", b"value"))
    for client in (consumer, producer, kafka.clients.admin.Admin.create(settings)):
        client.close(duration.ZERO)


def run_queries(gateway: JavaGateway) -> None:
    """Runs a continuous query, then batches with state, with functions that Kafka streams use."""
    conf = SparkConf(loadDefaults=False).setAll(list(SETTINGS.items()))
    spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
    spark.readStream.format("rate").option("numPartitions", 2).load().createOrReplaceTempView(
        "source"
    )
    spark.sql("CREATE TEMPORARY FUNCTION f(x BIGINT) RETURNS BOOLEAN RETURN x % 10 >= 0")
    records = spark.sql(
        "SELECT CAST(value AS STRING) AS key, from_json('{\"a\": 1}', 'a INT').a AS value "
        "FROM source WHERE f(value)"
    )
    run(records, continuous="500 milliseconds")
    counts = records.groupBy("key").agg({"value": "count"})
    run(counts, processingTime="500 milliseconds")
    spark.stop()


def run(frame: DataFrame, **trigger: str) -> None:
    """Runs a query until it has committed three times."""
    location = tempfile.mkdtemp()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", location)
        .outputMode("update")
        .trigger(**trigger)
        .start()
    )
    until = time.monotonic() + 120
    while len(list(Path(location, "commits").glob("[0-9]*"))) < 3:
        if not query.isActive or time.monotonic() > until:
            raise SystemExit(f"The training query has not committed: {query.exception()}")
        time.sleep(0.1)
    query.stop()


def write(classes: Path, archive: str) -> None:
    """A static archive, with the JDK's own classes: it starts a JVM sooner than a dynamic one."""
    subprocess.run(
        [
            "java", f"@{OPTIONS}", "-Xshare:dump", f"-XX:SharedClassListFile={classes}",
            f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr",
            "-cp", class_path(),
        ],
        check=True,
    )  # fmt: skip


def main() -> None:
    """Runs the queries, and archives the classes that their JVM has loaded."""
    remove_signatures()
    classes = Path(tempfile.mkdtemp()) / "classes"
    process, gateway = launch(classes)
    use_kafka(gateway)
    run_queries(gateway)
    load_packages(gateway)
    logging.disable()  # Py4J reports every object that it cannot free after the exit of the JVM
    gateway.close()
    assert process.stdin is not None
    process.stdin.close()
    process.wait(120)
    write(classes, sys.argv[1])
    size = Path(sys.argv[1]).stat().st_size
    print(f"{size / 2**20:.0f} MiB of classes in {sys.argv[1]}")


if __name__ == "__main__":
    main()
