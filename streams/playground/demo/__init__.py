"""The demo: sample traffic, the services and their screens, on a local Kafka."""
