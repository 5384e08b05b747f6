package dev.penstock.spark;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * How a query writes each record exactly once.
 *
 * @param idPrefix of the transactional ids: each partition of the source has one
 * @param group the consumer group that keeps the source's offsets
 * @param intervalMs how long a transaction is open, in milliseconds, at most until its epoch ends
 * @param producer the parameters of the producers
 */
record TransactionOptions(
    String idPrefix, String group, long intervalMs, HashMap<String, Object> producer)
    implements Serializable {
  private static final String ID_PREFIX = "transactionalIdPrefix";
  private static final String GROUP = "transactionGroup";
  private static final String INTERVAL = "transactionIntervalMs";

  /** What the options of a sink ask for; null if they ask for nothing. */
  static TransactionOptions of(CaseInsensitiveStringMap options, Map<String, Object> producer) {
    String prefix = options.get(ID_PREFIX);
    if (prefix == null) {
      return null;
    }
    return new TransactionOptions(
        prefix,
        options.getOrDefault(GROUP, prefix),
        options.getLong(INTERVAL, 100),
        new HashMap<>(producer));
  }

  /** For a query that may have read records whose results it has not written yet. */
  TransactionOptions onlyAtEpochs() {
    return new TransactionOptions(idPrefix, group, Long.MAX_VALUE, producer);
  }

  Map<String, Object> producerFor(TopicPartition source) {
    Map<String, Object> parameters = new HashMap<>(producer);
    parameters.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, idPrefix + "/" + source);
    return parameters;
  }

  Map<String, Object> consumer(Map<String, Object> given) {
    Map<String, Object> parameters = new HashMap<>(given);
    parameters.put(ConsumerConfig.GROUP_ID_CONFIG, group);
    return parameters;
  }

  /** Refuses a source in another cluster: its offsets would be kept where nobody looks. */
  void requireClusterOf(Map<String, Object> consumer) {
    String servers = CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG;
    if (!consumer.get(servers).equals(producer.get(servers))
        && !clusterId(consumer).equals(clusterId(producer))) {
      throw refusal("the source is in another Kafka cluster than the sink.");
    }
  }

  private static String clusterId(Map<String, Object> client) {
    try (Admin admin = Admin.create(new ClientParameters(client).build())) {
      return admin.describeCluster().clusterId().get();
    } catch (ExecutionException failed) {
      throw Unchecked.<RuntimeException>rethrow(failed.getCause());
    } catch (InterruptedException stopped) {
      throw Unchecked.<RuntimeException>rethrow(stopped);
    }
  }

  static IllegalArgumentException refusal(String reason) {
    return new IllegalArgumentException(
        "With " + ID_PREFIX + ", " + KafkaProvider.NAME + " writes exactly once: " + reason);
  }
}
