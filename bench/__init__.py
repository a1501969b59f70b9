"""Benchmarks. `python -m bench` prints the tables of `make bench`; every other benchmark is a module to run alone."""
