"""The Schema Registry: its client, and the schemas that were asked for."""
