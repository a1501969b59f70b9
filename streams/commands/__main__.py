"""`python -m ragweir.streams.commands` is `ragweir`."""

from ragweir.streams.commands import main

main()
