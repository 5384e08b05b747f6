package dev.penstock.spark.jdbc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import dev.penstock.spark.jdbc.Target.Column;
import java.util.List;
import org.junit.jupiter.api.Test;

class TargetTest {
  private static final List<Column> COLUMNS =
      List.of(new Column("id", "id", "integer"), new Column("Amount", "\"Amount\"", "numeric(5,2)"));
  private static final List<String> CHECKS = List.of("CHECK (id > 0)");
  private static final String STREAM = "penstock/shop/orders/0123456789ab";

  private static Target target(List<String> keys, String deleted, Column latest) {
    return new Target(
        "public.orders", COLUMNS, keys, deleted, latest, CHECKS, "", "penstock", STREAM, 3);
  }

  @Test
  void appendsTheRowsOfTheTasksThatCount() {
    Target target = target(List.of(), null, null);
    assertEquals(
        List.of(
            "INSERT INTO public.orders AS i (id, \"Amount\") SELECT id, \"Amount\" FROM "
                + target.staging()
                + " WHERE penstock_task = ANY (?)"),
        target.merge());
  }

  @Test
  void replacesByKeysAndNeverByAnOlderRow() {
    Column latest = new Column("at", "at", "timestamp with time zone");
    Target target = target(List.of("id"), "d", latest);
    String newest =
        "(SELECT DISTINCT ON (id) * FROM " + target.staging() + " WHERE penstock_task = ANY (?)"
            + " ORDER BY id, penstock_latest DESC NULLS LAST, penstock_row DESC, penstock_task)"
            + " AS n";
    assertEquals(
        List.of(
            "DELETE FROM public.orders AS t USING " + newest + " WHERE n.penstock_deleted"
                + " AND t.id = n.id AND (t.at IS NULL OR n.penstock_latest >= t.at)",
            "INSERT INTO public.orders AS t (id, \"Amount\") SELECT id, \"Amount\" FROM " + newest
                + " WHERE NOT penstock_deleted ON CONFLICT (id) DO UPDATE SET"
                + " \"Amount\" = excluded.\"Amount\""
                + " WHERE (t.at IS NULL OR excluded.at >= t.at)"),
        target.merge());
  }

  @Test
  void keepsWhatIsNotOfTheTableBesideIt() {
    Target target = target(List.of("id"), "d", new Column("at", null, "bigint"));
    assertEquals(
        "COPY " + target.staging()
            + " (penstock_task, penstock_row, penstock_deleted, penstock_latest, id, \"Amount\")"
            + " FROM STDIN",
        target.copy());
    assertEquals(
        "CREATE UNLOGGED TABLE " + target.staging()
            + " (penstock_task bigint, penstock_row bigint, penstock_deleted boolean,"
            + " penstock_latest bigint, id integer, \"Amount\" numeric(5,2), CHECK (id > 0))",
        target.createStaging());
  }

  @Test
  void hasAStagingTableForEachRunWithinTheLengthOfAName() {
    String longest = "penstock/" + "n".repeat(63) + "/" + "s".repeat(253) + "/0123456789ab";
    Target target =
        new Target(
            "t", COLUMNS, List.of(), null, null, CHECKS, "", "penstock", longest, Long.MAX_VALUE);
    assertEquals(true, target.staging().length() - "penstock.".length() <= 63);
    assertNotEquals(Target.prefix(STREAM), Target.prefix(longest));
  }
}
