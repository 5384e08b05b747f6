package dev.penstock.spark.driver;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.ToLongFunction;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Answers the driver's questions to Kafka's brokers (driver/kafka/admin.py).
 *
 * <p>Lists and maps are JSON, so a question is one call into the JVM, however many partitions it
 * asks for; offsets are {@code {topic: {partition: offset}}}. Not thread-safe. A call may block
 * while it resolves names. It throws Kafka's exceptions, within ExecutionException.
 */
public final class KafkaAdmin implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String TRANSACTION_LOG = "__transaction_state";
  private static final String LEAST_IN_SYNC = "min.insync.replicas";
  // Each of them has the time of one call from the moment when the first one begins.
  private static final int FENCED_TOGETHER = 100;
  // ListOffsetsResponse.UNKNOWN_OFFSET
  private static final long NO_RECORD = -1;

  private final Admin client;
  private final IsolationLevel isolation;
  private final long timeoutMs;

  /** {@code options} are those of Kafka's clients, by name. */
  public KafkaAdmin(String options, long timeoutMs) {
    this(read(options, new TypeReference<Map<String, Object>>() {}), timeoutMs);
  }

  private KafkaAdmin(Map<String, Object> options, long timeoutMs) {
    this(Admin.create(options), isolation(options), timeoutMs);
  }

  KafkaAdmin(Admin client, IsolationLevel isolation, long timeoutMs) {
    this.client = client;
    this.isolation = isolation;
    this.timeoutMs = timeoutMs;
  }

  private static IsolationLevel isolation(Map<String, Object> options) {
    Object level = options.getOrDefault("isolation.level", "read_uncommitted");
    return IsolationLevel.valueOf(level.toString().toUpperCase(Locale.ROOT));
  }

  /** The names that a regular expression matches as a whole, sorted. */
  public static String matching(String pattern, String names) {
    return write(matching(pattern, strings(names)));
  }

  /** The topics that there are and whose names a regular expression matches, as Spark does. */
  public String topicsMatching(String pattern) throws Exception {
    return write(matching(pattern, answer(client.listTopics().names())));
  }

  /** The id and the number of partitions of each topic that exists, by name. */
  public String topics(String names) throws Exception {
    Map<String, Map<String, Object>> found = new TreeMap<>();
    Map<String, KafkaFuture<TopicDescription>> asked =
        client.describeTopics(strings(names)).topicNameValues();
    for (String name : asked.keySet()) {
      try {
        TopicDescription topic = description(name, asked);
        found.put(
            name,
            Map.of("id", topic.topicId().toString(), "partitions", topic.partitions().size()));
      } catch (ExecutionException error) {
        if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
          throw error;
        }
      }
    }
    return write(found);
  }

  /** The copies of the partition with the fewest ({@code assigned}), and those in sync needed. */
  public String replicas(String topic) throws Exception {
    long assigned = fewest(described(topic), partition -> partition.replicas().size());
    return write(Map.of("assigned", assigned, "needed", leastInSync(topic)));
  }

  /** The log of transactions: its copies in sync, or else the brokers, and how many it needs. */
  public String transactionLog() throws Exception {
    try {
      long inSync = fewest(described(TRANSACTION_LOG), partition -> partition.isr().size());
      return log(true, inSync, leastInSync(TRANSACTION_LOG));
    } catch (ExecutionException error) {
      if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
        throw error;
      }
      int factor = number(brokerSetting("transaction.state.log.replication.factor"));
      return log(false, brokers().size(), factor);
    }
  }

  /** Whether the client's user may write to a topic, as far as the broker says it. */
  public boolean mayWrite(String topic) throws Exception {
    DescribeTopicsOptions options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
    Map<String, KafkaFuture<TopicDescription>> asked =
        client.describeTopics(List.of(topic), options).topicNameValues();
    return allows(description(topic, asked).authorizedOperations(), AclOperation.WRITE);
  }

  /** Where each partition ends for a reader with the source's isolation level. */
  public String newest(String partitions) throws Exception {
    return write(offsets(partitions, OffsetSpec.latest(), isolation));
  }

  /** Where each partition's log ends (its high watermark), whoever may read up to there. */
  public String logEnds(String partitions) throws Exception {
    return write(offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED));
  }

  /** The offset of the first record that each partition still has, or of its next one. */
  public String earliest(String partitions) throws Exception {
    return write(offsets(partitions, OffsetSpec.earliest(), isolation));
  }

  /** The offset of each partition's first record of this time or a later one; else its end. */
  public String atTime(String partitions, long timestampMs) throws Exception {
    // The ends first, or a record that comes now is skipped.
    var ends = offsets(partitions, OffsetSpec.latest(), isolation);
    return write(
        endsWhereNone(
            ends, offsets(partitions, OffsetSpec.forTimestamp(timestampMs), isolation)));
  }

  /** The setting of one of the brokers, as text; null if they do not know it. */
  public String brokerSetting(String name) throws Exception {
    return setting(ConfigResource.Type.BROKER, brokers().iterator().next().idString(), name);
  }

  public String clusterId() throws Exception {
    return answer(client.describeCluster().clusterId());
  }

  /**
   * Aborts what these ids have left open, and refuses what their producers still send.
   *
   * <p>With one call for each: in a call for several, Kafka's client pauses after each id of a
   * broker, also after a success, from 0.1 s up to 1 s (AdminApiDriver, kafka-clients 3.9): 16 ids
   * of one broker took longer than the call may (measured).
   */
  public void fence(String transactionalIds) throws Exception {
    List<String> ids = strings(transactionalIds);
    for (int first = 0; first < ids.size(); first += FENCED_TOGETHER) {
      List<KafkaFuture<Void>> calls = new ArrayList<>();
      for (String id : ids.subList(first, Math.min(ids.size(), first + FENCED_TOGETHER))) {
        calls.add(client.fenceProducers(List.of(id)).all());
      }
      for (KafkaFuture<Void> call : calls) {
        answer(call);
      }
    }
  }

  /** Whether this client may commit offsets of a consumer group, which need not exist. */
  public boolean mayCommit(String group) throws Exception {
    DescribeConsumerGroupsOptions options =
        new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
    var asked = client.describeConsumerGroups(List.of(group), options).describedGroups();
    return allows(answer(asked.get(group)).authorizedOperations(), AclOperation.READ);
  }

  /** The offsets of a consumer group, without those of transactions that are not over. */
  public String committed(String group) throws Exception {
    Map<String, Map<Integer, Long>> offsets = new TreeMap<>();
    ListConsumerGroupOffsetsOptions options =
        new ListConsumerGroupOffsetsOptions().requireStable(true);
    groupOffsets(group, options)
        .forEach((partition, at) -> put(offsets, partition, at.offset()));
    return write(offsets);
  }

  /** The largest offset that any of these groups has; -1 if they have none. */
  public long newestCommitted(String groups, boolean stable) throws Exception {
    Map<String, ListConsumerGroupOffsetsSpec> asked = new HashMap<>();
    strings(groups).forEach(group -> asked.put(group, new ListConsumerGroupOffsetsSpec()));
    ListConsumerGroupOffsetsOptions options =
        new ListConsumerGroupOffsetsOptions().requireStable(stable);
    return answer(client.listConsumerGroupOffsets(asked, options).all()).values().stream()
        .flatMap(offsets -> offsets.values().stream())
        .filter(Objects::nonNull)
        .mapToLong(OffsetAndMetadata::offset)
        .max()
        .orElse(NO_RECORD);
  }

  /** The note at each offset of a consumer group: {@code {topic: {partition: note}}}. */
  public String groupNotes(String group) throws Exception {
    Map<String, Map<Integer, String>> notes = new TreeMap<>();
    groupOffsets(group, new ListConsumerGroupOffsetsOptions())
        .forEach((partition, at) -> put(notes, partition, at.metadata()));
    return write(notes);
  }

  /** Commits offsets to a consumer group, which must have no members, with a note at each. */
  public void commitToGroup(String group, String offsets, String note) throws Exception {
    Map<String, Map<Integer, Long>> given = read(offsets, new TypeReference<>() {});
    Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
    given.forEach(
        (topic, ofTopic) ->
            ofTopic.forEach(
                (partition, offset) ->
                    committed.put(
                        new TopicPartition(topic, partition), new OffsetAndMetadata(offset, note))));
    answer(client.alterConsumerGroupOffsets(group, committed).all());
  }

  @Override
  public void close() {
    client.close(Duration.ZERO);
  }

  private static List<String> matching(String pattern, Collection<String> names) {
    Pattern compiled = Pattern.compile(pattern);
    return names.stream().filter(name -> compiled.matcher(name).matches()).sorted().toList();
  }

  private static Map<String, Map<Integer, Long>> endsWhereNone(
      Map<String, Map<Integer, Long>> ends, Map<String, Map<Integer, Long>> found) {
    found.forEach(
        (topic, ofTopic) ->
            ofTopic.replaceAll(
                (partition, offset) ->
                    offset == NO_RECORD ? ends.get(topic).get(partition) : offset));
    return found;
  }

  private static String log(boolean exists, long replicas, int needed) {
    return write(Map.of("exists", exists, "replicas", replicas, "needed", needed));
  }

  private Map<String, Map<Integer, Long>> offsets(
      String partitions, OffsetSpec spec, IsolationLevel level) throws Exception {
    Map<String, List<Integer>> given = read(partitions, new TypeReference<>() {});
    Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
    given.forEach(
        (topic, numbers) ->
            numbers.forEach(number -> asked.put(new TopicPartition(topic, number), spec)));
    Map<TopicPartition, ListOffsetsResultInfo> found =
        answer(client.listOffsets(asked, new ListOffsetsOptions(level)).all());
    Map<String, Map<Integer, Long>> offsets = new TreeMap<>();
    found.forEach((partition, at) -> put(offsets, partition, at.offset()));
    return offsets;
  }

  private Map<TopicPartition, OffsetAndMetadata> groupOffsets(
      String group, ListConsumerGroupOffsetsOptions options) throws Exception {
    Map<TopicPartition, OffsetAndMetadata> found =
        new HashMap<>(
            answer(client.listConsumerGroupOffsets(group, options).partitionsToOffsetAndMetadata()));
    found.values().removeIf(at -> at == null);
    return found;
  }

  private static <T> void put(
      Map<String, Map<Integer, T>> values, TopicPartition partition, T value) {
    values
        .computeIfAbsent(partition.topic(), topic -> new TreeMap<>())
        .put(partition.partition(), value);
  }

  private List<TopicPartitionInfo> described(String topic) throws Exception {
    return answer(client.describeTopics(List.of(topic)).topicNameValues().get(topic)).partitions();
  }

  private TopicDescription description(
      String name, Map<String, KafkaFuture<TopicDescription>> asked) throws Exception {
    try {
      return answer(asked.get(name));
    } catch (ExecutionException error) {
      // Kafka's message is "Topic authorization failed.", without the topic.
      if (error.getCause() instanceof TopicAuthorizationException) {
        throw new TopicAuthorizationException(name + ": " + error.getCause().getMessage());
      }
      throw error;
    }
  }

  private Collection<Node> brokers() throws Exception {
    return answer(client.describeCluster().nodes());
  }

  private String setting(ConfigResource.Type type, String of, String name) throws Exception {
    ConfigResource asked = new ConfigResource(type, of);
    ConfigEntry entry =
        answer(client.describeConfigs(List.of(asked)).all()).get(asked).get(name);
    return entry == null ? null : entry.value();
  }

  private int leastInSync(String topic) throws Exception {
    return number(setting(ConfigResource.Type.TOPIC, topic, LEAST_IN_SYNC));
  }

  /** Kafka's default is 1. */
  private static int number(String setting) {
    return setting == null ? 1 : Integer.parseInt(setting);
  }

  private <T> T answer(KafkaFuture<T> future)
      throws ExecutionException, InterruptedException, TimeoutException {
    return future.get(timeoutMs, TimeUnit.MILLISECONDS);
  }

  /** Brokers without an authorizer allow everything, and old ones do not say. */
  private static boolean allows(Collection<AclOperation> operations, AclOperation operation) {
    return operations == null || operations.contains(operation);
  }

  private static long fewest(
      List<TopicPartitionInfo> partitions, ToLongFunction<TopicPartitionInfo> count) {
    return partitions.stream().mapToLong(count).min().orElseThrow();
  }

  private static List<String> strings(String list) {
    return read(list, new TypeReference<>() {});
  }

  static <T> T read(String text, TypeReference<T> type) {
    try {
      return JSON.readValue(text, type);
    } catch (JsonProcessingException error) {
      throw new UncheckedIOException(error);
    }
  }

  static String write(Object value) {
    try {
      return JSON.writeValueAsString(value);
    } catch (JsonProcessingException error) {
      throw new UncheckedIOException(error);
    }
  }
}
