package dev.penstock.spark;

import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;

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
  public String group() {
    return (String) parameters.get(ConsumerConfig.GROUP_ID_CONFIG);
  }
}
