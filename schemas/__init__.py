"""Records: one model per Kafka record, the table of topics, and the codecs."""
