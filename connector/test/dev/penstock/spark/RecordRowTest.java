package dev.penstock.spark;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Beside test_every_column_is_what_sparks_own_source_reads, which has a broker and Spark's source. */
final class RecordRowTest {
  private static final Headers NONE = new RecordHeaders();

  private static ConsumerRecord<byte[], byte[]> record(
      long offset, long timestamp, TimestampType type, byte[] key, byte[] value, Headers headers) {
    return new ConsumerRecord<>(
        "payments", 3, offset, timestamp, type, 0, 0, key, value, headers, Optional.empty());
  }

  private static ConsumerRecord<byte[], byte[]> at(long timestamp) {
    return record(0, timestamp, TimestampType.CREATE_TIME, null, null, NONE);
  }

  @Test
  void everyColumn() {
    byte[] key = "k".getBytes(UTF_8);
    byte[] value = "v".getBytes(UTF_8);
    InternalRow row =
        new RecordRow("payments", false)
            .of(record(41, 1_700_000_000_123L, TimestampType.LOG_APPEND_TIME, key, value, NONE));
    assertEquals(7, row.numFields());
    assertArrayEquals(key, row.getBinary(0));
    assertArrayEquals(value, row.getBinary(1));
    assertEquals("payments", row.getUTF8String(2).toString());
    assertEquals(3, row.getInt(3));
    assertEquals(41, row.getLong(4));
    assertEquals(1_700_000_000_123_000L, row.getLong(5));
    assertEquals(1, row.getInt(6));
  }

  @Test
  void aTombstoneWithoutKeyIsNullAfterARecordThatIsNot() {
    RecordRow rows = new RecordRow("payments", false);
    rows.of(record(0, 0, TimestampType.CREATE_TIME, new byte[1], new byte[1], NONE));
    InternalRow row = rows.of(at(0));
    assertTrue(row.isNullAt(0));
    assertTrue(row.isNullAt(1));
  }

  @Test
  void aCopyOutlivesTheNextRecord() {
    RecordRow rows = new RecordRow("payments", false);
    InternalRow first = rows.of(record(1, 0, TimestampType.CREATE_TIME, null, null, NONE));
    InternalRow copy = first.copy();
    InternalRow second = rows.of(record(2, 0, TimestampType.CREATE_TIME, null, null, NONE));
    assertEquals(1, copy.getLong(4));
    assertEquals(2, second.getLong(4));
  }

  /** In microseconds: before 1970, without a timestamp (-1), and as far as a long reaches. */
  @ParameterizedTest
  @ValueSource(longs = {0, -1, -86_400_000, 4_000_000_000_000L, Long.MAX_VALUE / 1000})
  void aTimestamp(long milliseconds) {
    InternalRow row = new RecordRow("payments", false).of(at(milliseconds));
    assertEquals(milliseconds * 1000, row.getLong(5));
  }

  @ParameterizedTest
  @ValueSource(longs = {Long.MAX_VALUE / 1000 + 1, Long.MAX_VALUE, Long.MIN_VALUE})
  void aTimestampThatIsNoneIsSparksCondition(long milliseconds) {
    RecordRow rows = new RecordRow("payments", false);
    Exception refused = assertThrows(Exception.class, () -> rows.of(at(milliseconds)));
    String condition = ((SparkThrowable) refused).getCondition();
    assertEquals("KAFKA_MALFORMED_RECORD_TIMESTAMP", condition);
  }

  @Test
  void headersKeepTheirOrderAndTheirNulls() {
    Headers headers = new RecordHeaders();
    headers.add("a", new byte[] {1}).add("é", null).add("a", new byte[0]);
    RecordRow rows = new RecordRow("payments", true);
    InternalRow row = rows.of(record(0, 0, TimestampType.CREATE_TIME, null, null, headers));
    assertEquals(3, row.getArray(7).numElements());
    InternalRow first = row.getArray(7).getStruct(0, 2);
    assertEquals("a", first.getUTF8String(0).toString());
    assertArrayEquals(new byte[] {1}, first.getBinary(1));
    InternalRow second = row.getArray(7).getStruct(1, 2);
    assertEquals("é", second.getUTF8String(0).toString());
    assertNull(second.getBinary(1));
    assertArrayEquals(new byte[0], row.getArray(7).getStruct(2, 2).getBinary(1));
    assertTrue(rows.of(at(0)).isNullAt(7), "a record without headers");
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void theColumnsAreThoseOfSparksSchema(boolean includeHeaders) {
    int columns = KafkaRecordToRowConverter.kafkaSchema(includeHeaders).size();
    assertEquals(columns, new RecordRow("payments", includeHeaders).of(at(0)).numFields());
  }
}
