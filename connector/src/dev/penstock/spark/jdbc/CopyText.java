package dev.penstock.spark.jdbc;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.HexFormat;
import java.util.Locale;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Values in the text format of PostgreSQL's COPY, which each of its types can read. */
final class CopyText {
  private static final byte[] NULL = {'\\', 'N'};
  private static final long MICROS = 1_000_000;
  private static final int MICRO_DIGITS = 6;

  private CopyText() {}

  /** Adds the value of a column to a line. */
  static void add(ByteArrayOutputStream line, SpecializedGetters row, int at, DataType type) {
    if (row.isNullAt(at)) {
      line.writeBytes(NULL);
    } else if (type instanceof StringType) {
      escape(line, row.getUTF8String(at).getBytes());
    } else {
      escape(line, text(row, at, type).getBytes(StandardCharsets.UTF_8));
    }
  }

  private static void escape(ByteArrayOutputStream line, byte[] value) {
    for (byte each : value) {
      switch (each) {
        case '\\' -> escaped(line, '\\');
        case '\n' -> escaped(line, 'n');
        case '\r' -> escaped(line, 'r');
        case '\t' -> escaped(line, 't');
        default -> line.write(each);
      }
    }
  }

  private static void escaped(ByteArrayOutputStream line, char letter) {
    line.write('\\');
    line.write(letter);
  }

  private static String text(SpecializedGetters row, int at, DataType type) {
    if (type instanceof StringType) {
      return row.getUTF8String(at).toString();
    }
    if (type instanceof LongType) {
      return Long.toString(row.getLong(at));
    }
    if (type instanceof IntegerType) {
      return Integer.toString(row.getInt(at));
    }
    if (type instanceof ShortType) {
      return Short.toString(row.getShort(at));
    }
    if (type instanceof ByteType) {
      return Byte.toString(row.getByte(at));
    }
    if (type instanceof BooleanType) {
      return row.getBoolean(at) ? "t" : "f";
    }
    if (type instanceof DoubleType) {
      return Double.toString(row.getDouble(at));
    }
    if (type instanceof FloatType) {
      return Float.toString(row.getFloat(at));
    }
    if (type instanceof DecimalType of) {
      return row.getDecimal(at, of.precision(), of.scale()).toJavaBigDecimal().toPlainString();
    }
    if (type instanceof TimestampType) {
      return time(row.getLong(at), "+00");
    }
    if (type instanceof TimestampNTZType) {
      return time(row.getLong(at), "");
    }
    if (type instanceof DateType) {
      return date(LocalDate.ofEpochDay(row.getInt(at)), "");
    }
    if (type instanceof BinaryType) {
      return "\\x" + HexFormat.of().formatHex(row.getBinary(at));
    }
    if (type instanceof ArrayType of) {
      return array(row.getArray(at), of.elementType());
    }
    throw new IllegalArgumentException("No column takes a " + type.simpleString());
  }

  private static String time(long micros, String zone) {
    long seconds = Math.floorDiv(micros, MICROS);
    long rest = Math.floorMod(micros, MICROS);
    LocalDateTime at = LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC);
    String fraction = ("" + (MICROS + rest)).substring(1, 1 + MICRO_DIGITS);
    return date(
        at.toLocalDate(),
        String.format(
            Locale.ROOT,
            " %02d:%02d:%02d.%s%s",
            at.getHour(), at.getMinute(), at.getSecond(), fraction, zone));
  }

  /** PostgreSQL counts years before the first one backward, and writes no sign. */
  private static String date(LocalDate day, String time) {
    int year = day.getYear();
    String era = year > 0 ? "" : " BC";
    return String.format(
        Locale.ROOT,
        "%04d-%02d-%02d%s%s",
        year > 0 ? year : 1 - year, day.getMonthValue(), day.getDayOfMonth(), time, era);
  }

  private static String array(ArrayData values, DataType type) {
    StringBuilder text = new StringBuilder("{");
    for (int i = 0; i < values.numElements(); i++) {
      text.append(i == 0 ? "" : ",");
      if (values.isNullAt(i)) {
        text.append("NULL");
      } else if (type instanceof ArrayType) {
        text.append(text(values, i, type));
      } else {
        quote(text, text(values, i, type));
      }
    }
    return text.append('}').toString();
  }

  private static void quote(StringBuilder text, String value) {
    text.append('"').append(value.replace("\\", "\\\\").replace("\"", "\\\"")).append('"');
  }
}
