package dev.penstock.spark.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** What it makes of answers; what brokers answer: operator/tests/integration/driver. */
final class KafkaAdminTest {
  /** Of partitions that end at 10, and get a record of the time after each question. */
  private static final class Broker {
    private long end = 10;

    private long offset(OffsetSpec spec) {
      boolean atTime = spec.getClass() == OffsetSpec.forTimestamp(0).getClass();
      return atTime ? (end > 10 ? 10 : -1) : end;
    }

    private ListOffsetsResult listOffsets(Map<TopicPartition, OffsetSpec> asked) {
      Map<TopicPartition, KafkaFuture<ListOffsetsResultInfo>> found = new HashMap<>();
      asked.forEach(
          (partition, spec) ->
              found.put(
                  partition,
                  KafkaFuture.completedFuture(
                      new ListOffsetsResultInfo(offset(spec), 0, Optional.empty()))));
      end++;
      return new ListOffsetsResult(found);
    }

    @SuppressWarnings("unchecked")
    private KafkaAdmin admin() {
      Admin client =
          (Admin)
              Proxy.newProxyInstance(
                  Admin.class.getClassLoader(),
                  new Class<?>[] {Admin.class},
                  (proxy, method, asked) ->
                      listOffsets((Map<TopicPartition, OffsetSpec>) asked[0]));
      return new KafkaAdmin(client, IsolationLevel.READ_UNCOMMITTED, 1_000);
    }
  }

  @Test
  void aRecordThatComesMeanwhileIsNotSkipped() throws Exception {
    assertEquals("{\"in\":{\"0\":10}}", new Broker().admin().atTime("{\"in\":[0]}", 123));
  }

  @Test
  void whereThereIsNoRecordOfTheTimeThePartitionEnds() throws Exception {
    Broker broker = new Broker();
    broker.end = 8;
    assertEquals("{\"in\":{\"0\":8}}", broker.admin().atTime("{\"in\":[0]}", 123));
  }

  @Test
  void aThousandPartitionsAreOneAnswer() throws Exception {
    String numbers = IntStream.range(0, 1_000).mapToObj(Integer::toString)
        .collect(Collectors.joining(","));
    String ends = IntStream.range(0, 1_000).mapToObj(number -> "\"" + number + "\":10")
        .collect(Collectors.joining(","));
    assertEquals(
        "{\"in\":{" + ends + "}}", new Broker().admin().newest("{\"in\":[" + numbers + "]}"));
  }

  @Test
  void aPatternMatchesWholeNames() {
    assertEquals(
        "[\"orders-1\",\"orders-2\"]",
        KafkaAdmin.matching(
            "orders-[0-9]", "[\"orders-2\",\"my-orders-1\",\"orders-1\",\"orders-10\"]"));
  }
}
