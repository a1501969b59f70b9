"""Formats of Kafka records: bytes to interactions, and models to bytes."""
