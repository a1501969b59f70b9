"""What several services need: the configuration that all have, dimensions, routing rows."""
