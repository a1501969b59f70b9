"""Judging at the edge: the pool that calls the endpoint, what throttles it, and what becomes of requests."""
