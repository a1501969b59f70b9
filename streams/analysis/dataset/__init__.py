"""Regression sets: the answers that people or scores found bad, as datasets of ragweir and other tools."""
