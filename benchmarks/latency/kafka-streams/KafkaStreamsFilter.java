import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** The filter of examples/fraud-flags.yaml in Kafka Streams: BOOTSTRAP SOURCE SINK FOLDER. */
public final class KafkaStreamsFilter {
  private static final ObjectMapper JSON = new ObjectMapper();

  private KafkaStreamsFilter() {}

  public static void main(String[] arguments) throws InterruptedException {
    Properties options = new Properties();
    options.put("application.id", arguments[1] + "-filter");
    options.put("bootstrap.servers", arguments[0]);
    options.put("state.dir", arguments[3]);
    options.put("num.stream.threads", "2"); // one for each partition
    options.put("commit.interval.ms", "1000"); // as often as Penstock's epochs
    options.put("consumer.auto.offset.reset", "earliest");
    options.put("producer.acks", "all");
    options.put("producer.linger.ms", "0"); // Kafka Streams' default is 100

    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(arguments[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .filter((key, value) -> flagged(value))
        .to(arguments[2], Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    KafkaStreams streams = new KafkaStreams(builder.build(), options);
    CountDownLatch ended = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  streams.close();
                  ended.countDown();
                }));
    streams.start();
    ended.await();
  }

  private static boolean flagged(byte[] payment) {
    try {
      return JSON.readTree(payment).path("paymentId").asLong() % 10 == 3;
    } catch (java.io.IOException error) {
      return false;
    }
  }
}
