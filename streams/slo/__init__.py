"""Service level objectives: rules, rehearsals and their tests."""
