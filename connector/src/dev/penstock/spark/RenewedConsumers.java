package dev.penstock.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Consumers with Spark's parameters, each with the delegation token that is the newest then. */
final class RenewedConsumers implements PartitionLog.Consumers {
  private final ClientParameters clients;
  private Map<String, Object> parameters;

  RenewedConsumers(ClientParameters clients) {
    this.clients = clients;
  }

  @Override
  public Consumer<byte[], byte[]> make() {
    parameters = clients.build();
    return new KafkaConsumer<>(parameters);
  }

  @Override
  public boolean isOutdated() {
    return clients.areOutdated(parameters);
  }

  @Override
  public long logEnd(TopicPartition partition) {
    return logEnds(parameters, Set.of(partition)).get(partition);
  }

  /** The end of each partition's log, also where a reader with these parameters ends before. */
  static Map<TopicPartition, Long> logEnds(
      Map<String, Object> parameters, Set<TopicPartition> partitions) {
    Map<String, Object> reader = new HashMap<>(parameters);
    reader.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted");
    try (Consumer<byte[], byte[]> asking =
        new RenewedConsumers(new ClientParameters(reader)).make()) {
      return asking.endOffsets(partitions);
    }
  }

  @Override
  public String group() {
    return (String) parameters.get(ConsumerConfig.GROUP_ID_CONFIG);
  }
}
