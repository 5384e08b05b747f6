package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.SparkThrowable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Beside test_penstock_kafka.py, which has a broker: here the answers come in any order. */
final class PartitionLogTest implements PartitionLog.Consumers {
  private static final TopicPartition PARTITION = new TopicPartition("payments", 3);
  private static final Duration PATIENCE = Duration.ofMillis(1);

  private final List<MockConsumer<byte[], byte[]>> made = new ArrayList<>();
  private boolean isOutdated;
  /** Is interrupted while the consumer closes. */
  private Thread closes;

  @Override
  public Consumer<byte[], byte[]> make() {
    made.add(
        new MockConsumer<>(OffsetResetStrategy.NONE) {
          @Override
          public synchronized void close(Duration timeout) {
            if (closes != null) {
              closes.interrupt();
            }
            try {
              Thread.sleep(20);
            } catch (InterruptedException leavesTheConnectionsOfARealOneOpen) {
              return;
            }
            super.close(timeout);
          }
        });
    isOutdated = false;
    hasLog(0, 100);
    return consumer();
  }

  @Override
  public boolean isOutdated() {
    return isOutdated;
  }

  @Override
  public long logEnd(TopicPartition partition) {
    return consumer().endOffsets(List.of(partition)).get(partition);
  }

  @Override
  public String group() {
    return "of-spark";
  }

  @AfterEach
  void noInterruptIsLeft() {
    assertFalse(Thread.interrupted());
  }

  private PartitionLog from(long start, boolean failOnDataLoss) {
    return new PartitionLog(PARTITION, start, failOnDataLoss, PATIENCE, this);
  }

  private MockConsumer<byte[], byte[]> consumer() {
    return made.get(made.size() - 1);
  }

  private void hasLog(long first, long end) {
    consumer().updateBeginningOffsets(Map.of(PARTITION, first));
    consumer().updateEndOffsets(Map.of(PARTITION, end));
  }

  private void arrive(long... offsets) {
    for (long offset : offsets) {
      consumer().addRecord(new ConsumerRecord<>("payments", 3, offset, null, null));
    }
  }

  /** The next poll answers so. */
  private void answer(Runnable answer) {
    consumer().schedulePollTask(answer);
  }

  private void isOutside(long offset) {
    var outside = new OffsetOutOfRangeException(Map.of(PARTITION, offset));
    answer(() -> consumer().setPollException(outside));
  }

  private static List<Long> taken(PartitionLog log) {
    log.poll(PATIENCE);
    List<Long> offsets = new ArrayList<>();
    while (log.hasRecord()) {
      offsets.add(log.take().offset());
      assertEquals(offsets.get(offsets.size() - 1) + 1, log.next());
    }
    return offsets;
  }

  @Test
  void aGapIsNoLossAndNothingIsAskedBetweenTwoPolls() {
    PartitionLog log = from(5, true);
    arrive(5, 6, 40);
    assertEquals(List.of(5L, 6L, 40L), taken(log));
    arrive(41);
    assertEquals(List.of(41L), taken(log));
    assertEquals(1, made.size());
  }

  @Test
  void whatIsPolledAndNotTakenDoesNotCount() {
    PartitionLog log = from(5, true);
    arrive(5, 6);
    log.poll(PATIENCE);
    log.take();
    assertEquals(6, log.next());
  }

  @Test
  void aMarkerThatNoRecordFollowsIsPassed() {
    PartitionLog log = from(5, true);
    arrive(5);
    taken(log);
    answer(() -> consumer().seek(PARTITION, 7));
    assertEquals(List.of(), taken(log));
    assertEquals(7, log.next());
  }

  @Test
  void aBatchEndsBeforeTheRecordsOfTheNextOne() {
    PartitionLog log = from(5, true);
    assertFalse(log.hasReached(8));
    arrive(5, 9, 10);
    log.poll(PATIENCE);
    assertFalse(log.hasReached(8));
    assertEquals(5, log.take().offset());
    assertTrue(log.hasReached(8), "no record has 6 or 7");
    log.passGap(8);
    assertEquals(8, log.next());
    assertFalse(log.hasReached(10));
    assertEquals(9, log.take().offset());
    assertTrue(log.hasReached(10));
    assertEquals(10, log.take().offset());
    assertEquals(11, log.next());
  }

  /** Kafka's consumer passes the marker in the poll that returns the last record before it. */
  @Test
  void aBatchThatEndsBehindAMarkerWaitsForNoOtherPoll() {
    PartitionLog log = from(5, true);
    arrive(5);
    answer(() -> consumer().seek(PARTITION, 5));
    log.poll(PATIENCE);
    log.take();
    assertFalse(log.hasReached(7));
    consumer().seek(PARTITION, 7);
    assertTrue(log.hasReached(7));
  }

  @Test
  void aBatchWhoseRecordsAreLostIsOverIfLossIsAccepted() {
    PartitionLog log = from(5, false);
    hasLog(10, 10);
    isOutside(5);
    log.poll(PATIENCE);
    assertFalse(log.hasReached(11));
    assertTrue(log.hasReached(10));
  }

  @Test
  void anEmptyTopicMovesNothing() {
    PartitionLog log = from(5, true);
    assertEquals(List.of(), taken(log));
    assertEquals(5, log.next());
  }

  @ParameterizedTest
  @ValueSource(longs = {5, 500})
  void lostRecordsFailWithSparksCondition(long start) {
    PartitionLog log = from(start, true);
    hasLog(10, 100);
    isOutside(start);
    Exception lost = assertThrows(Exception.class, () -> log.poll(PATIENCE));
    String condition = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE";
    assertEquals(condition, ((SparkThrowable) lost).getCondition());
    assertEquals("of-spark", ((SparkThrowable) lost).getMessageParameters().get("groupId"));
    assertEquals(start, log.next());
  }

  @Test
  void acceptedLossGoesOnWithTheFirstRecordThatIsLeft() {
    PartitionLog log = from(5, false);
    hasLog(10, 100);
    isOutside(5);
    assertEquals(List.of(), taken(log));
    assertEquals(5, log.next(), "nothing is passed before a record is read");
    assertEquals(List.of(), taken(log));
    assertEquals(5, log.next());
    arrive(10, 11);
    assertEquals(List.of(10L, 11L), taken(log));
  }

  /** It would skip all that is written until the log has the offset again. */
  @Test
  void anOffsetBeyondTheEndEndsTheTaskAlsoIfLossIsAccepted() {
    PartitionLog log = from(500, false);
    isOutside(500);
    assertThrows(OffsetOutOfRangeException.class, () -> log.poll(PATIENCE));
    assertEquals(500, log.next());
  }

  /** The log may have grown past the offset again by now: the consumer knows that it was cut. */
  private LogTruncationException isCutAt(long offset) {
    var cut =
        new LogTruncationException(
            Map.of(PARTITION, 50L), Map.of(PARTITION, new OffsetAndMetadata(offset)));
    answer(() -> consumer().setPollException(cut));
    return cut;
  }

  private void arriveOf(int leaderEpoch, long offset) {
    consumer()
        .addRecord(
            new ConsumerRecord<>(
                "payments", 3, offset, 0, TimestampType.CREATE_TIME, 0, 0, null, null,
                new RecordHeaders(), Optional.of(leaderEpoch)));
  }

  @Test
  void aLogThatWasCutIsReadOnThereIfLossIsAccepted() {
    PartitionLog log = from(49, false);
    arriveOf(7, 49);
    assertEquals(List.of(49L), taken(log));
    isCutAt(30);
    assertEquals(List.of(), taken(log));
    assertEquals(30, log.next());
    arriveOf(8, 30);
    arriveOf(8, 31);
    assertEquals(List.of(30L, 31L), taken(log));
  }

  @Test
  void aLogThatWasCutEndsTheTaskElse() {
    PartitionLog log = from(49, true);
    arriveOf(7, 49);
    taken(log);
    isCutAt(30);
    assertTrue(assertThrows(Exception.class, () -> log.poll(PATIENCE)) instanceof SparkThrowable);
  }

  /** Its leaders' epochs begin anew. What to do is for the driver to say, which knows its id. */
  @Test
  void soDoesATopicThatWasCreatedAgain() {
    PartitionLog log = from(49, false);
    arriveOf(7, 49);
    taken(log);
    LogTruncationException cut = isCutAt(30);
    taken(log);
    arriveOf(0, 30);
    log.poll(PATIENCE);
    assertSame(cut, assertThrows(LogTruncationException.class, log::take));
  }

  @Test
  void andOneOfWhichNothingWasRead() {
    PartitionLog log = from(50, false);
    LogTruncationException cut = isCutAt(30);
    assertSame(cut, assertThrows(LogTruncationException.class, () -> log.poll(PATIENCE)));
  }

  /** A leader that has just been elected may not have it yet, and has said so. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anOffsetThatTheLogHasWhenItIsAskedIsNoLoss(boolean failOnDataLoss) {
    PartitionLog log = from(50, failOnDataLoss);
    isOutside(50);
    assertEquals(List.of(), taken(log));
    arrive(50);
    assertEquals(List.of(50L), taken(log));
  }

  @Test
  void aBrokerThatDoesNotAnswerIsWaitedFor() {
    PartitionLog log = from(5, true);
    answer(() -> consumer().setPollException(new TimeoutException("no broker")));
    assertEquals(List.of(), taken(log));
    isOutside(5);
    consumer().setOffsetsException(new TimeoutException("nor for its log"));
    assertEquals(List.of(), taken(log));
    arrive(5);
    assertEquals(List.of(5L), taken(log));
  }

  @Test
  void anInterruptedPollEndsTheTaskAsSparkWantsIt() {
    PartitionLog log = from(5, true);
    answer(() -> consumer().setPollException(new InterruptException("stopped")));
    assertThrows(InterruptedException.class, () -> log.poll(PATIENCE));
    Thread.interrupted(); // which InterruptException has set
  }

  @Test
  void anInterruptWhileItWaitsForTheLogDoesToo() {
    var log = new PartitionLog(PARTITION, 50, false, Duration.ofMinutes(5), this);
    var outside = new OffsetOutOfRangeException(Map.of(PARTITION, 50L));
    answer(
        () -> {
          consumer().setPollException(outside);
          Thread.currentThread().interrupt();
        });
    assertThrows(InterruptedException.class, () -> log.poll(PATIENCE));
  }

  @Test
  void newCredentialsGetANewConsumerAtTheSameOffset() {
    PartitionLog log = from(5, true);
    arrive(5, 6);
    assertEquals(List.of(5L, 6L), taken(log));
    isOutdated = true;
    assertEquals(List.of(), taken(log));
    assertTrue(made.get(0).closed());
    assertEquals(2, made.size());
    arrive(6, 7);
    assertEquals(List.of(7L), taken(log));
  }

  @Test
  void newCredentialsAfterAnAcceptedLossDoNotGoBack() {
    PartitionLog log = from(5, false);
    hasLog(10, 100);
    isOutside(5);
    taken(log);
    isOutdated = true;
    taken(log);
    assertEquals(10, consumer().position(PARTITION));
  }

  @Test
  void anInterruptedThreadClosesTheConnectionsAndStaysInterrupted() {
    PartitionLog log = from(5, true);
    Thread.currentThread().interrupt();
    log.close();
    assertTrue(Thread.interrupted());
    assertTrue(consumer().closed());
  }

  @Test
  void oneThatIsInterruptedWhileItClosesThemDoesToo() {
    PartitionLog log = from(5, true);
    closes = Thread.currentThread();
    log.close();
    assertTrue(Thread.interrupted());
    assertTrue(consumer().closed());
  }
}
