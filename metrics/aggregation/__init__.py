"""Aggregation of scores: summaries, windows, estimates and comparisons."""
