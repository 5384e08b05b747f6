package dev.penstock.spark.jdbc;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The table that a stream writes, and how: the statements. All names of the database are quoted.
 *
 * @param table with its schema
 * @param columns what is written of a row
 * @param keys those of an upsert; empty: rows are appended
 * @param deleted the row's column that says that its key is to be deleted; null: none is
 * @param latest what tells the newest row of a key; null: the order in a task
 * @param constraints what holds of each row, so that it shows when the row is copied
 * @param shape of the table when its columns were compared
 * @param schema that of the ledger and of what is staged
 * @param stream the stream and its checkpoint in the ledger
 * @param run which of the drivers that ever wrote for it; a later one fences it
 */
public record Target(
    String table,
    List<Column> columns,
    List<String> keys,
    String deleted,
    Column latest,
    List<String> constraints,
    String shape,
    String schema,
    String stream,
    long run)
    implements Serializable {
  private static final long serialVersionUID = 1;
  private static final int HASH_BYTES = 6;
  /** How the names of staging tables begin. */
  static final String STAGING = "penstock_";

  private static final String TASK = "penstock_task";
  private static final String ROW = "penstock_row";
  private static final String DELETED = "penstock_deleted";
  private static final String LATEST = "penstock_latest";
  private static final String OF_BATCH = " WHERE " + TASK + " = ANY (?)";

  /**
   * A column.
   *
   * @param name in the row
   * @param target in the table; null if it is not there
   * @param type as the database writes it
   */
  public record Column(String name, String target, String type) implements Serializable {
    private static final long serialVersionUID = 1;
  }

  /** Of all tables in which this stream stages rows, and of its sessions. */
  public static String prefix(String stream) {
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256").digest(stream.getBytes(StandardCharsets.UTF_8));
      return STAGING + HexFormat.of().formatHex(hash, 0, HASH_BYTES) + "_";
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }

  static String ledger(String schema) {
    return schema + ".ledger";
  }

  String ledger() {
    return ledger(schema);
  }

  String staging() {
    return schema + "." + prefix(stream) + run;
  }

  boolean isUpsert() {
    return !keys.isEmpty();
  }

  String createStaging() {
    List<String> own = new ArrayList<>(List.of(TASK + " bigint", ROW + " bigint"));
    if (deleted != null) {
      own.add(DELETED + " boolean");
    }
    if (latest != null) {
      own.add(LATEST + " " + latest.type());
    }
    Stream<String> written = columns.stream().map(it -> it.target() + " " + it.type());
    return "CREATE UNLOGGED TABLE "
        + staging()
        + " ("
        + joined(Stream.of(own.stream(), written, constraints.stream()).flatMap(it -> it))
        + ")";
  }

  /** Each line: task, number of the row, whether it deletes, what is latest, and the columns. */
  String copy() {
    List<String> own = new ArrayList<>(List.of(TASK, ROW));
    if (deleted != null) {
      own.add(DELETED);
    }
    if (latest != null) {
      own.add(LATEST);
    }
    return "COPY "
        + staging()
        + " ("
        + joined(Stream.concat(own.stream(), targets()))
        + ") FROM STDIN";
  }

  /** Null if another role, or nobody, has made the staging table. */
  static final String OWN_STAGING =
      "SELECT oid FROM pg_class WHERE oid = to_regclass(?)"
          + " AND pg_get_userbyid(relowner) = current_user";

  /** Which columns a table has: another text once somebody has altered it, or made it anew. */
  static final String SHAPE =
      "SELECT sha256(convert_to(string_agg("
          + "concat_ws(' ', attrelid, attname, atttypid, atttypmod, attnotnull, attcollation),"
          + " ',' ORDER BY attnum), 'UTF8'))::text FROM pg_attribute"
          + " WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped";

  /** How many rows of the batch are staged. */
  String count() {
    return "SELECT count(*) FROM " + staging() + OF_BATCH;
  }

  String delete() {
    return "DELETE FROM " + staging() + OF_BATCH;
  }

  /** What brings the staged rows of a batch into the table. */
  List<String> merge() {
    if (!isUpsert()) {
      return List.of(insert("i") + " SELECT " + joined(targets()) + " FROM " + staging() + OF_BATCH);
    }
    String newest =
        "(SELECT DISTINCT ON (" + joined(keys.stream()) + ") * FROM " + staging() + OF_BATCH
            + " ORDER BY " + joined(keys.stream())
            + (latest == null ? "" : ", " + LATEST + " DESC NULLS LAST")
            + ", " + ROW + " DESC, " + TASK + ") AS n";
    List<String> statements = new ArrayList<>();
    if (deleted != null) {
      statements.add(
          "DELETE FROM " + table + " AS t USING " + newest + " WHERE n." + DELETED
              + matching("n") + unlessOlder("n." + LATEST));
    }
    statements.add(
        insert("t") + " SELECT " + joined(targets()) + " FROM " + newest
            + (deleted == null ? "" : " WHERE NOT " + DELETED)
            + " ON CONFLICT (" + joined(keys.stream()) + ") " + update());
    return statements;
  }

  private String matching(String newest) {
    return keys.stream()
        .map(key -> " AND t." + key + " = " + newest + "." + key)
        .collect(Collectors.joining());
  }

  /** A row that comes late does not replace a newer one, if the table tells which is newer. */
  private String unlessOlder(String value) {
    if (latest == null || latest.target() == null) {
      return "";
    }
    String there = "t." + latest.target();
    return " AND (" + there + " IS NULL OR " + value + " >= " + there + ")";
  }

  private String update() {
    String changed =
        joined(targets().filter(it -> !keys.contains(it)).map(it -> it + " = excluded." + it));
    if (changed.isEmpty()) {
      return "DO NOTHING";
    }
    String newer =
        latest == null || latest.target() == null
            ? ""
            : unlessOlder("excluded." + latest.target()).replaceFirst(" AND ", " WHERE ");
    return "DO UPDATE SET " + changed + newer;
  }

  private String insert(String alias) {
    return "INSERT INTO " + table + " AS " + alias + " (" + joined(targets()) + ")";
  }

  private Stream<String> targets() {
    return columns.stream().map(Column::target);
  }

  private static String joined(Stream<String> parts) {
    return parts.collect(Collectors.joining(", "));
  }
}
