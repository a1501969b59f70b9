"""The planner: makes the routing rows of applications from their past windows, and says what a dollar buys."""
