"""What a first try and the tests need: a demo, local servers and a simulated judge. Services do not import it."""
