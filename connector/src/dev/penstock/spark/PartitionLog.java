package dev.penstock.spark;

import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.kafka010.KafkaExceptions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The records of one partition from an offset on, by a consumer that seeks once and then only polls.
 *
 * <p>Spark's reader asks for the first and the last offset after each poll, before it hands the
 * records over; both questions wait behind the next fetch. They are needed only for lost records,
 * and there the broker's answer says as much: with {@code auto.offset.reset=none}, which Spark sets,
 * an offset outside of the log is an OffsetOutOfRangeException. A gap between two records is no
 * loss: it is compaction, an aborted record or the marker of a transaction.
 */
final class PartitionLog {
  private static final Logger LOG = LoggerFactory.getLogger(PartitionLog.class);
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(2);

  /** Makes its consumers. */
  interface Consumers {
    Consumer<byte[], byte[]> make();

    /** Whether the one that was made last has to be replaced, because its credentials have been. */
    boolean isOutdated();

    /** Where the log ends, which a reader of committed records may not reach yet. */
    long logEnd(TopicPartition partition);

    /** The group that Spark names when records are lost. */
    String group();
  }

  private final TopicPartition partition;
  private final boolean failOnDataLoss;
  private final Duration pause;
  private final Consumers consumers;

  private Consumer<byte[], byte[]> consumer;
  private Iterator<ConsumerRecord<byte[], byte[]>> polled = Collections.emptyIterator();
  /** Of {@link #polled}, if its offset was looked at. */
  private ConsumerRecord<byte[], byte[]> ahead;
  /** The offset after the last record. It passes a transaction's marker that no record follows. */
  private long next;
  /** Where the consumer was last told to read. */
  private long sought;
  /** The last offset that was reported as lost. */
  private long reported = -1;
  /** The leader's epoch of the last record; -1 if it is not known. */
  private int leaderEpoch = -1;
  /** What was said of the end of the log that brokers have lost, until a record is read there. */
  private LogTruncationException cut;

  /** {@code pause}: between two looks for a log that does not have the offset yet. */
  PartitionLog(
      TopicPartition partition,
      long start,
      boolean failOnDataLoss,
      Duration pause,
      Consumers consumers) {
    this.partition = partition;
    this.failOnDataLoss = failOnDataLoss;
    this.pause = pause;
    this.consumers = consumers;
    next = start;
    open(start);
  }

  /** The offset that the group has committed; 0 if none. */
  long committed() {
    var committed = consumer.committed(Set.of(partition)).get(partition);
    return committed == null ? 0 : committed.offset();
  }

  /** Goes on from this offset, if it is a later one. */
  void pass(long offset) {
    if (offset > next) {
      next = offset;
      seek(next);
    }
  }

  /** Whether {@link #take} has a record. */
  boolean hasRecord() {
    return ahead != null || polled.hasNext();
  }

  /** Whether nothing is left to take before this offset. */
  boolean hasReached(long end) {
    if (next >= end) {
      return true;
    }
    if (ahead == null && polled.hasNext()) {
      ahead = polled.next();
    }
    return (ahead == null ? position() : ahead.offset()) >= end;
  }

  /** Goes on from this offset, before which nothing is left. */
  void passGap(long end) {
    next = Math.max(next, end);
  }

  /** Whether all that the brokers have told of was taken. */
  boolean isAtEnd() {
    return !hasRecord() && consumer.currentLag(partition).orElse(1) == 0;
  }

  /** The next record. */
  ConsumerRecord<byte[], byte[]> take() {
    ConsumerRecord<byte[], byte[]> record = ahead == null ? polled.next() : ahead;
    ahead = null;
    int epoch = record.leaderEpoch().orElse(-1);
    if (cut != null && epoch <= leaderEpoch) {
      throw cut; // those of a topic that was created again begin anew
    }
    cut = null;
    leaderEpoch = epoch;
    next = record.offset() + 1;
    return record;
  }

  /** The offset to read on from after what was taken. */
  long next() {
    return next;
  }

  /** Waits for records; only when all of the poll before have been taken. */
  void poll(Duration patience) {
    try {
      renew();
      fetch(patience);
    } catch (TimeoutException unanswered) {
      // No broker answers. Penstock's driver, which asks them too, reports it.
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  void close() {
    Uninterrupted.close(() -> consumer.close(CLOSE_TIMEOUT));
  }

  private void open(long offset) {
    consumer = consumers.make();
    consumer.assign(List.of(partition));
    seek(offset);
  }

  private void seek(long offset) {
    consumer.seek(partition, offset);
    sought = offset;
  }

  private void renew() {
    if (consumers.isOutdated()) {
      close();
      open(Math.max(next, sought));
    }
  }

  private void fetch(Duration patience) {
    try {
      polled = consumer.poll(patience).records(partition).iterator();
    } catch (OffsetOutOfRangeException outside) {
      findLog(outside);
      return;
    }
    if (!polled.hasNext()) {
      passMarkers();
    }
  }

  private void passMarkers() {
    long reached = position();
    if (reached > sought) {
      next = reached;
    }
  }

  /** Behind the markers of transactions that it has passed since the last record. */
  private long position() {
    return consumer.position(partition, Duration.ZERO);
  }

  /**
   * Fails, or goes on with the first record that is left; as Spark's KafkaDataConsumer.get.
   *
   * <p>A log that brokers have cut is read on where it was cut, as far as that is known. Else the
   * task fails in each case: the next start finds out whether the topic is the same one, and where
   * it is read on (data_loss.py).
   */
  private void findLog(OffsetOutOfRangeException outside) {
    if (outside instanceof LogTruncationException truncated) {
      goBack(truncated);
      return;
    }
    long first = consumer.beginningOffsets(List.of(partition)).get(partition);
    long end = consumers.logEnd(partition);
    if (next > end) {
      throw lost(outside);
    }
    if (next < first) {
      reportLoss(first, end, outside);
      seek(first);
    } else {
      seek(next); // a new leader has it now
      await();
    }
  }

  private void goBack(LogTruncationException truncated) {
    OffsetAndMetadata left = truncated.divergentOffsets().get(partition);
    if (failOnDataLoss || left == null || leaderEpoch < 0) {
      throw lost(truncated);
    }
    LOG.warn(
        "Brokers have lost the records of {} from offset {} on, until before {}.",
        partition, left.offset(), next);
    cut = truncated;
    next = Math.min(next, left.offset());
    seek(next);
  }

  private RuntimeException lost(OffsetOutOfRangeException outside) {
    return failOnDataLoss ? dataLoss(outside) : outside;
  }

  private RuntimeException dataLoss(OffsetOutOfRangeException outside) {
    return KafkaExceptions.couldNotReadOffsetRange(
        next, Long.MAX_VALUE, partition, consumers.group(), outside);
  }

  private void reportLoss(long first, long end, OffsetOutOfRangeException outside) {
    if (failOnDataLoss) {
      throw dataLoss(outside);
    }
    if (reported != next) {
      reported = next;
      LOG.warn(
          "Offset {} of {} is outside of its log, which has {} to {}. Some data may be lost.",
          next, partition, first, end);
    }
  }

  private void await() {
    try {
      Thread.sleep(pause.toMillis());
    } catch (InterruptedException stopped) {
      throw Unchecked.<RuntimeException>rethrow(stopped);
    }
  }
}
