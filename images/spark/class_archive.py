"""Creates an archive of the classes that drivers and executors load (AppCDS).

From a driver's start to its first epoch the JVM spends most of its time on loading classes. With an
archive it does not. The class path must be exactly the one that is used later: the jars in the
order of their names. Otherwise the JVM ignores the archive and starts without it.

Usage: class_archive.py ARCHIVE
"""

import logging
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, java_import
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

JARS = Path(pyspark.__file__).parent / "jars"
OPTIONS = Path(__file__).with_name("java-options")
# These need brokers and executors to run, which the build does not have, so they are only loaded.
LOADED_BY_NAME = (
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend$",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterSchedulerBackend",
    "org.apache.spark.scheduler.cluster.k8s.ExecutorPodsAllocator",
    "org.apache.spark.deploy.k8s.SparkKubernetesClientFactory$",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "dev.penstock.spark.KafkaProvider",
    "dev.penstock.spark.KafkaStream",
    "dev.penstock.spark.KafkaPartitionReader",
    "dev.penstock.spark.KafkaWriterFactory",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.spark.sql.kafka010.KafkaContinuousStream",
    "org.apache.spark.sql.kafka010.KafkaContinuousPartitionReader",
    "org.apache.spark.sql.kafka010.KafkaRecordToRowConverter",
    "org.apache.spark.sql.kafka010.KafkaStreamWriterFactory",
    "org.apache.spark.sql.kafka010.KafkaDataWriter",
    "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$",
    "org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$",
)


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


def load_by_name(gateway: JavaGateway) -> None:
    """Loads the classes that cannot run here. A class that this version lacks is skipped."""
    for name in LOADED_BY_NAME:
        try:
            gateway.jvm.java.lang.Class.forName(name)
        except Exception as error:
            print(f"not in this version: {name} ({type(error).__name__})")


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


def run_a_query(gateway: JavaGateway) -> None:
    """Runs a continuous query for three epochs, with functions that Kafka streams use."""
    conf = SparkConf(loadDefaults=False)
    conf.setMaster("local[2]").setAppName("training").set("spark.ui.enabled", "false")
    spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
    spark.readStream.format("rate").option("numPartitions", 2).load().createOrReplaceTempView(
        "source"
    )
    spark.sql("CREATE TEMPORARY FUNCTION f(x BIGINT) RETURNS BOOLEAN RETURN x % 10 >= 0")
    frame = spark.sql(
        "SELECT CAST(value AS STRING) AS key, from_json('{\"a\": 1}', 'a INT').a AS value "
        "FROM source WHERE f(value)"
    )
    location = tempfile.mkdtemp()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", location)
        .trigger(continuous="500 milliseconds")
        .start()
    )
    for _ in range(600):
        if len(list(Path(location, "commits").glob("[0-9]*"))) >= 3:
            break
        time.sleep(0.1)
    query.stop()
    spark.stop()


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
    """Runs the query, and archives the classes that its JVM has loaded."""
    classes = Path(tempfile.mkdtemp()) / "classes"
    process, gateway = launch(classes)
    load_by_name(gateway)
    use_kafka(gateway)
    run_a_query(gateway)
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
