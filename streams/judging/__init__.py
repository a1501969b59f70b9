"""Judging at the edge: the desk that calls the endpoint, what throttles it, and what becomes of requests."""
