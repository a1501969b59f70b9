"""Applications that answer questions from documents, each with another framework, instrumented by OpenInference.

They run in environments of their own, so they import nothing of ragweir: `python -m tools.otel.applications.NAME`. They
read the documents and the questions from standard input, as JSON, and write a line of JSON for each answer.
"""
