"""Protection from records that end a process or that Kafka rejects."""
