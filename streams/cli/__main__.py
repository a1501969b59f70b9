"""`python -m ragweir.streams.cli` is `ragweir`."""

from ragweir.streams.cli import main

main()
