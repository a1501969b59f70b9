"""The demo: the whole system on a Kafka of its own, with sample traffic written for it."""
