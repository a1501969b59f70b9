"""Service level objectives: alerting rules, their tests, and rehearsals on past events."""
