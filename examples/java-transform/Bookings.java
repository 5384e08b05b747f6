package dev.penstock.examples;

import java.util.List;
import java.util.function.Function;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;

/** Makes two bookings of each payment: flatMap, which no SQL of continuous mode can say. */
public final class Bookings implements Function<Dataset<Row>, Dataset<Row>> {
  @Override
  public Dataset<Row> apply(Dataset<Row> source) {
    FlatMapFunction<String, String> bookings =
        payment -> List.of("debit " + payment, "credit " + payment).iterator();
    return source
        .selectExpr("CAST(value AS STRING)")
        .as(Encoders.STRING())
        .flatMap(bookings, Encoders.STRING())
        .toDF("value");
  }
}
