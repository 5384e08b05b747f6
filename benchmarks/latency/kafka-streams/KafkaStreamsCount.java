import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A count by key in Kafka Streams: BOOTSTRAP SOURCE SINK FOLDER.
 *
 * <p>The source's partitions are those of the key, so no record passes a repartition topic.
 */
public final class KafkaStreamsCount {
  private KafkaStreamsCount() {}

  public static void main(String[] arguments) throws InterruptedException {
    Properties options = new Properties();
    options.put("application.id", arguments[1] + "-count");
    options.put("bootstrap.servers", arguments[0]);
    options.put("state.dir", arguments[3]);
    options.put("num.stream.threads", "2"); // one for each partition
    options.put("commit.interval.ms", "1000"); // as often as Penstock's batches
    options.put("statestore.cache.max.bytes", "0"); // or a count waits for the commit
    options.put("consumer.auto.offset.reset", "earliest");
    options.put("producer.acks", "all");
    options.put("producer.linger.ms", "0"); // Kafka Streams' default is 100

    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
        .groupByKey()
        .count()
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
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
}
