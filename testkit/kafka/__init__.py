"""Real Kafka brokers on loopback, their jars and image, and numbered records."""
