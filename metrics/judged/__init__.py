"""Suites of judged metrics, as conversations without I/O."""
