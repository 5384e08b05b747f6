package dev.penstock.spark.jdbc;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers the driver's questions to a database (driver/jdbc/admin.py), in JSON that the server
 * makes. Throws DatabaseException.
 */
public final class DatabaseAdmin implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(DatabaseAdmin.class);
  private static final int ANSWER_SECONDS = 30;
  /** Somebody uses it, or another role has made it. */
  private static final String[] NOT_DROPPED = {"55P03", "42501"};
  private static final String TABLE =
      """
      SELECT json_build_object(
        'table', quote_ident(n.nspname) || '.' || quote_ident(c.relname),
        'kind', CASE WHEN c.relkind = 'p' AND EXISTS (
          SELECT FROM pg_partition_tree(c.oid) AS leaf JOIN pg_class p ON p.oid = leaf.relid
          WHERE p.relkind = 'f') THEN 'f' ELSE c.relkind::text END,
        'shape', (SHAPE_OF),
        'isInsertable', (pg_relation_is_updatable(c.oid::regclass, true) & 8) = 8,
        'changesRows', EXISTS (
          SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal
            AND g.tgenabled <> 'D' AND (g.tgtype & 7) = 7),
        'rights', (
          SELECT json_agg(privilege) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS privilege
          WHERE has_any_column_privilege(c.oid, privilege)),
        'mayDelete', has_table_privilege(c.oid, 'DELETE'),
        'columns', (
          SELECT json_agg(json_build_object(
            'name', a.attname,
            'quoted', quote_ident(a.attname),
            'type', format_type(a.atttypid, a.atttypmod),
            'collation', (
              SELECT quote_ident(s.nspname) || '.' || quote_ident(l.collname)
              FROM pg_collation l JOIN pg_namespace s ON s.oid = l.collnamespace
              WHERE l.oid = a.attcollation AND l.oid <> t.typcollation),
            'plain', plain.type,
            'base', plain.base,
            'notNull', a.attnotnull,
            'hasDefault', a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL,
            'isGenerated', a.attgenerated <> '' OR a.attidentity = 'a') ORDER BY a.attnum)
          FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          CROSS JOIN LATERAL (
            WITH RECURSIVE behind AS (
              SELECT a.atttypid AS id, a.atttypmod AS modifier
              UNION ALL
              SELECT d.typbasetype, d.typtypmod FROM behind JOIN pg_type d ON d.oid = behind.id
              WHERE d.typtype = 'd')
            SELECT format_type(id, modifier) AS type, format_type(id, NULL) AS base
            FROM behind JOIN pg_type d ON d.oid = behind.id WHERE d.typtype <> 'd') AS plain
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
        'checks', (
          SELECT coalesce(json_agg(json_build_object(
            'name', quote_ident(k.conname),
            'condition', pg_get_expr(k.conbin, k.conrelid),
            'columns', (
              SELECT json_agg(a.attname) FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum = ANY (k.conkey)))), '[]')
          FROM pg_constraint k
          WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.convalidated
            AND k.conkey IS NOT NULL AND 0 <> ALL (k.conkey)),
        'uniqueKeys', (
          SELECT coalesce(json_agg(of_index.columns), '[]') FROM (
            SELECT json_agg(a.attname) AS columns
            FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
              AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
              AND i.indpred IS NULL AND i.indexprs IS NULL
            GROUP BY i.indexrelid) AS of_index)
      )::text
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(?)
      """
          .replace("SHAPE_OF", Target.SHAPE.replace("to_regclass(?)", "c.oid"));
  private static final String PLACE =
      """
      SELECT json_build_object(
        'schema', quote_ident(asked.name),
        'user', quote_ident(current_user),
        'database', quote_ident(current_database()),
        'isReadOnly', pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
        'hasSchema', n.oid IS NOT NULL,
        'mayCreateIn', n.oid IS NOT NULL
          AND has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE'),
        'mayCreateSchema', has_database_privilege(current_database(), 'CREATE'),
        'mayWriteLedger', l.oid IS NULL OR (
          has_table_privilege(l.oid, 'SELECT') AND has_table_privilege(l.oid, 'INSERT')
          AND has_table_privilege(l.oid, 'UPDATE'))
      )::text
      FROM (SELECT ?::text AS name) AS asked LEFT JOIN pg_namespace n ON n.nspname = asked.name
        LEFT JOIN pg_class l ON l.relnamespace = n.oid AND l.relname = 'ledger'
      """;

  private final Connection connection;

  /** {@code database}: the record, as JSON. */
  public DatabaseAdmin(String database) {
    connection = JdbcProvider.read(database, Database.class).connect(ANSWER_SECONDS);
  }

  /** The table that a name stands for, as in SQL; null if there is none. */
  public String table(String name) {
    return one(TABLE, name);
  }

  /** Where ledger and staging are to be, a schema by its exact name, and who asks. */
  public String place(String schema) {
    return one(PLACE, schema);
  }

  /** The row of a stream; null: the database does not know it. */
  public String ledger(String schema, String stream) {
    String ledger = Target.ledger(schema);
    if (one("SELECT to_regclass(?)::text", ledger) == null) {
      return null;
    }
    String asked =
        "SELECT json_build_object('id', id, 'token', token, 'run', run, 'batch', batch)::text FROM ";
    return one(asked + ledger + " WHERE stream = ?", stream);
  }

  /** The newest batch that this process has written for the stream; -1: none. */
  public long newestWritten(String stream) {
    return Ledger.newestWritten(stream);
  }

  /**
   * Makes only the next run write from now on: sessions of earlier ones are ended, and what they
   * have staged is dropped. False if the row has not the token any more with which it was read.
   *
   * @param id of the row, if it is a new one
   * @param before the row's token, empty for a new one
   * @param token the next one
   * @param next the run
   */
  public boolean takeOver(
      String schema, String stream, String id, String before, String token, long next) {
    if (one("SELECT to_regnamespace(?)::text", schema) == null) {
      create("CREATE SCHEMA " + schema);
    }
    create(
        "CREATE TABLE IF NOT EXISTS " + Target.ledger(schema)
            + " (stream text PRIMARY KEY, id text NOT NULL, token text NOT NULL,"
            + " run bigint NOT NULL, batch bigint NOT NULL,"
            + " rows bigint, hash bigint, written_at timestamptz)");
    endSessions(stream, next); // one may be frozen, with the row locked
    boolean isTaken = take(schema, List.of(stream, id, token, before), next);
    if (isTaken) {
      endSessions(stream, next); // that have begun in between
      dropStaging(schema, stream, next);
    }
    return isTaken;
  }

  private boolean take(String schema, List<String> texts, long next) {
    String taken =
        "INSERT INTO " + Target.ledger(schema) + " AS l (stream, id, token, run, batch)"
            + " VALUES (?, ?, ?, " + next + ", -1) ON CONFLICT (stream)"
            + " DO UPDATE SET run = excluded.run, token = excluded.token WHERE l.token = ?";
    try {
      connection.setAutoCommit(false);
      try (Statement bound = connection.createStatement();
          PreparedStatement statement = connection.prepareStatement(taken)) {
        bound.execute("SET LOCAL lock_timeout = '5s'");
        for (int i = 0; i < texts.size(); i++) {
          statement.setString(i + 1, texts.get(i));
        }
        int rows = statement.executeUpdate();
        connection.commit();
        connection.setAutoCommit(true);
        return rows == 1;
      }
    } catch (SQLException refused) {
      close(); // with what is open
      throw DatabaseException.of(refused);
    }
  }

  /** Two streams may do it at once, of which PostgreSQL refuses one. */
  private void create(String command) {
    try {
      run(command);
    } catch (DatabaseException refused) {
      if (!refused.isOf("23505", "42P06", "42P07")) {
        throw refused;
      }
    }
  }

  private void endSessions(String stream, long next) {
    String name = Target.prefix(stream);
    for (String pid :
        all(
            "SELECT pid::text || ' ' || substr(application_name, length(?) + 1)"
                + " FROM pg_stat_activity WHERE usename = session_user"
                + " AND pid <> pg_backend_pid() AND starts_with(application_name, ?)",
            name,
            name)) {
      String[] found = pid.split(" ", 2);
      if (isEarlier(found[1], next)) {
        one("SELECT pg_terminate_backend(?::int)::text", found[0]);
      }
    }
  }

  private void dropStaging(String schema, String stream, long next) {
    String name = Target.prefix(stream);
    for (String table :
        all(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace(?)"
                + " AND c.relkind = 'r' AND starts_with(c.relname, ?)",
            schema,
            name)) {
      if (isEarlier(table.substring(name.length()), next)) {
        drop(schema + "." + table);
      }
    }
  }

  private static boolean isEarlier(String run, long next) {
    return run.matches("\\d{1,18}") && Long.parseLong(run) < next;
  }

  private void drop(String table) {
    try {
      run("SET lock_timeout = '5s'; DROP TABLE IF EXISTS " + table + "; RESET lock_timeout");
    } catch (DatabaseException refused) {
      if (!refused.isOf(NOT_DROPPED)) {
        throw refused;
      }
      LOG.info("{} is left: {}", table, refused.getMessage());
    }
  }

  private List<String> all(String asked, String first, String second) {
    try (PreparedStatement statement = connection.prepareStatement(asked)) {
      statement.setString(1, first);
      statement.setString(2, second);
      ResultSet found = statement.executeQuery();
      List<String> rows = new ArrayList<>();
      while (found.next()) {
        rows.add(found.getString(1));
      }
      return rows;
    } catch (SQLException refused) {
      throw DatabaseException.of(refused);
    }
  }

  private String one(String asked, String of) {
    try {
      return Ledger.one(connection, asked, of);
    } catch (SQLException refused) {
      throw DatabaseException.of(refused);
    }
  }

  private void run(String command) {
    try (Statement statement = connection.createStatement()) {
      statement.execute(command);
    } catch (SQLException refused) {
      throw DatabaseException.of(refused);
    }
  }

  @Override
  public void close() {
    try {
      connection.close();
    } catch (SQLException gone) {
      // It is closed in any case.
    }
  }
}
