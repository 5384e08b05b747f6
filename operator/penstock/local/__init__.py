"""`penstock run`: the driver on one machine, with a view of it and, if wanted, a Kafka broker."""
