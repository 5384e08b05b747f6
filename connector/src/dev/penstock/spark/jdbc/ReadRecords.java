package dev.penstock.spark.jdbc;

import dev.penstock.spark.FailedRecord;
import dev.penstock.spark.RecordInHand;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/** From which records the lines of a copy are, as far as the task reads them itself. */
final class ReadRecords {
  private static final int FEW = 1_000;

  /** By the first of their lines. */
  private final TreeMap<Integer, TopicPartition> partitions = new TreeMap<>();
  private long[] offsets = new long[FEW];
  private int lines;

  int lines() {
    return lines;
  }

  /** The next line is of this one; null: it is not known. */
  void add(RecordInHand read) {
    if (lines == offsets.length) {
      offsets = Arrays.copyOf(offsets, lines * 2);
    }
    TopicPartition partition = read == null ? null : read.partition();
    Map.Entry<Integer, TopicPartition> before = partitions.lastEntry();
    if (before == null || before.getValue() != partition) {
      partitions.put(lines, partition);
    }
    offsets[lines] = read == null ? -1 : read.offset();
    lines++;
  }

  /** Of a line, counted from one; null if it is not known. */
  FailedRecord of(int line) {
    if (line < 1 || line > lines || offsets[line - 1] < 0) {
      return null;
    }
    return new FailedRecord(partitions.floorEntry(line - 1).getValue(), offsets[line - 1]);
  }

  void clear() {
    partitions.clear();
    lines = 0;
  }
}
