"""History: looking at, comparing and sending again what Kafka or files still hold."""
