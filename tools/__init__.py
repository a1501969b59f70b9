"""Programs for maintainers: they write tables, fit weights, draw pictures and compare checkouts."""
