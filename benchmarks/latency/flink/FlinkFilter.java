import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
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

/** The filter of examples/fraud-flags.yaml in Flink: BOOTSTRAP SOURCE SINK FOLDER. */
public final class FlinkFilter {
  private FlinkFilter() {}

  public static void main(String[] arguments) throws Exception {
    Configuration options = new Configuration();
    options.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
    options.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + arguments[3]);
    StreamExecutionEnvironment flink =
        StreamExecutionEnvironment.createLocalEnvironment(2, options); // as many as partitions
    flink.enableCheckpointing(1000, CheckpointingMode.AT_LEAST_ONCE); // as Penstock's epochs
    flink.setBufferTimeout(0); // Flink's documentation: for the lowest latency
    flink.getConfig().enableObjectReuse(); // no copy between two operators of a chain

    KafkaSource<Tuple2<byte[], byte[]>> source =
        KafkaSource.<Tuple2<byte[], byte[]>>builder()
            .setBootstrapServers(arguments[0])
            .setTopics(arguments[1])
            .setGroupId(arguments[1] + "-filter")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(new Bytes())
            .build();
    String topic = arguments[2];
    KafkaSink<Tuple2<byte[], byte[]>> sink =
        KafkaSink.<Tuple2<byte[], byte[]>>builder()
            .setBootstrapServers(arguments[0])
            .setProperty("acks", "all")
            .setProperty("linger.ms", "0")
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(new ToTopic(topic))
            .build();
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "payments")
        .filter(new Flagged())
        .sinkTo(sink);
    flink.execute("fraud-flags");
  }

  private static final class Flagged implements FilterFunction<Tuple2<byte[], byte[]>> {
    private static final ObjectMapper JSON = new ObjectMapper();

    @Override
    public boolean filter(Tuple2<byte[], byte[]> record) {
      try {
        return JSON.readTree(record.f1).path("paymentId").asLong() % 10 == 3;
      } catch (IOException error) {
        return false;
      }
    }
  }

  private static final class Bytes
      implements KafkaRecordDeserializationSchema<Tuple2<byte[], byte[]>> {
    @Override
    public void deserialize(
        ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<byte[], byte[]>> out) {
      out.collect(Tuple2.of(record.key(), record.value()));
    }

    @Override
    public TypeInformation<Tuple2<byte[], byte[]>> getProducedType() {
      return Types.TUPLE(
          Types.PRIMITIVE_ARRAY(Types.BYTE), Types.PRIMITIVE_ARRAY(Types.BYTE));
    }
  }

  private static final class ToTopic
      implements KafkaRecordSerializationSchema<Tuple2<byte[], byte[]>> {
    private final String topic;

    ToTopic(String topic) {
      this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
        Tuple2<byte[], byte[]> record, KafkaSinkContext context, Long timestamp) {
      return new ProducerRecord<>(topic, record.f0, record.f1);
    }
  }
}
