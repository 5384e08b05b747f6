package dev.penstock.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class PartitionClientsTest {
  @ParameterizedTest
  @CsvSource({"0, 10", "-1, 10", "512, 512", "3600000, 1000"})
  void noPollTimeoutKeepsACoreBusyOrSleepsThroughAnEpoch(long asked, long used) {
    assertEquals(Duration.ofMillis(used), PartitionClients.pollTimeout(asked));
  }
}
