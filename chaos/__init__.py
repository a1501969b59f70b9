"""Chaos: all services on one real broker or on three, hurt from a seed, and a checker that shares no code with them."""
