"""A Kafka broker for `penstock run`, its topics, and a stream that is pointed at it."""
