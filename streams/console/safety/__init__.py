"""Who may ask the console, from where, and how much."""
