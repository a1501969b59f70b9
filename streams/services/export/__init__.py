"""Projections of topics outside Kafka; the Prometheus exporter is the first."""
