package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import org.junit.jupiter.api.Test;
import scala.jdk.javaapi.CollectionConverters;

final class BatchEndsTest {
  private static final TopicPartition FIRST = new TopicPartition("payments", 0);
  private static final TopicPartition SECOND = new TopicPartition("payments", 1);

  private Set<TopicPartition> asked = Set.of();
  private final BatchEnds ends =
      new BatchEnds(
          partitions -> {
            asked = partitions;
            return Map.of(FIRST, 120L, SECOND, 7L);
          });

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static KafkaSourceOffset at(long first, long second) {
    Map<TopicPartition, Object> offsets = Map.of(FIRST, first, SECOND, second);
    var map = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(offsets));
    return new KafkaSourceOffset((scala.collection.immutable.Map) map);
  }

  @Test
  void aBatchThatGoesOnAsksNobody() {
    KafkaSourceOffset end = at(120, 7);
    assertSame(end, ends.notBefore(at(100, 7), end));
    assertSame(end, ends.asRead(end));
    assertEquals(Set.of(), asked);
    assertNull(ends.notBefore(at(100, 7), null));
  }

  @Test
  void whatATransactionHoldsBackIsNotReadAgain() {
    assertEquals(at(120, 7), ends.notBefore(at(120, 5), at(100, 7)));
    assertEquals(Set.of(FIRST), asked);
    // With availableNow Spark refuses an end after the one that it has found.
    assertEquals(at(100, 5), ends.asRead(at(120, 5)));
    assertEquals(at(100, 7), ends.asRead(at(120, 7)));
  }

  @Test
  void aLogThatWasCutIsReadOnWhereItEnds() {
    assertEquals(at(100, 7), ends.notBefore(at(500, 7), at(100, 7)));
    assertEquals(at(500, 7), ends.asRead(at(500, 7)));
  }
}
