"""Windows of the past in formats of other programs."""
