"""Executes the notebook of examples/ and saves it with its outputs: `python -m tools.notebook`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook.ipynb"
_SECONDS = 120


def executed() -> Any:
    """The notebook with the outputs of now, without what differs from run to run."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", record_timing=False)
    asyncio.run(client.async_execute(cwd=NOTEBOOK.parent))
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)  # type: ignore[no-untyped-call]
    sys.stdout.write(f"{NOTEBOOK} is executed\n")
