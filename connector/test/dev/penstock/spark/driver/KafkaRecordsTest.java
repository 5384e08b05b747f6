package dev.penstock.spark.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

/** Of logs with gaps; test_metrics.py and test_failed_records.py have a broker. */
final class KafkaRecordsTest {
  private static final TopicPartition PARTITION = new TopicPartition("payments", 3);

  private long first;
  private long end;
  /** Of its records; where there is none, a marker was, or what compaction has removed. */
  private final TreeSet<Long> offsets = new TreeSet<>();

  /** Answers one record in each poll; one of markers only is empty, and moves on. */
  private final MockConsumer<byte[], byte[]> broker =
      new MockConsumer<>(OffsetResetStrategy.EARLIEST) {
        @Override
        public synchronized ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
          updateBeginningOffsets(Map.of(PARTITION, first));
          long from = position(PARTITION);
          from = from < first || from > end ? first : from;
          Long found = offsets.ceiling(from);
          seek(PARTITION, found == null ? Math.max(from, end) : found);
          if (found != null) {
            addRecord(new ConsumerRecord<>("payments", 3, found, null, new byte[0]));
          }
          return super.poll(Duration.ZERO);
        }
      };

  private final KafkaRecords records = new KafkaRecords(broker);

  private void log(long first, long end, long... offsets) {
    this.first = first;
    this.end = end;
    this.offsets.clear();
    for (long offset : offsets) {
      this.offsets.add(offset);
    }
  }

  private Long at(long offset) {
    ConsumerRecord<byte[], byte[]> found = records.at("payments", 3, offset, 20);
    return found == null ? null : found.offset();
  }

  private static String offset(String json) {
    return json == null ? null : json.replaceAll(".*\"offset\":([0-9]+).*", "$1");
  }

  @Test
  void aRecordThatIsGoneIsNotTakenForTheNextOne() {
    log(4, 10, 4, 5, 7);
    assertEquals(5, at(5));
    assertNull(at(6), "compacted");
    assertNull(at(2), "expired");
    assertNull(at(9), "a marker");
    assertNull(at(30), "of a log that was longer once");
  }

  @Test
  void allThatIsGoneIsNoBrokerThatDoesNotAnswer() {
    log(10, 10);
    assertNull(at(3));
    assertThrows(TimeoutException.class, () -> at(10));
  }

  @Test
  void theLastRecordIsFoundBehindTheMarkersOfManyProducers() {
    log(0, 20, 0, 1, 2, 3, 4);
    assertEquals("4", offset(records.lastBefore("payments", 3, 20)));
    assertEquals("2", offset(records.lastBefore("payments", 3, 3)));
    log(0, 21, 0, 1, 2, 3, 4);
    assertNull(records.lastBefore("payments", 3, 21), "17 offsets back");
    assertNull(records.lastBefore("payments", 3, 0));
  }

  @Test
  void theFirstRecordIsThatAfterAGap() {
    log(4, 10, 7, 8);
    assertEquals("7", offset(records.firstFrom("payments", 3, 0, "made")));
    assertNull(records.firstFrom("payments", 3, 9, "made"));
  }
}
