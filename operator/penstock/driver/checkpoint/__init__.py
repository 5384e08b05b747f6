"""Spark's checkpoint: read, checked, repaired, locked. Imports `driver.kafka`."""
