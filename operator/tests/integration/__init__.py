"""Tests with real parts on this machine: Spark, a Kafka broker, an API server."""
