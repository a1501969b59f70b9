"""`python -m streams.cli` is `ragweir`."""

from streams.cli import main

main()
