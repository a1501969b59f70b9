"""Chaos: all services on a real broker, hurt from a seed, and a checker that shares no code with them."""
