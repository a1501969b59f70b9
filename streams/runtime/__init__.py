"""The runtime of any agent: the records that it handles, the loop around it, Kafka, and the processes."""
