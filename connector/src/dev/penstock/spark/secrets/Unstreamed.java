package dev.penstock.spark.secrets;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** A table that cannot be streamed, so that Spark asks the data source for a source or a sink. */
record Unstreamed(String name) implements Table {
  @Override
  public Set<TableCapability> capabilities() {
    return Set.of();
  }
}
