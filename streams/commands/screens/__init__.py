"""Screens that several commands show: the summary of many evaluations, and the story of one event."""
