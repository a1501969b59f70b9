"""The store of the console: numbers and ids of evaluations in one SQLite file, in segments of columns."""
