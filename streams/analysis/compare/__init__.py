"""Comparisons of two evaluations of the same events."""
