import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A count by key in Flink, with its default state in the heap: BOOTSTRAP SOURCE SINK FOLDER. */
public final class FlinkCount {
  private FlinkCount() {}

  public static void main(String[] arguments) throws Exception {
    Configuration options = new Configuration();
    options.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
    options.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + arguments[3]);
    StreamExecutionEnvironment flink =
        StreamExecutionEnvironment.createLocalEnvironment(2, options); // as many as partitions
    flink.enableCheckpointing(1000, CheckpointingMode.AT_LEAST_ONCE); // as Penstock's batches
    flink.setBufferTimeout(0); // Flink's documentation: for the lowest latency
    flink.getConfig().enableObjectReuse(); // no copy between two operators of a chain

    KafkaSource<Tuple2<String, Long>> source =
        KafkaSource.<Tuple2<String, Long>>builder()
            .setBootstrapServers(arguments[0])
            .setTopics(arguments[1])
            .setGroupId(arguments[1] + "-count")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(new Ones())
            .build();
    KafkaSink<Tuple2<String, Long>> sink =
        KafkaSink.<Tuple2<String, Long>>builder()
            .setBootstrapServers(arguments[0])
            .setProperty("acks", "all")
            .setProperty("linger.ms", "0")
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(new ToTopic(arguments[2]))
            .build();
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "payments")
        .keyBy(payment -> payment.f0)
        .sum(1)
        .sinkTo(sink);
    flink.execute("count");
  }

  /** Each record as a one for its key. */
  private static final class Ones
      implements KafkaRecordDeserializationSchema<Tuple2<String, Long>> {
    @Override
    public void deserialize(
        ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, Long>> out) {
      out.collect(Tuple2.of(new String(record.key(), StandardCharsets.UTF_8), 1L));
    }

    @Override
    public TypeInformation<Tuple2<String, Long>> getProducedType() {
      return Types.TUPLE(Types.STRING, Types.LONG);
    }
  }

  private static final class ToTopic
      implements KafkaRecordSerializationSchema<Tuple2<String, Long>> {
    private final String topic;

    ToTopic(String topic) {
      this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
        Tuple2<String, Long> count, KafkaSinkContext context, Long timestamp) {
      byte[] key = count.f0.getBytes(StandardCharsets.UTF_8);
      byte[] value = count.f1.toString().getBytes(StandardCharsets.UTF_8);
      return new ProducerRecord<>(topic, key, value);
    }
  }
}
