"""Event-driven streaming evaluation of RAG traffic on Kafka.

The code is `ragweir.schemas` (the records), `ragweir.metrics` (pure functions over them) and `ragweir.streams` (how
records flow). Importing one of them loads nothing of those behind it.
"""
