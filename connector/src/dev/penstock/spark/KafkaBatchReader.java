package dev.penstock.spark;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;

/** Reads one partition for a task of a batch: until an offset, or in real-time mode until a time. */
final class KafkaBatchReader
    implements SupportsRealTimeRead<InternalRow>, TransactionalWriter.Reader {
  private static final RecordStatus RECORD = RecordStatus.newStatusWithoutArrivalTime(true);
  private static final RecordStatus NO_RECORD = RecordStatus.newStatusWithoutArrivalTime(false);
  /** A reader that has not been at the end of its log for so long is behind, at the batch's end. */
  private static final long BEHIND_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  /** An idle task looks so often whether its batch is over. Its fetch goes on meanwhile. */
  private static final Duration LOOK = Duration.ofMillis(200);

  /**
   * Where a task of real-time mode has ended, for the driver.
   *
   * @param isBehind whether the log had more than the task could read
   * @param executor the place of its clients, as Spark's scheduler reads it
   */
  record End(TopicPartition partition, long offset, boolean isBehind, String executor)
      implements PartitionOffset {
    private static final long serialVersionUID = 1;
  }

  private final TopicPartition partition;
  private final BatchOfRun batch;
  /** The offset before which it ends, if that is known. */
  private final long until;
  private final long pollTimeoutMs;
  private final PartitionClients clients;
  private final PartitionLog log;
  private final RecordInHand inHand;
  private final RecordRow rows;
  private final long endNanos;
  /** How long it may be behind before it ends the batch. */
  private final long patienceNanos;
  private InternalRow row;
  private long atEndNanos;
  private boolean hasReadSince;
  private boolean isOver;
  /** The last batch that was known to end when this task looked. */
  private BatchOfRun ended;
  private boolean hasFailed;

  KafkaBatchReader(PlannedPartition planned, LeftOut leftOut, TaskContext task) {
    KafkaBatchInputPartition input = planned.spark();
    partition = input.offsetRange().topicPartition();
    long start = input.offsetRange().fromOffset();
    until = input.offsetRange().untilOffset();
    batch = planned.batch();
    pollTimeoutMs = input.pollTimeoutMs();
    TaskFailureListener failed = (context, failure) -> hasFailed = true;
    task.addTaskFailureListener(failed);
    TransactionalWriter writer = TransactionalWriter.ofTask(task);
    clients =
        KeptClients.take(task, partition, batch, start) instanceof PartitionClients kept
            ? kept
            : PartitionClients.open(
                partition,
                start,
                input.failOnDataLoss(),
                pollTimeoutMs,
                input.executorKafkaParams(),
                writer == null ? null : writer.asked());
    log = clients.log();
    TaskCompletionListener release = ended -> release();
    task.addTaskCompletionListener(release);
    if (writer != null) {
      writer.readBy(this);
    }
    inHand = new RecordInHand(partition, log.next(), leftOut, task);
    rows = new RecordRow(partition.topic(), input.includeHeaders());
    atEndNanos = System.nanoTime();
    endNanos = atEndNanos + planned.length().toNanos();
    boolean isShort = planned.length().compareTo(KafkaBatchStream.UNTIL_THE_END) < 0;
    patienceNanos = isShort ? Long.MAX_VALUE : KafkaBatchStream.CATCH_UP.toNanos();
  }

  /** The next record before the end of a batch whose end is known. */
  @Override
  public boolean next() {
    inHand.release();
    long waitsSince = 0;
    while (!log.hasReached(until)) {
      if (log.hasRecord()) {
        if (take()) {
          return true;
        }
        waitsSince = 0;
      } else {
        long before = log.next();
        log.poll(Duration.ofNanos(clients.patience()));
        waitsSince = waitsSince == 0 || log.next() != before ? System.nanoTime() : waitsSince;
        if (TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - waitsSince) > pollTimeoutMs) {
          throw noRecord();
        }
      }
    }
    log.passGap(until);
    return false;
  }

  @Override
  public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) {
    inHand.release();
    long now = System.nanoTime();
    long end = Math.min(endNanos, now + TimeUnit.MILLISECONDS.toNanos(timeoutMs));
    for (; now < end && !isCutShort(now); now = System.nanoTime()) {
      clients.commitIfDue();
      if (log.hasRecord()) {
        if (take()) {
          return RECORD;
        }
      } else {
        RealTimeBatches.isRead(now);
        boolean wasAtEnd = log.isAtEnd();
        long patience = Math.min(LOOK.toNanos(), clients.patience());
        log.poll(Duration.ofNanos(Math.min(end - now, patience)));
        if (wasAtEnd || !hasReadSince) {
          atEndNanos = System.nanoTime();
          hasReadSince = false;
        }
      }
    }
    return NO_RECORD;
  }

  /** It stays over, also if its next record is asked for. */
  private boolean isCutShort(long now) {
    if (hasReadSince && now - atEndNanos > patienceNanos) {
      if (!isOver) {
        RealTimeBatches.end(batch);
      }
      isOver = true;
    }
    BatchOfRun newest = RealTimeBatches.ended();
    if (newest != ended) {
      ended = newest;
      isOver |= batch.isUntil(ended);
    }
    return isOver;
  }

  private boolean take() {
    ConsumerRecord<byte[], byte[]> record = log.take();
    if (!inHand.take(record.offset())) {
      return false;
    }
    inHand.countSkipped();
    hasReadSince = true;
    row = rows.of(record);
    return true;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public PartitionOffset getOffset() {
    boolean isBehind = !log.isAtEnd() && System.nanoTime() - atEndNanos > BEHIND_NANOS;
    return new End(partition, log.next(), isBehind, executor());
  }

  @Override
  public Transaction transaction() {
    return clients.transaction();
  }

  @Override
  public void commit() {
    clients.commit();
  }

  /** Too early to let the clients go: the writer has not committed yet. */
  @Override
  public void close() {}

  private void release() {
    if (hasFailed) {
      clients.close();
    } else {
      KeptClients.keep(partition, batch, clients);
    }
  }

  private static String executor() {
    BlockManagerId here = SparkEnv.get().blockManager().blockManagerId();
    return "executor_" + here.host() + "_" + here.executorId();
  }

  private RuntimeException noRecord() {
    return Unchecked.<RuntimeException>rethrow(
        new TimeoutException(
            "No record of " + partition + " from offset " + log.next() + " on, before " + until
                + ", has come for " + pollTimeoutMs + " ms (kafkaConsumer.pollTimeoutMs)."));
  }
}
