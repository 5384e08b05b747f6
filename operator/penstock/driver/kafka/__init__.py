"""Asks Kafka about topics, partitions and offsets, through the admin client in the driver's JVM."""
