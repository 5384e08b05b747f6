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
 * @param idPrefix of the transactional ids: each partition of the source, or each task, has one
 * @param group the consumer group that keeps the source's offsets
 * @param intervalMs how long a transaction is open, in milliseconds, at most until its epoch ends
 * @param batchesAt where the tasks keep the number of their newest batch; null if each keeps the
 *     offset of the partition that it has read
 * @param batchTasks how many tasks write a batch
 * @param producer the parameters of the producers
 */
record TransactionOptions(
    String idPrefix,
    String group,
    long intervalMs,
    TopicPartition batchesAt,
    int batchTasks,
    HashMap<String, Object> producer)
    implements Serializable {
  private static final String ID_PREFIX = "transactionalIdPrefix";
  private static final String GROUP = "transactionGroup";
  private static final String INTERVAL = "transactionIntervalMs";
  private static final String BATCHES_AT = "transactionBatchesAt";
  private static final String BATCH_TASKS = "transactionBatchTasks";

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
        partition(options.get(BATCHES_AT)),
        options.getInt(BATCH_TASKS, 0),
        new HashMap<>(producer));
  }

  private static TopicPartition partition(String name) {
    if (name == null) {
      return null;
    }
    int dash = name.lastIndexOf('-');
    return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
  }

  /** Whether a task writes a batch whole or not at all, whatever it has read. */
  boolean areOfBatches() {
    return batchesAt != null;
  }

  /** For a query that may have read records whose results it has not written yet. */
  TransactionOptions onlyAtEpochs() {
    return new TransactionOptions(idPrefix, group, Long.MAX_VALUE, batchesAt, batchTasks, producer);
  }

  /** Refuses another number of tasks: each would take what another has written for its own. */
  void requireTasks(int tasks) {
    if (tasks != batchTasks) {
      throw refusal(
          tasks + " tasks would write a batch, and its parts are those of the " + batchTasks
              + " partitions of the state.");
    }
  }

  /** The transactional id of the tasks that read a partition of the source. */
  String idOf(TopicPartition source) {
    return idPrefix + "/" + source;
  }

  /** That of a task of each batch, and its group. No topic has a slash in its name. */
  String idOf(int task) {
    return idPrefix + "/batches/" + task;
  }

  Map<String, Object> producerFor(String id) {
    Map<String, Object> parameters = new HashMap<>(producer);
    parameters.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
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
