package dev.penstock.spark.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

/** Beside test_object_store.py, which has a real store and real Spark. */
final class LogEntriesTest {
  private static final Path ROOT = new Path("s3a://bucket/payments/flags");
  private static final byte[] CONTENT = {1};

  private static Path log(String checkpoint, String log) {
    return new Path(ROOT, checkpoint + "/" + log);
  }

  private static FileStatus file(Path log, String name) {
    return new FileStatus(1, false, 1, 1, 1_000, new Path(log, name));
  }

  @Test
  void onlyAListingTellsThatAnEntryIsNotThere() {
    Path log = log("a", "offsets");
    LogEntries entries = LogEntries.of(log);
    entries.written(4, CONTENT, "nonce");
    assertFalse(entries.lacks(5));
    List<FileStatus> found =
        List.of(file(log, "3"), file(log, "4"), file(log, ".penstock-probe"));
    entries.list(found, entries.changes());
    assertTrue(entries.lacks(5));
    assertFalse(entries.lacks(3));
    assertEquals(List.of(3L, 4L), entries.numbers());
    assertEquals("nonce", entries.get(4).nonce());
    assertNull(entries.get(3).content());
    assertEquals(1_000, entries.get(3).writtenAt());
  }

  @Test
  void whatAnotherOneHasDeletedIsGoneWithTheNextListing() {
    Path log = log("b", "commits");
    LogEntries entries = LogEntries.of(log);
    entries.written(1, CONTENT, "nonce");
    entries.written(2, CONTENT, "nonce");
    entries.deleted(2);
    assertNull(entries.get(2));
    entries.list(List.of(), entries.changes());
    assertEquals(List.of(), entries.numbers());
  }

  @Test
  void anEntryThatTheStoreKeepsTakesNoMemory() {
    LogEntries entries = LogEntries.of(log("purged", "offsets"));
    entries.written(7, CONTENT, "nonce");
    entries.purged(7);
    assertNull(entries.get(7).content());
    assertEquals("nonce", entries.get(7).nonce());
    assertEquals(List.of(7L), entries.numbers());
    entries.purged(8);
    assertEquals(List.of(7L), entries.numbers());
  }

  @Test
  void aListingThatChangesHaveOvertakenCountsForNothing() {
    Path log = log("c", "commits");
    LogEntries entries = LogEntries.of(log);
    entries.list(List.of(file(log, "1")), entries.changes());
    long before = entries.changes();
    entries.written(2, CONTENT, "nonce");
    entries.deleted(1);
    entries.list(List.of(file(log, "1")), before);
    assertEquals(List.of(2L), entries.numbers());
  }

  @Test
  void aNumberIsAllOfAName() {
    assertEquals(12, LogEntries.number(new Path("/log/12")));
    for (String name : List.of("12.delta", ".12.crc", "-1", "metadata", "99999999999999999999")) {
      assertEquals(-1, LogEntries.number(new Path("/log/" + name)), name);
    }
  }
}
