package dev.penstock.spark;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * A producer with a transactional id. Whoever asks for the id last has it: Kafka aborts what the
 * owner before has left open, and refuses its later requests.
 */
final class TransactionalProducer {
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(2);

  private final ClientParameters clients;
  private Map<String, Object> parameters;
  private KafkaProducer<byte[], byte[]> kafka;

  TransactionalProducer(Map<String, Object> given) {
    clients = new ClientParameters(given);
    connect();
  }

  KafkaProducer<byte[], byte[]> kafka() {
    return kafka;
  }

  /** Those that it was made with. */
  Map<String, Object> parameters() {
    return parameters;
  }

  /**
   * Makes it anew if there is a newer token, and returns whether it did. That takes the id from a
   * task that has followed this one, if it was frozen.
   */
  boolean renew() {
    if (!clients.areOutdated(parameters)) {
      return false;
    }
    close();
    connect();
    return true;
  }

  /** Aborts what is open. */
  void close() {
    Uninterrupted.close(() -> kafka.close(CLOSE_TIMEOUT));
  }

  private void connect() {
    parameters = clients.build();
    kafka = new KafkaProducer<>(parameters);
    try {
      kafka.initTransactions();
    } catch (RuntimeException failed) {
      close();
      throw failed;
    }
  }
}
