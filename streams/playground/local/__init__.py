"""Kafka, Prometheus and Alertmanager on this machine, for the demo, the tests and a first try."""
