"""A transform in Java, with real Spark: the shipped example, and classes that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import Failure
from penstock.driver.jvm import Jvm
from penstock.driver.spark import query
from penstock.driver.spark.session import submit_arguments
from testkit.driver.bare_query import bare_session
from testkit.driver.in_process_driver import running, second_jvm
from testkit.kafka.topics import Topics
from testkit.streams.examples import compiled, consume, example, produce
from testkit.streams.streams import REAL_TIME, kafka_sink, kafka_source, stream
from testkit.wait import wait_for

WRONG = """
package dev.penstock.tests;

import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.StreamingQueryException;

public class Wrong {
  static class Hidden implements Function<Dataset<Row>, Dataset<Row>> {
    public Hidden() {}
    public Dataset<Row> apply(Dataset<Row> source) { return source; }
  }
  public abstract static class Abstract implements Function<Dataset<Row>, Dataset<Row>> {
    public Abstract() {}
  }
  public static class Private implements Function<Dataset<Row>, Dataset<Row>> {
    private Private() {}
    public Dataset<Row> apply(Dataset<Row> source) { return source; }
  }
  public static class WithArgument implements Function<Dataset<Row>, Dataset<Row>> {
    public WithArgument(String argument) {}
    public Dataset<Row> apply(Dataset<Row> source) { return source; }
  }
  public static class ThrowsAtOnce implements Function<Dataset<Row>, Dataset<Row>> {
    public ThrowsAtOnce() { throw new IllegalStateException("mine"); }
    public Dataset<Row> apply(Dataset<Row> source) { return source; }
  }
  public static class Throws implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) { throw new IllegalStateException("mine"); }
  }
  public static class Null implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) { return null; }
  }
  public static class Batch implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) {
      return source.sparkSession().range(1).toDF();
    }
  }
  public static class Writes implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) {
      try {
        source.writeStream().format("noop").start();
      } catch (java.util.concurrent.TimeoutException e) {
        throw new IllegalStateException(e);
      }
      return source;
    }
  }
  public static class Awaits implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) {
      try {
        source.writeStream().format("noop").start().awaitTermination();
      } catch (java.util.concurrent.TimeoutException | StreamingQueryException e) {
        throw new IllegalStateException(e);
      }
      return source;
    }
  }
  public static class NoColumn implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) { return source.select("no_such"); }
  }
  public static class Counts implements Function<Dataset<Row>, Dataset<Row>> {
    public Dataset<Row> apply(Dataset<Row> source) { return source.groupBy("value").count(); }
  }
}
"""


BROKEN = """
package dev.penstock.tests;

import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import java.util.regex.Pattern;
import org.apache.spark.sql.api.java.UDF1;

public class Broken {
  public static class Matches implements UDF1<String, String> {
    public String call(String text) { return Pattern.compile("x").matcher(text).group(); }
  }
  public static class Unchecked implements UDF1<String, String> {
    public String call(String text) {
      throw new java.io.UncheckedIOException(new java.io.IOException(text));
    }
  }
  public static class Parses implements UDF1<String, String> {
    public String call(String text) throws Exception {
      return new com.fasterxml.jackson.databind.ObjectMapper().readTree(text).asText();
    }
  }
  public static class Checked implements UDF1<String, String> {
    public String call(String text) throws Exception { throw new Exception(text); }
  }
  public static class Asserts implements UDF1<String, String> {
    public String call(String text) { throw new AssertionError(text); }
  }
  public static class NoSchema implements UDF1<String, String> {
    public String call(String text) throws Exception { throw new RestClientException(text, 404); }
  }
  public static class NoRegistry implements UDF1<String, String> {
    public String call(String text) throws Exception { throw new RestClientException(text, 503); }
  }
  public static class OfAnotherSpark implements UDF1<String, String> {
    public String call(String text) { return Library.old(text); }
  }
}
"""
# Compiled against a library that is another one in the image.
LIBRARY = """
package dev.penstock.tests;

public class Library {
  public static String old(String text) { return text; }
}
"""

COUNTING = """
package dev.penstock.tests;

import java.util.List;
import java.util.function.Function;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

public class Counting implements Function<Dataset<Row>, Dataset<Row>> {
  public Dataset<Row> apply(Dataset<Row> source) {
    return source.selectExpr("CAST(value AS STRING)").as(Encoders.STRING())
        .groupByKey((MapFunction<String, String>) value -> value, Encoders.STRING())
        .transformWithState(
            new Counter(), TimeMode.None(), OutputMode.Update(),
            Encoders.tuple(Encoders.STRING(), Encoders.STRING()))
        .toDF("key", "value");
  }
  public static class Counter extends StatefulProcessor<String, String, Tuple2<String, String>> {
    private transient ValueState<Long> count;
    public void init(OutputMode output, TimeMode time) {
      count = getHandle().getValueState("count", Encoders.LONG(), TTLConfig.NONE());
    }
    public Iterator<Tuple2<String, String>> handleInputRows(
        String key, Iterator<String> rows, TimerValues timers) {
      long number = count.exists() ? count.get() : 0;
      for (; rows.hasNext(); rows.next()) number++;
      count.update(number);
      var row = new Tuple2<>(key, Long.toString(number));
      return CollectionConverters.asScala(List.of(row).iterator());
    }
  }
}
"""


# In place of Confluent's own, whose repository is not Maven Central.
REST_CLIENT_EXCEPTION = """
package io.confluent.kafka.schemaregistry.client.rest.exceptions;

public class RestClientException extends java.io.IOException {
  private final int status;
  public RestClientException(String message, int status) {
    super(message);
    this.status = status;
  }
  public int getStatus() { return status; }
}
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's class, and the classes that do not fit."""
    folder = tmp_path_factory.mktemp("jar")
    more = {"Broken": BROKEN, "RestClientException": REST_CLIENT_EXCEPTION}
    compiled(folder, "java-transform", Wrong=WRONG, Library=LIBRARY, Counting=COUNTING, **more)
    (folder / "Broken.java").unlink()  # its class stays as it is
    return compiled(folder, "java-transform", Library=LIBRARY.replace("old", "young"))


@pytest.fixture(scope="module")
def jvm_with_jar(jar: Path, class_path: str) -> Iterator[Jvm]:
    """It has the jar as spec.dependencies adds it."""
    spec = stream(dependencies={"jars": [f"file://{jar}"]}).spec
    submit = submit_arguments(spec, jar.parent / "scratch")
    with second_jvm(class_path, submit) as jvm:
        yield jvm


def test_flat_map_in_continuous_mode(topics: Topics, jvm_with_jar: Jvm, tmp_path: Path) -> None:
    """The shipped example makes two records of each."""
    source, sink = topics.make(2), topics.make(1)
    it = example("java-transform", {"topics": [source]}, {"topic": sink}, topics.bootstrap)
    payments = [str(number) for number in range(20)]
    produce(topics.bootstrap, source, payments)
    with running(it, jvm_with_jar, tmp_path) as driver:
        driver.wait_ready()
        wait_for("bookings", lambda: len(consume(topics.bootstrap, sink)) >= 40, every=1.0)
    bookings = sorted(value for _, value in consume(topics.bootstrap, sink))
    assert bookings == sorted(
        f"{kind} {payment}" for payment in payments for kind in ("credit", "debit")
    )


def test_transform_with_state_in_real_time_mode(
    topics: Topics, jvm_with_jar: Jvm, tmp_path: Path
) -> None:
    """A restart continues the state."""
    source, sink = topics.make(2), topics.make(1)
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
        trigger=REAL_TIME,
        transform={"java": {"className": "dev.penstock.tests.Counting"}},
    )
    for rounds in (1, 2):
        with running(flow, jvm_with_jar, tmp_path) as driver:
            topics.send(source, range(20))
            counts = dict.fromkeys(range(20), rounds)
            wait_for("the counts", lambda: topics.last_values(sink) == counts)  # noqa: B023
            driver.wait_committed(20 * rounds)


@pytest.fixture(scope="module")
def spark_with_jar(
    jvm_with_jar: Jvm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One session for all classes; the test above has stopped its own."""
    with bare_session(jvm_with_jar, stream(), tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dev.penstock.tests.Missing", "the class dev.penstock.tests.Missing is not on the class"),
        ("dev.penstock.tests.Wrong", "does not implement java.util.function.Function"),
        ("dev.penstock.tests.Wrong$Hidden", "has no public constructor without arguments"),
        ("dev.penstock.tests.Wrong$Abstract", "has no public constructor without arguments"),
        ("dev.penstock.tests.Wrong$Private", "has no public constructor without arguments"),
        ("dev.penstock.tests.Wrong$WithArgument", "has no public constructor without arguments"),
        ("dev.penstock.tests.Wrong$ThrowsAtOnce", "IllegalStateException: mine (Wrong.java, line "),
        ("dev.penstock.tests.Wrong$Throws", "IllegalStateException: mine (Wrong.java, line "),
        ("dev.penstock.tests.Wrong$Writes", "starts a query, and Penstock starts it: return the"),
        ("dev.penstock.tests.Wrong$Awaits", "starts a query, and Penstock starts it: return the"),
        ("dev.penstock.tests.Wrong$Null", "must return a streaming Dataset"),
        ("dev.penstock.tests.Wrong$Batch", "must return a streaming Dataset"),
    ],
)
def test_a_class_that_does_not_fit_is_a_permanent_failure(
    name: str, message: str, spark_with_jar: SparkSession, tmp_path: Path
) -> None:
    failure = failure_of(name, spark_with_jar, tmp_path)
    assert (failure.reason, failure.permanent) == ("JavaTransformFailed", True)
    assert name in failure.message
    assert message in failure.message
    assert spark_with_jar.streams.active == []


@pytest.mark.parametrize(
    ("name", "reason"), [("NoColumn", "UnresolvedColumn"), ("Counts", "UnsupportedOperation")]
)
def test_spark_judges_what_the_class_builds(
    name: str, reason: str, spark_with_jar: SparkSession, tmp_path: Path
) -> None:
    """With its own reasons, as it does for SQL."""
    failure = failure_of(f"dev.penstock.tests.Wrong${name}", spark_with_jar, tmp_path)
    assert (failure.reason, failure.permanent) == (reason, True)


@pytest.mark.proves("failures.md#the-image-does-not-fit-the-transform")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Matches", "IllegalState"),
        ("Unchecked", "UncheckedIO"),
        ("Parses", "FailedExecuteUdf"),
        ("Checked", "FailedExecuteUdf"),
        ("Asserts", "FailedExecuteUdf"),
        ("NoSchema", "SchemaUnknown"),
        ("NoRegistry", "SchemaRegistryFailed"),
        ("OfAnotherSpark", "ClassNotUsable"),
    ],
)
def test_what_a_function_throws_over_a_record_is_the_records_fault(
    name: str, reason: str, spark_with_jar: SparkSession
) -> None:
    """Whatever its class, but for an outage, and for classes that do not fit each other."""
    spark = spark_with_jar
    spark.udf.registerJavaFunction("broken", f"dev.penstock.tests.Broken${name}", "string")
    rows = spark.createDataFrame([("card 4111",)], "value STRING")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        rows.selectExpr("broken(value)").write.format("noop").mode("overwrite").save()
    failure = classify_exception(raised.value)
    assert failure.reason == reason
    assert "4111" not in failure.message
    assert failure.maybe_poison is (name not in ("NoRegistry", "OfAnotherSpark"))
    assert ("Library.old" in failure.message) is (name == "OfAnotherSpark")


def failure_of(name: str, spark: SparkSession, folder: Path) -> Failure:
    """What the driver reports of a continuous stream with this class."""
    spec = stream(transform={"java": {"className": name}}).spec
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception is classified
        query.check(query.plan(spark, spec, LocalEnvironment(folder)), spec)
    return classify_exception(raised.value)
