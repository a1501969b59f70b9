"""Projections: read-only views of topics, kept outside Kafka."""
