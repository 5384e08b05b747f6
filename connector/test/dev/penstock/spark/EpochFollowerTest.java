package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkException;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcTimeout;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.streaming.continuous.CommitPartitionEpoch;
import org.apache.spark.sql.execution.streaming.continuous.EpochTracker;
import org.apache.spark.sql.execution.streaming.continuous.GetCurrentEpoch$;
import org.apache.spark.sql.execution.streaming.continuous.ReportPartitionOffset;
import org.apache.spark.sql.kafka010.KafkaSourcePartitionOffset;
import org.junit.jupiter.api.Test;
import scala.concurrent.Future;
import scala.concurrent.Promise;
import scala.reflect.ClassTag;

/** Beside the continuous queries of test_penstock_kafka.py: here the driver answers late, or not. */
final class EpochFollowerTest {
  private static final long NEVER_MS = 3_600_000;
  private static final PartitionOffset OFFSET =
      new KafkaSourcePartitionOffset(new TopicPartition("payments", 3), 41);

  private static final WriterCommitMessage WRITTEN = new WriterCommitMessage() {};

  /** Answers when the test says so. */
  private static final class Coordinator extends RpcEndpointRef {
    private static final long serialVersionUID = 1;

    private final transient List<Promise<Object>> asked = new ArrayList<>();
    private final transient List<Object> sent = new ArrayList<>();

    Coordinator() {
      super(new SparkConf(false));
    }

    @Override
    @SuppressWarnings("unchecked") // the type of the answer is the caller's
    public <T> Future<T> ask(Object question, RpcTimeout timeout, ClassTag<T> type) {
      assertEquals(GetCurrentEpoch$.MODULE$, question);
      asked.add(scala.concurrent.Promise$.MODULE$.apply());
      return (Future<T>) newest().future();
    }

    Promise<Object> newest() {
      return asked.get(asked.size() - 1);
    }

    @Override
    public void send(Object message) {
      sent.add(message);
    }

    @Override
    public RpcAddress address() {
      return new RpcAddress("127.0.0.1", 1);
    }

    @Override
    public String name() {
      return "coordinator";
    }
  }

  private final Coordinator coordinator = new Coordinator();

  private EpochFollower inEpoch(long epoch, long intervalMs) {
    return new EpochFollower(3, epoch, coordinator, intervalMs);
  }

  @Test
  void anEpochIsNotOverBeforeTheDriverHasAnswered() {
    EpochFollower epoch = inEpoch(5, 0);
    for (int look = 0; look < 3; look++) {
      assertFalse(epoch.isOver());
    }
    assertEquals(1, coordinator.asked.size(), "one question at a time");
  }

  @Test
  void anEpochThatTheDriverIsInIsNotOver() {
    EpochFollower epoch = inEpoch(5, NEVER_MS);
    coordinator.newest().success(5L);
    assertFalse(epoch.isOver());
    assertFalse(epoch.isOver());
    assertEquals(1, coordinator.asked.size(), "not again before the interval is over");
  }

  @Test
  void itAsksAgainWhenTheIntervalIsOver() {
    EpochFollower epoch = inEpoch(5, 0);
    coordinator.newest().success(5L);
    assertFalse(epoch.isOver());
    assertEquals(2, coordinator.asked.size());
    coordinator.newest().success(6L);
    assertTrue(epoch.isOver());
  }

  /** The time of a transaction may have run out since the last look. */
  @Test
  void aTaskNeverWaitsForLessThanNoTime() {
    EpochFollower asked = inEpoch(5, NEVER_MS);
    assertEquals(3, asked.patience(3));
    assertEquals(0, asked.patience(-3));
    coordinator.newest().success(5L);
    assertFalse(asked.isOver());
    assertEquals(0, asked.patience(-3));
  }

  @Test
  void aTaskThatIsBehindEndsOneEpochAfterTheOther() {
    EpochTracker.initializeCurrentEpoch(5);
    EpochFollower epoch = inEpoch(5, NEVER_MS);
    coordinator.newest().success(7L);
    for (int ended = 5; ended < 7; ended++) {
      assertTrue(epoch.isOver());
      epoch.end(OFFSET);
      EpochTracker.incrementCurrentEpoch(); // as Spark's writer at each epoch's end
    }
    assertFalse(epoch.isOver());
    assertEquals(
        List.of(new ReportPartitionOffset(3, 5, OFFSET), new ReportPartitionOffset(3, 6, OFFSET)),
        coordinator.sent);
  }

  @Test
  void whatIsCommittedIsTheEpochThatWasWritten() {
    EpochTracker.initializeCurrentEpoch(5);
    EpochFollower epoch = inEpoch(5, NEVER_MS);
    coordinator.newest().success(6L);
    epoch.end(OFFSET);
    epoch.commit(WRITTEN);
    assertFalse(epoch.isOver());
    assertEquals(6L, EpochTracker.getCurrentEpoch().get());
    assertEquals(
        List.of(new ReportPartitionOffset(3, 5, OFFSET), new CommitPartitionEpoch(3, 5, WRITTEN)),
        coordinator.sent);
  }

  /** At a stop the coordinator ends before the tasks do. */
  @Test
  void anAnswerThatFailsIsAskedForAgain() {
    EpochFollower epoch = inEpoch(5, 0);
    coordinator.newest().failure(new SparkException("the coordinator has ended"));
    assertFalse(epoch.isOver());
    coordinator.newest().success(6L);
    assertTrue(epoch.isOver());
  }
}
