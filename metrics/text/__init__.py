"""How the metrics read texts: tokens, grammar, claims and phrases. No metric is defined here."""
