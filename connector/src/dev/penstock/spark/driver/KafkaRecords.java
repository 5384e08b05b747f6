package dev.penstock.spark.driver;

import com.fasterxml.jackson.core.type.TypeReference;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Reads single records for the driver, and copies one (driver/kafka/records.py).
 *
 * <p>The consumer has no group. Not thread-safe. A call may block while it resolves names.
 */
public final class KafkaRecords implements AutoCloseable {
  private static final Duration POLL = Duration.ofSeconds(1);
  // A transaction's marker takes an offset, too, one of each producer.
  private static final int MOST_MARKERS = 16;

  private static final Map<String, Object> CONSUMER =
      Map.of(
          "key.deserializer", ByteArrayDeserializer.class,
          "value.deserializer", ByteArrayDeserializer.class,
          "enable.auto.commit", "false",
          // From an offset that has expired, it goes on with the first record that is left.
          "auto.offset.reset", "earliest",
          // The broker sends at least one batch; nothing more is needed.
          "max.poll.records", "1",
          "max.partition.fetch.bytes", "1",
          "fetch.min.bytes", "1",
          // Those of a sink are for producers.
          "interceptor.classes", "");
  private static final Map<String, Object> PRODUCER =
      Map.of(
          "key.serializer", ByteArraySerializer.class,
          "value.serializer", ByteArraySerializer.class,
          "acks", "all",
          // It would need a right of its own (IdempotentWrite), and a copy more does no harm.
          "enable.idempotence", "false",
          // Within less than the time, so that it ends with the broker's reason, not a timeout.
          "retries", "4",
          "linger.ms", "0",
          // The record was small enough for its own topic. The other one has its own limit.
          "interceptor.classes", "",
          "max.request.size", 1 << 28,
          "buffer.memory", 1L << 29);

  private static final TypeReference<Map<String, String>> STRINGS = new TypeReference<>() {};

  private final Consumer<byte[], byte[]> consumer;

  /** {@code options} are those of Kafka's clients, by name, as JSON. */
  public KafkaRecords(String options) {
    this(new KafkaConsumer<>(with(CONSUMER, options)));
  }

  KafkaRecords(Consumer<byte[], byte[]> consumer) {
    this.consumer = consumer;
  }

  /**
   * The first record at an offset or after it, as JSON; null if none arrives within a second.
   *
   * <p>There may be none at the offset: compacted, expired, or a transaction's marker.
   *
   * @param header its value is a part of the answer
   */
  public String firstFrom(String topic, int partition, long offset, String header) {
    seek(new TopicPartition(topic, partition), offset);
    Fetched found = fetch();
    return found == null ? null : found.json(header);
  }

  /** The last record before an offset, as JSON; null if there is none within 16 offsets. */
  public String lastBefore(String topic, int partition, long end) {
    TopicPartition place = new TopicPartition(topic, partition);
    for (int back = 1; back <= MOST_MARKERS; back *= 2) {
      seek(place, Math.max(0, end - back));
      Fetched last = null;
      // A poll ends early where it has passed a marker only.
      while (consumer.position(place) < end) {
        long before = consumer.position(place);
        Fetched found = fetch();
        if (found == null && consumer.position(place) == before) {
          return null;
        }
        last = found != null && found.record().offset() < end ? found : last;
      }
      if (last != null || back >= end) {
        return last == null ? null : last.json("");
      }
    }
    return null;
  }

  /**
   * The record at an offset; null if the log has none there any more, or a transaction's marker.
   *
   * @throws TimeoutException if nothing arrives within the time
   */
  public ConsumerRecord<byte[], byte[]> at(
      String topic, int partition, long offset, long timeoutMs) {
    TopicPartition place = new TopicPartition(topic, partition);
    seek(place, offset);
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    while (System.nanoTime() < end) {
      Fetched found = fetch();
      if (found != null) {
        return found.record().offset() == offset ? found.record() : null;
      }
      if (consumer.position(place) != offset) {
        return null;
      }
    }
    throw new TimeoutException(
        String.format(
            "Nothing could be read at %s/%d@%d within %d ms.", topic, partition, offset, timeoutMs));
  }

  /**
   * Where the topic's first {@code most} partitions ended at a time, as JSON, without empty ones.
   */
  public String endsAt(String topic, long timestampMs, int most) {
    int count = consumer.partitionsFor(topic).size();
    List<TopicPartition> partitions =
        IntStream.range(0, Math.min(count, most))
            .mapToObj(number -> new TopicPartition(topic, number))
            .toList();
    Map<TopicPartition, Long> times = new HashMap<>();
    partitions.forEach(partition -> times.put(partition, timestampMs + 1));
    // In this order: a record that arrives in between is after the time.
    var ends = consumer.endOffsets(partitions);
    var first = consumer.beginningOffsets(partitions);
    var after = consumer.offsetsForTimes(times);
    Map<Integer, Long> found = new TreeMap<>();
    for (TopicPartition partition : partitions) {
      var later = after.get(partition);
      long end = later == null ? ends.get(partition) : later.offset();
      if (end > first.get(partition)) {
        found.put(partition.partition(), end);
      }
    }
    return KafkaAdmin.write(Map.of("ends", found, "is_whole", count <= most));
  }

  /**
   * Copies a record to a topic, with more headers, and returns once all replicas in sync have it.
   *
   * <p>It gets a timestamp of now: by the old one, retention would delete it.
   *
   * @param options those of a producer, as JSON
   * @param headers their values by name, as JSON
   */
  public static void copy(
      String options,
      ConsumerRecord<byte[], byte[]> record,
      String topic,
      String headers,
      long timeoutMs)
      throws Exception {
    RecordHeaders all = new RecordHeaders(record.headers());
    for (var header : KafkaAdmin.read(headers, STRINGS).entrySet()) {
      all.add(header.getKey(), header.getValue().getBytes(StandardCharsets.UTF_8));
    }
    Map<String, Object> producing = with(PRODUCER, options);
    producing.put("delivery.timeout.ms", (int) timeoutMs);
    producing.put("max.block.ms", timeoutMs);
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing);
    try {
      producer
          .send(new ProducerRecord<>(topic, null, null, record.key(), record.value(), all))
          .get(timeoutMs, TimeUnit.MILLISECONDS);
    } finally {
      producer.close(Duration.ZERO);
    }
  }

  @Override
  public void close() {
    consumer.close(Duration.ZERO);
  }

  private static Map<String, Object> with(Map<String, Object> own, String options) {
    Map<String, Object> all = new HashMap<>(KafkaAdmin.read(options, STRINGS));
    all.putAll(own);
    return all;
  }

  private void seek(TopicPartition place, long offset) {
    consumer.assign(List.of(place));
    consumer.seek(place, offset);
  }

  /** The next record; null if none arrives within a second. */
  private Fetched fetch() {
    long began = System.nanoTime();
    Iterator<ConsumerRecord<byte[], byte[]>> records = consumer.poll(POLL).iterator();
    return records.hasNext() ? new Fetched(records.next(), System.nanoTime() - began) : null;
  }

  private record Fetched(ConsumerRecord<byte[], byte[]> record, long nanos) {
    String json(String header) {
      Map<String, Object> found = new HashMap<>();
      found.put("offset", record.offset());
      found.put("timestampMs", record.timestamp());
      found.put("fetchSeconds", nanos / 1e9);
      Header named = record.headers().lastHeader(header);
      if (named != null && named.value() != null) {
        found.put("header", new String(named.value(), StandardCharsets.UTF_8));
      }
      return KafkaAdmin.write(found);
    }
  }
}
