package dev.penstock.spark;

import java.sql.Timestamp;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.kafka010.KafkaContinuousInputPartition;
import org.apache.spark.sql.kafka010.KafkaExceptions;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.apache.spark.sql.kafka010.KafkaSourcePartitionOffset;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads one partition for a task, with a consumer of its own, which seeks once and then only polls.
 *
 * <p>Spark's reader asks for the first and the last offset after each poll, before it hands the
 * records over; both questions wait behind the next fetch. They are needed only for lost records,
 * and there the broker's answer says as much: with {@code auto.offset.reset=none}, which Spark sets,
 * an offset outside of the log is an OffsetOutOfRangeException. A gap between two records is no
 * loss: it is compaction, an aborted record or the marker of a transaction.
 */
final class KafkaPartitionReader {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaPartitionReader.class);
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(2);
  private static final ThreadLocal<KafkaPartitionReader> OF_THREAD = new ThreadLocal<>();

  private final KafkaContinuousInputPartition input;
  private final TopicPartition partition;
  private final Duration pollTimeout;
  private final TaskContext task;
  private final EpochFollower epoch;
  private final SpecificInternalRow row;
  private final UTF8String topic;
  private final ClientParameters clients;
  /** Null if the query writes at least once. */
  private final Transaction transaction;

  private Map<String, Object> parameters;
  private KafkaConsumer<byte[], byte[]> consumer;
  private Iterator<ConsumerRecord<byte[], byte[]>> polled = Collections.emptyIterator();
  private ConsumerRecord<byte[], byte[]> record;
  /** The offset after the last record. It passes a transaction's marker that no record follows. */
  private long next;
  /** Where the consumer was last told to read. */
  private long sought;
  /** The last offset that was reported as lost. */
  private long reported = -1;

  KafkaPartitionReader(
      KafkaContinuousInputPartition input,
      Transactions transactions,
      TaskContext task,
      long epochPollMs) {
    this.input = input;
    this.task = task;
    partition = input.topicPartition();
    pollTimeout = Duration.ofMillis(input.pollTimeoutMs());
    row = new SpecificInternalRow(KafkaRecordToRowConverter.kafkaSchema(input.includeHeaders()));
    topic = UTF8String.fromString(partition.topic());
    TaskCompletionListener close = ended -> close();
    task.addTaskCompletionListener(close);
    try {
      if (transactions == null) {
        transaction = null;
        clients = new ClientParameters(input.kafkaParams());
        open(input.startOffset());
      } else {
        // In this order: nobody else can commit the partition's offset any more when it is read.
        transaction = new Transaction(transactions, partition);
        clients = new ClientParameters(transactions.consumer(input.kafkaParams()));
        open(input.startOffset());
        seek(Math.max(input.startOffset(), committedOffset()));
      }
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
    next = sought;
    epoch = new EpochFollower(task, epochPollMs);
    OF_THREAD.set(this);
  }

  /** The reader of the task that this thread runs; null if that reads something else. */
  static KafkaPartitionReader ofThread() {
    return OF_THREAD.get();
  }

  /** The record that was read last, and none after it has been; null before the first. */
  ConsumerRecord<byte[], byte[]> last() {
    return record;
  }

  /**
   * The next record of the epoch, in a row that is used again; null at the epoch's end, and when
   * the task shall end. Waits for one of them.
   */
  InternalRow next() {
    while (!task.isInterrupted() && !task.isCompleted() && !epoch.isOver()) {
      if (transaction != null && transaction.left() <= 0) {
        commit();
      }
      if (polled.hasNext()) {
        record = polled.next();
        next = record.offset() + 1;
        return row(record);
      }
      try {
        poll();
      } catch (TimeoutException unanswered) {
        // No broker answers. Penstock's driver, which asks them too, reports it.
      } catch (InterruptException stopped) {
        throw Unchecked.interrupted();
      }
    }
    epoch.end(new KafkaSourcePartitionOffset(partition, next));
    return null;
  }

  /** What the records so far are written in; null if the query writes at least once. */
  Transaction transaction() {
    return transaction;
  }

  /** Commits what was written of the records so far: of all of them, or a restart loses some. */
  void commit() {
    try {
      transaction.commit(next);
    } catch (InterruptException stopped) {
      throw Unchecked.interrupted();
    }
  }

  private long committedOffset() {
    var committed = consumer.committed(Set.of(partition)).get(partition);
    return committed == null ? 0 : committed.offset();
  }

  private InternalRow row(ConsumerRecord<byte[], byte[]> record) {
    row.update(0, record.key());
    row.update(1, record.value());
    row.update(2, topic);
    row.setInt(3, record.partition());
    row.setLong(4, record.offset());
    row.setLong(5, timestamp(record));
    row.setInt(6, record.timestampType().id);
    if (input.includeHeaders()) {
      row.update(7, headers(record.headers()));
    }
    return row;
  }

  private void close() {
    OF_THREAD.remove();
    // An interrupted thread would not close the connections.
    boolean interrupted = Thread.interrupted();
    if (consumer != null) {
      consumer.close(CLOSE_TIMEOUT);
    }
    if (transaction != null) {
      transaction.close();
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void open(long offset) {
    parameters = clients.build();
    consumer = new KafkaConsumer<>(parameters);
    consumer.assign(List.of(partition));
    seek(offset);
  }

  private void seek(long offset) {
    consumer.seek(partition, offset);
    sought = offset;
  }

  private void poll() {
    if (clients.areOutdated(parameters)) {
      consumer.close(CLOSE_TIMEOUT);
      open(Math.max(next, sought));
    }
    try {
      polled = consumer.poll(patience()).records(partition).iterator();
    } catch (OffsetOutOfRangeException outside) {
      findLog(outside);
      return;
    }
    if (!polled.hasNext()) {
      long reached = consumer.position(partition, Duration.ZERO);
      if (reached > sought) {
        next = reached;
      }
    }
  }

  private Duration patience() {
    long nanos = Math.min(pollTimeout.toNanos(), epoch.patience());
    return Duration.ofNanos(transaction == null ? nanos : Math.min(nanos, transaction.left()));
  }

  /** Fails, or goes on with the first record that is left; as Spark's KafkaDataConsumer.get. */
  private void findLog(OffsetOutOfRangeException outside) {
    long first = consumer.beginningOffsets(List.of(partition)).get(partition);
    long end = consumer.endOffsets(List.of(partition)).get(partition);
    if (next < first || next > end) {
      reportLoss(next, first, end, outside);
    }
    if (next < first) {
      seek(first);
    } else {
      // A new leader has it now, or the topic was created again: until its log reaches the offset.
      seek(next);
      await();
    }
  }

  private void reportLoss(long next, long first, long end, OffsetOutOfRangeException outside) {
    if (input.failOnDataLoss()) {
      String group = (String) parameters.get(ConsumerConfig.GROUP_ID_CONFIG);
      throw KafkaExceptions.couldNotReadOffsetRange(
          next, Long.MAX_VALUE, partition, group, outside);
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
      Thread.sleep(pollTimeout.toMillis());
    } catch (InterruptedException stopped) {
      throw new InterruptException(stopped);
    }
  }

  private static long timestamp(ConsumerRecord<byte[], byte[]> record) {
    try {
      return DateTimeUtils.fromJavaTimestamp(new Timestamp(record.timestamp()));
    } catch (ArithmeticException tooLarge) {
      throw KafkaExceptions.kafkaMalformedRecordTimestamp(
          record.topic(), record.partition(), record.offset(), record.timestamp(), tooLarge);
    }
  }

  private static GenericArrayData headers(Headers headers) {
    if (!headers.iterator().hasNext()) {
      return null;
    }
    return new GenericArrayData(
        StreamSupport.stream(headers.spliterator(), false)
            .map(KafkaPartitionReader::header)
            .toArray());
  }

  private static GenericInternalRow header(Header header) {
    return new GenericInternalRow(
        new Object[] {UTF8String.fromString(header.key()), header.value()});
  }
}
