"""A Kafka of one's own: starts a broker on this machine for the demo, the tests and a first try."""
