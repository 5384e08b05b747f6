package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.junit.jupiter.api.Test;

/** Beside test_executors.py, in which real executors send what is counted here. */
final class RecordInHandTest {
  private static final TopicPartition PARTITION = new TopicPartition("in", 0);

  @Test
  void whatNoRecordHasIsReadWithTheRecordAfterIt() {
    TaskContext task = TaskContext$.MODULE$.empty();
    RecordInHand inHand = new RecordInHand(PARTITION, 10, new LeftOut(Map.of()), task);
    // A marker or an aborted record at 10 and 12, and two at 14: Spark counts 11, 13 and 16 itself.
    long[][] records = {{11, 1}, {13, 2}, {16, 4}, {17, 4}};
    for (long[] record : records) {
      assertTrue(inHand.take(record[0]));
      inHand.countSkipped();
      assertEquals(record[1], task.taskMetrics().inputMetrics().recordsRead());
    }
  }

  @Test
  void whatIsLeftOutIsRead() {
    TaskContext task = TaskContext$.MODULE$.empty();
    LeftOut leftOut = new LeftOut(Map.of(PARTITION, Set.of(7L)));
    RecordInHand inHand = new RecordInHand(PARTITION, 7, leftOut, task);
    assertFalse(inHand.take(7));
    assertTrue(inHand.take(8));
    inHand.countSkipped();
    assertEquals(1, task.taskMetrics().inputMetrics().recordsRead());
  }
}
