package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class KafkaProviderTest {
  private static final Map<String, String> VALID =
      Map.of("kafka.bootstrap.servers", "127.0.0.1:1", "subscribe", "payments");

  private static CaseInsensitiveStringMap with(String option, String value) {
    Map<String, String> options = new HashMap<>(VALID);
    options.put(option, value);
    return new CaseInsensitiveStringMap(options);
  }

  private static int columns(String option, String value) {
    return new KafkaProvider().getTable(with(option, value)).columns().length;
  }

  /** As Spark looks for it: by the file in META-INF/services. */
  @Test
  void itIsRegisteredOnceBesideSparksOwn() {
    List<String> names =
        StreamSupport.stream(ServiceLoader.load(DataSourceRegister.class).spliterator(), false)
            .filter(KafkaSourceProvider.class::isInstance)
            .map(DataSourceRegister::shortName)
            .sorted()
            .toList();
    assertEquals(List.of("kafka", "penstock-kafka"), names);
  }

  @ParameterizedTest
  @ValueSource(strings = {"includeHeaders", "INCLUDEHEADERS", "includeheaders"})
  void headersAreAColumnWhateverTheCaseOfTheOption(String option) {
    assertEquals(7, columns("x", "true"));
    assertEquals(7, columns(option, "false"));
    assertEquals(8, columns(option, "TRUE"));
  }

  @Test
  void theTableIsSparksInAllElse() {
    var options = new CaseInsensitiveStringMap(VALID);
    Table ours = new KafkaProvider().getTable(options);
    Table sparks = new KafkaSourceProvider().getTable(options);
    assertEquals(sparks.capabilities(), ours.capabilities());
    assertEquals(sparks.name(), ours.name());
    assertEquals(List.of(sparks.columns()), List.of(ours.columns()));
    assertInstanceOf(SupportsRead.class, ours);
    assertInstanceOf(SupportsWrite.class, ours);
  }

  @Test
  void anOptionThatSparkRefusesIsRefusedForAContinuousStream() {
    var given = with("kafka.auto.offset.reset", "latest");
    var scan = ((SupportsRead) new KafkaProvider().getTable(given)).newScanBuilder(given).build();
    assertThrows(IllegalArgumentException.class, () -> scan.toContinuousStream("/none"));
  }
}
