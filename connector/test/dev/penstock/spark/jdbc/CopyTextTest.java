package dev.penstock.spark.jdbc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class CopyTextTest {
  private static long micros(LocalDateTime at) {
    return at.toEpochSecond(ZoneOffset.UTC) * 1_000_000 + at.getNano() / 1_000;
  }

  private static GenericArrayData array(Object... values) {
    return new GenericArrayData(values);
  }

  private static UTF8String text(String value) {
    return UTF8String.fromString(value);
  }

  static Stream<Arguments> values() {
    LocalDateTime early = LocalDateTime.of(1, 2, 3, 4, 5, 6, 7_000);
    return Stream.of(
        Arguments.of(DataTypes.StringType, null, "\\N"),
        Arguments.of(DataTypes.StringType, text("a\tb\nc\rd\\e ü"), "a\\tb\\nc\\rd\\\\e ü"),
        Arguments.of(DataTypes.StringType, text("\\N"), "\\\\N"),
        Arguments.of(DataTypes.StringType, text("\\."), "\\\\."),
        Arguments.of(DataTypes.BooleanType, true, "t"),
        Arguments.of(DataTypes.ByteType, (byte) -1, "-1"),
        Arguments.of(DataTypes.ShortType, Short.MIN_VALUE, "-32768"),
        Arguments.of(DataTypes.IntegerType, 7, "7"),
        Arguments.of(DataTypes.LongType, Long.MIN_VALUE, "-9223372036854775808"),
        Arguments.of(DataTypes.FloatType, 1.5f, "1.5"),
        Arguments.of(DataTypes.DoubleType, Double.NEGATIVE_INFINITY, "-Infinity"),
        Arguments.of(DataTypes.DoubleType, Double.NaN, "NaN"),
        Arguments.of(DataTypes.DoubleType, 1e300, "1.0E300"),
        Arguments.of(
            DataTypes.createDecimalType(38, 10),
            Decimal.apply(new BigDecimal("1234567890123456789.0000000001"), 38, 10),
            "1234567890123456789.0000000001"),
        Arguments.of(DataTypes.BinaryType, new byte[] {0, (byte) 0xff}, "\\\\x00ff"),
        Arguments.of(
            DataTypes.DateType, (int) LocalDate.of(2026, 11, 30).toEpochDay(), "2026-11-30"),
        Arguments.of(
            DataTypes.DateType, (int) LocalDate.of(12026, 1, 2).toEpochDay(), "12026-01-02"),
        Arguments.of(DataTypes.DateType, (int) LocalDate.of(0, 1, 2).toEpochDay(), "0001-01-02 BC"),
        Arguments.of(DataTypes.TimestampType, -1L, "1969-12-31 23:59:59.999999+00"),
        Arguments.of(DataTypes.TimestampType, micros(early), "0001-02-03 04:05:06.000007+00"),
        Arguments.of(DataTypes.TimestampNTZType, 0L, "1970-01-01 00:00:00.000000"),
        Arguments.of(
            new ArrayType(DataTypes.StringType, true),
            array(text("a\"b\\c,{}"), null, text("NULL"), text("")),
            // Quoted for an array, and then for COPY.
            "{\"a\\\\\"b\\\\\\\\c,{}\",NULL,\"NULL\",\"\"}"),
        Arguments.of(
            new ArrayType(new ArrayType(DataTypes.IntegerType, true), true),
            array(array(1, 2), array(3, 4)),
            "{{\"1\",\"2\"},{\"3\",\"4\"}}"));
  }

  @ParameterizedTest
  @MethodSource("values")
  void writesWhatPostgresReads(DataType type, Object value, String wanted) {
    var line = new ByteArrayOutputStream();
    CopyText.add(line, new GenericInternalRow(new Object[] {value}), 0, type);
    assertEquals(wanted, line.toString(StandardCharsets.UTF_8));
  }
}
