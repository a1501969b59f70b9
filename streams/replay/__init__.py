"""Replays of history."""
