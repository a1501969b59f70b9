"""Traces that a command reads by itself: collected from files or a sample of a topic, assembled, and reported on."""
