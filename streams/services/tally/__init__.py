"""The service `tally`, which keeps the newest feedback of each answer, name and giver, and counts it."""
