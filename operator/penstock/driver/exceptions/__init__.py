"""Exceptions of Spark, Kafka and user code: read from the JVM, then classified as failures."""
