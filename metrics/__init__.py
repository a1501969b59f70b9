"""Metrics: pure functions of one interaction, the catalogue of them, and their aggregation over windows."""
