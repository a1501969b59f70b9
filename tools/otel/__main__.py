"""`python -m tools.otel`: builds the Collector and the applications' environments."""

from __future__ import annotations

import sys

from ragweir.errors import LocalServerError
from tools.otel import collector, environments

if __name__ == "__main__":
    try:
        print(collector.binary())
        for requirements in sorted(environments.FOLDER.glob("*.txt")):
            print(environments.python(requirements.stem))
    except LocalServerError as error:
        sys.exit(str(error))
