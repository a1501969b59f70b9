"""Chaos: faults in all services and in one broker or three, drawn from a seed, and a checker of all outputs."""
