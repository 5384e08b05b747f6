package dev.penstock.spark;

import java.io.Serializable;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The records that are not handed out, by their positions.
 *
 * <p>The option {@code leaveOut} has them as {@code topic/partition@offset}, separated by commas.
 */
record LeftOut(Map<TopicPartition, Set<Long>> offsets) implements Serializable {
  private static final String OPTION = "leaveOut";
  private static final Pattern POSITION =
      Pattern.compile("([a-zA-Z0-9._-]{1,249})/([0-9]{1,9})@([0-9]{1,18})");

  static LeftOut of(CaseInsensitiveStringMap options) {
    Map<TopicPartition, Set<Long>> offsets = new HashMap<>();
    for (String position : options.getOrDefault(OPTION, "").split(",")) {
      if (!position.isBlank()) {
        add(offsets, position.strip());
      }
    }
    return new LeftOut(offsets);
  }

  /** The offsets in one partition. */
  Set<Long> in(TopicPartition partition) {
    return offsets.getOrDefault(partition, Set.of());
  }

  private static void add(Map<TopicPartition, Set<Long>> offsets, String position) {
    Matcher parts = POSITION.matcher(position);
    if (!parts.matches()) {
      throw new IllegalArgumentException(
          OPTION + " takes topic/partition@offset, separated by commas, not " + position);
    }
    var partition = new TopicPartition(parts.group(1), Integer.parseInt(parts.group(2)));
    offsets.computeIfAbsent(partition, none -> new HashSet<>()).add(Long.valueOf(parts.group(3)));
  }
}
