"""Kafka clients: connections, topics, readers and senders."""
