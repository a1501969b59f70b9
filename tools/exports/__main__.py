"""`python -m tools.exports NAME`: writes the fixtures of one product with its own SDK."""

from __future__ import annotations

import gzip
import importlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

# Two of the SDKs report usage unless they are told not to.
os.environ |= {"RAGAS_DO_NOT_TRACK": "true", "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "LANGSMITH_TRACING": "false"}

PINNED = {
    "ragas": ("ragas", "0.4.3"),
    "langfuse": ("langfuse", "5.0.4"),
    # The last version whose client reads whole traces; files of that time have their schema.
    "langfuse-traces": ("langfuse", "3.15.0"),
    "langsmith": ("langsmith", "0.15.0"),
    "trulens": ("trulens-core", "2.16.0"),
    "deepeval": ("deepeval", "4.3.1"),
}
"""For each name the package and its version."""

_LARGE = 40_000
"""Size in bytes above which a file is compressed."""


def main(name: str) -> None:
    package, pinned = PINNED[name]
    if (installed := version(package)) != pinned:
        sys.exit(f"the fixtures are those of {package} {pinned}, not {installed}")
    folder = Path(__file__).parents[2] / "tests" / "exports" / f"{name.partition('-')[0]}-{pinned}"
    folder.mkdir(parents=True, exist_ok=True)
    importlib.import_module(f"tools.exports.{name.replace('-', '_')}_sdk").write(folder)
    for file in sorted(folder.iterdir()):
        if file.stat().st_size > _LARGE and file.suffix != ".parquet":
            (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
            file.unlink()
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size:>8}  {file}")


if __name__ == "__main__":
    main(sys.argv[1])
