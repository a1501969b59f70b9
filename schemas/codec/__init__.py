"""Formats of Kafka records: decoding of interactions, encoding of all records."""
