package dev.penstock.spark;

import java.sql.Timestamp;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.kafka010.KafkaExceptions;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.apache.spark.unsafe.types.UTF8String;

/** The records of one topic as rows of Spark's Kafka source, in one row that is used again. */
final class RecordRow {
  private final SpecificInternalRow row;
  private final UTF8String topic;
  private final boolean includeHeaders;

  RecordRow(String topic, boolean includeHeaders) {
    row = new SpecificInternalRow(KafkaRecordToRowConverter.kafkaSchema(includeHeaders));
    this.topic = UTF8String.fromString(topic);
    this.includeHeaders = includeHeaders;
  }

  /** The record's row, until the next call. */
  InternalRow of(ConsumerRecord<byte[], byte[]> record) {
    row.update(0, record.key());
    row.update(1, record.value());
    row.update(2, topic);
    row.setInt(3, record.partition());
    row.setLong(4, record.offset());
    row.setLong(5, timestamp(record));
    row.setInt(6, record.timestampType().id);
    if (includeHeaders) {
      row.update(7, headers(record.headers()));
    }
    return row;
  }

  private static long timestamp(ConsumerRecord<byte[], byte[]> record) {
    try {
      return DateTimeUtils.fromJavaTimestamp(new Timestamp(record.timestamp()));
    } catch (ArithmeticException tooLarge) {
      throw KafkaExceptions.kafkaMalformedRecordTimestamp(
          record.topic(), record.partition(), record.offset(), record.timestamp(), tooLarge);
    }
  }

  private static GenericArrayData headers(Headers headers) {
    if (!headers.iterator().hasNext()) {
      return null;
    }
    return new GenericArrayData(
        StreamSupport.stream(headers.spliterator(), false).map(RecordRow::header).toArray());
  }

  private static GenericInternalRow header(Header header) {
    return new GenericInternalRow(
        new Object[] {UTF8String.fromString(header.key()), header.value()});
  }
}
