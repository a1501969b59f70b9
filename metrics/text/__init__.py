"""Analysis of texts: tokens, grammar, claims and phrases."""
