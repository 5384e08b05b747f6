package dev.penstock.spark.jdbc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** Of errors as PostgreSQL 15 sends them (the texts are its own): no value of a row is shown. */
class DatabaseExceptionTest {
  private static PSQLException error(String... fields) {
    StringBuilder sent = new StringBuilder();
    for (String field : fields) {
      sent.append(field).append('\0');
    }
    return new PSQLException(new ServerErrorMessage(sent.toString()));
  }

  static Stream<Arguments> errors() {
    return Stream.of(
        Arguments.of(
            error(
                "SERROR", "C22P02", "Minvalid input syntax for type integer: \"secret\"",
                "WCOPY s, line 2, column amount: \"secret\""),
            "SQLSTATE 22P02 (column amount)"),
        Arguments.of(
            error(
                "SERROR", "C23514", "Mnew row for relation \"orders\" violates check constraint",
                "DFailing row contains (1, secret).", "spublic", "torders", "npositive"),
            "SQLSTATE 23514 (table orders, constraint positive)"),
        Arguments.of(
            error(
                "SERROR", "C23514", "Mnew row for relation \"penstock_a_1\" violates secret",
                "tpenstock_a_1", "npositive", "WCOPY penstock_a_1, line 7: \"1\tsecret\""),
            "SQLSTATE 23514 (constraint positive)"),
        Arguments.of(
            error(
                "SERROR", "C22P02", "Minvalid input syntax for type json", "DToken secret",
                "WJSON data, line 1: secret\nCOPY penstock_a_1, line 7, column Große J: \"secret\""),
            "SQLSTATE 22P02 (column Große J)"),
        Arguments.of(
            error(
                "SERROR", "C23505", "Msecret", "csecret", "nsecret",
                "WPL/pgSQL function refuse() line 1 at RAISE"),
            "SQLSTATE 23505"),
        Arguments.of(
            error("SERROR", "CP0001", "Mthe trigger says secret"), "SQLSTATE P0001"),
        Arguments.of(
            error("SERROR", "C42501", "Mpermission denied for table orders"),
            "SQLSTATE 42501: permission denied for table orders"));
  }

  @Test
  void namesTheRecordOfTheLine() {
    PSQLException error = error("SERROR", "C22001", "Mtoo long", "WCOPY s, line 2, column a: \"x\"");
    ReadRecords read = new ReadRecords();
    read.add(null);
    assertEquals(0, DatabaseException.of(error, read).getSuppressed().length);
    read.add(null);
    assertEquals(0, DatabaseException.of(error, read).getSuppressed().length);
  }

  @ParameterizedTest
  @MethodSource("errors")
  void showsPlacesAndNoValues(PSQLException error, String wanted) {
    assertEquals(wanted, DatabaseException.of(error).getMessage());
  }
}
