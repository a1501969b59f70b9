"""Benchmarks: `make bench` prints their tables, and `make bench-worst` and `make bench-peers` two more."""
