"""`python -m tools.reference` writes the generated parts of the reference pages."""

from tools.reference import rewrite

rewrite()
