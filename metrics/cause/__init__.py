"""The facets of answers that carry an excess of bad ones, and how certain that is."""
