"""Real things to test against: a Kafka broker, an API server, a whole cluster. See README.md."""
