package dev.penstock.spark;

import java.util.stream.IntStream;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.streaming.continuous.ContinuousExecution;
import org.apache.spark.sql.execution.streaming.continuous.ContinuousTaskRetryException;
import org.apache.spark.sql.execution.streaming.continuous.SetReaderPartitions;
import org.apache.spark.sql.kafka010.KafkaContinuousInputPartition;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.reflect.ClassTag$;

/**
 * The records of a continuous query, read in the threads of its tasks.
 *
 * <p>It is Spark's ContinuousDataSourceRDD without the thread that reads, the queue behind it and
 * the copies between them. Spark calls compute for each epoch that it ends itself; what is read goes
 * on.
 */
final class KafkaRdd extends RDD<InternalRow> {
  private static final long serialVersionUID = 1;

  private final transient InputPartition[] inputs;
  private final TransactionOptions transactions;
  private final LeftOut leftOut;
  private final long epochPollMs;

  KafkaRdd(
      SparkContext context,
      InputPartition[] inputs,
      TransactionOptions transactions,
      LeftOut leftOut,
      long epochPollMs) {
    super(context, KafkaScanStrategy.seq(Nil$.MODULE$), ClassTag$.MODULE$.apply(InternalRow.class));
    this.inputs = inputs;
    this.transactions = transactions;
    this.leftOut = leftOut;
    this.epochPollMs = epochPollMs;
  }

  @Override
  public Partition[] getPartitions() {
    String query = sparkContext().getLocalProperty(ContinuousExecution.EPOCH_COORDINATOR_ID_KEY());
    EpochFollower.coordinator(query)
        .askSync(new SetReaderPartitions(inputs.length), ClassTag$.MODULE$.Unit());
    return IntStream.range(0, inputs.length)
        .mapToObj(index -> new Split(index, (KafkaContinuousInputPartition) inputs[index]))
        .toArray(Partition[]::new);
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext task) {
    if (task.attemptNumber() != 0) {
      throw Unchecked.<RuntimeException>rethrow(new ContinuousTaskRetryException());
    }
    Split split = (Split) partition;
    if (split.reader == null) {
      split.reader =
          new KafkaPartitionReader(split.input, transactions, leftOut, task, epochPollMs);
    }
    return new Epoch(split.reader);
  }

  private static final class Split implements Partition {
    private static final long serialVersionUID = 1;

    private final int index;
    private final KafkaContinuousInputPartition input;
    /** Of the task, for all of its epochs. */
    private transient KafkaPartitionReader reader;

    Split(int index, KafkaContinuousInputPartition input) {
      this.index = index;
      this.input = input;
    }

    @Override
    public int index() {
      return index;
    }

    @Override
    public int hashCode() {
      return index;
    }

    @Override
    public boolean equals(Object other) {
      return this == other;
    }
  }

  private static final class Epoch extends AbstractIterator<InternalRow> {
    private final KafkaPartitionReader reader;
    private boolean isOver;
    private InternalRow ahead;

    Epoch(KafkaPartitionReader reader) {
      this.reader = reader;
    }

    @Override
    public boolean hasNext() {
      if (ahead == null && !isOver) {
        ahead = reader.next();
        isOver = ahead == null;
      }
      return !isOver;
    }

    @Override
    public InternalRow next() {
      InternalRow row = hasNext() ? ahead : null;
      ahead = null;
      return row;
    }
  }
}
