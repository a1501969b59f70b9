"""A real Collector and real instrumented applications, for `make test-otel`."""
