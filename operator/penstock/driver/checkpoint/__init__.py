"""Reads, checks, repairs and locks Spark's checkpoint. Imports `driver.kafka`."""
