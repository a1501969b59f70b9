"""Code that several services need: the configuration that all have, dimensions, routing rows."""
