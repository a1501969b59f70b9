"""A demo, local servers and a simulated judge, for a first try and for the tests; services do not import it."""
