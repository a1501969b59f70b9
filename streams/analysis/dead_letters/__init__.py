"""Dead letters: listing and redrive."""
