"""The service `match`, which finds the answer of each feedback."""
