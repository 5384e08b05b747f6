package dev.penstock.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ContinuousStream;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.kafka010.KafkaWrite;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The data source {@code penstock-kafka}: Spark's {@code kafka} with other readers, another writer in
 * continuous mode, and with transactions. In each mode a failure says which record the task had in
 * hand.
 *
 * <p>Options, validation, planning, schema and the offsets in the checkpoint are Spark's own,
 * because its classes are extended.
 */
public final class KafkaProvider extends KafkaSourceProvider {
  static final String NAME = "penstock-kafka";
  private static final String CLIENT_PREFIX = "kafka.";

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public KafkaTable getTable(CaseInsensitiveStringMap options) {
    return new PenstockTable(
        this, options.getBoolean("includeHeaders", false), LeftOut.of(options));
  }

  private static final class PenstockTable extends KafkaTable {
    private final KafkaSourceProvider provider;
    private final LeftOut leftOut;

    PenstockTable(KafkaSourceProvider provider, boolean includeHeaders, LeftOut leftOut) {
      provider.super(includeHeaders);
      this.provider = provider;
      this.leftOut = leftOut;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new PenstockScan(provider, options, leftOut);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new PenstockWriteBuilder(super.newWriteBuilder(info), info.options());
    }
  }

  private static final class PenstockScan extends KafkaScan {
    private final CaseInsensitiveStringMap options;
    private final LeftOut leftOut;

    PenstockScan(
        KafkaSourceProvider provider, CaseInsensitiveStringMap options, LeftOut leftOut) {
      provider.super(options);
      this.options = options;
      this.leftOut = leftOut;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      var spark = (KafkaMicroBatchStream) super.toMicroBatchStream(checkpointLocation);
      return new KafkaBatchStream(spark, leftOut, mayDivide(), new BatchEnds(this::logEnds));
    }

    private Map<TopicPartition, Long> logEnds(Set<TopicPartition> partitions) {
      Map<String, String> given = new HashMap<>();
      options.forEach(
          (name, value) -> {
            if (name.startsWith(CLIENT_PREFIX)) { // in lower case
              given.put(name.substring(CLIENT_PREFIX.length()), value);
            }
          });
      var asked = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(given));
      return RenewedConsumers.logEnds(KafkaSourceProvider.kafkaParamsForDriver(asked), partitions);
    }

    private boolean mayDivide() {
      return options.containsKey("minPartitions") || options.containsKey("maxRecordsPerPartition");
    }

    @Override
    public ContinuousStream toContinuousStream(String checkpointLocation) {
      return new KafkaStream(super.toContinuousStream(checkpointLocation), leftOut);
    }
  }

  private record PenstockWriteBuilder(WriteBuilder spark, CaseInsensitiveStringMap options)
      implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
    @Override
    public WriteBuilder truncate() {
      return this;
    }

    @Override
    public Write build() {
      KafkaWrite write = (KafkaWrite) spark.build();
      return new PenstockWrite(write, TransactionOptions.of(options, write.producerParams()));
    }
  }

  private static final class PenstockWrite extends KafkaWrite {
    private static final long serialVersionUID = 1;

    private final TransactionOptions transactions;

    PenstockWrite(KafkaWrite spark, TransactionOptions transactions) {
      super(spark.topic(), spark.producerParams(), spark.schema());
      this.transactions = transactions;
    }

    @Override
    public BatchWrite toBatch() {
      if (transactions != null) {
        throw TransactionOptions.refusal("a batch cannot do that, only a stream can.");
      }
      return super.toBatch();
    }

    @Override
    public StreamingWrite toStreaming() {
      return new KafkaStreamWrite(this, transactions);
    }
  }
}
