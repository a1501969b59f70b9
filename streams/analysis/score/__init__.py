"""Scoring of files."""
