package dev.penstock.spark.secrets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Without a query: test_secret_options.py has those. */
final class SinkWithSecretsTest {
  private static Map<String, String> options(String format) {
    return Map.of("penstock.format", format, "PENSTOCK.secretfiles", "{}");
  }

  private static Table sink(String format) {
    return new SinkWithSecrets().getTable(new StructType(), new Transform[0], options(format));
  }

  @Test
  void theTableIsTheOtherOnesInAllButItsText() {
    Table table = sink("noop");
    assertTrue(table instanceof SupportsWrite);
    assertTrue(table.capabilities().contains(TableCapability.STREAMING_WRITE));
    assertEquals("noop", table.toString());
    assertEquals("noop", table.name());
    assertEquals(table, table);
  }

  /** A data source that no stream reads or writes. */
  public static final class Unread implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
      return new StructType();
    }

    @Override
    public Table getTable(StructType schema, Transform[] none, Map<String, String> options) {
      return new Unstreamed("unread");
    }
  }

  @Test
  void whatCannotBeStreamedIsRefusedInSparksWords() {
    String name = Unread.class.getName();
    var refusal = assertThrows(UnsupportedOperationException.class, () -> sink(name));
    assertTrue(refusal.getMessage().contains("Unread does not support streamed writing"));
    var source = new SourceWithSecrets();
    var options = options(name);
    source.inferSchema(new CaseInsensitiveStringMap(options));
    refusal =
        assertThrows(
            UnsupportedOperationException.class,
            () -> source.getTable(new StructType(), new Transform[0], options));
    assertTrue(refusal.getMessage().contains("Unread does not support streamed reading"));
  }

  /** As Spark refuses it: it asks the data source whether it takes columns. */
  @Test
  void columnsForADataSourceThatTakesNoneAreRefused() {
    var refusal =
        assertThrows(
            Exception.class,
            () ->
                new SourceWithSecrets()
                    .getTable(new StructType(), new Transform[0], options(Unread.class.getName())));
    assertTrue(refusal.getMessage().contains("schema"), refusal.getMessage());
  }

  @ParameterizedTest
  @ValueSource(strings = {"parquet", "csv", "text"})
  void filesAreRefused(String format) {
    var refusal = assertThrows(IllegalArgumentException.class, () -> sink(format));
    assertTrue(refusal.getMessage().contains("files"), refusal.getMessage());
  }

  @Test
  void aTableThatOnlyStreamsByTheFirstInterfaceIsNoTable() {
    assertTrue(sink("console").capabilities().contains(TableCapability.STREAMING_WRITE));
    assertEquals(0, new Unstreamed("a").capabilities().size());
  }
}
