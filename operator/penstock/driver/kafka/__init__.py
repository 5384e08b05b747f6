"""What the driver asks Kafka itself, through the admin client in the driver's JVM."""
