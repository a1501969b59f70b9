"""`python -m chaos.mutant NAME evaluate --slot 0`: one slot of a service with one rule of the runtime broken."""

from __future__ import annotations

import sys

from chaos.mutants import MUTANTS
from ragweir.streams.cli import main

if __name__ == "__main__":
    name = sys.argv.pop(1)
    if name not in MUTANTS:
        sys.exit(f"there is no mutant {name!r}; there are {', '.join(MUTANTS)}")
    MUTANTS[name]()
    main()
