package dev.penstock.spark;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Where a batch ends whose reader takes committed records only.
 *
 * <p>Such a reader sees the end of a partition before the first transaction that is open. A stream
 * that has read everything until now is beyond that. Spark takes this for a topic that was created
 * again: it fails, or goes back and reads what it has read.
 */
final class BatchEnds {
  /** Answers with the end of each partition's log, whatever is open in it. */
  interface Log {
    Map<TopicPartition, Long> ends(Set<TopicPartition> partitions);
  }

  private final Log log;
  /** Where a batch ends that has nothing of these partitions, and where Spark is told that it does. */
  private final Map<TopicPartition, Long> held = new HashMap<>();

  BatchEnds(Log log) {
    this.log = log;
  }

  /** The end of a batch, but for a partition that is only held not before its start. */
  Offset notBefore(Offset start, Offset end) {
    held.clear();
    if (end == null) {
      return null;
    }
    Map<TopicPartition, Long> from = offsets(start);
    Map<TopicPartition, Long> until = new HashMap<>(offsets(end));
    Set<TopicPartition> back = new HashSet<>();
    until.forEach(
        (partition, offset) -> {
          if (offset < from.getOrDefault(partition, offset)) {
            back.add(partition);
          }
        });
    if (back.isEmpty()) {
      return end;
    }
    Map<TopicPartition, Long> logEnds = log.ends(back);
    for (TopicPartition partition : back) {
      // Else Spark is right: the log does not reach to the start any more.
      if (from.get(partition) <= logEnds.get(partition)) {
        held.put(partition, until.get(partition));
        until.put(partition, from.get(partition));
      }
    }
    return held.isEmpty() ? end : offset(until);
  }

  /**
   * The start or the end of a batch as Spark may see it: with availableNow it refuses an end after
   * the one that it has found itself.
   */
  Offset asRead(Offset of) {
    if (held.isEmpty()) {
      return of;
    }
    Map<TopicPartition, Long> offsets = new HashMap<>(offsets(of));
    offsets.replaceAll((partition, offset) -> Math.min(offset, held.getOrDefault(partition, offset)));
    return offset(offsets);
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // Scala's Long is an Object here
  private static Map<TopicPartition, Long> offsets(Offset offset) {
    return (Map) CollectionConverters.asJava(((KafkaSourceOffset) offset).partitionToOffsets());
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static Offset offset(Map<TopicPartition, Long> offsets) {
    var map = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(offsets));
    return new KafkaSourceOffset((scala.collection.immutable.Map) map);
  }
}
