"""Generates the reference pages of docs/ from the code; `python -m tools.reference` rewrites them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tools.reference import acls, commands, metrics, records, settings, single_tables

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "metrics": metrics.page,
    "settings": settings.page,
    "telemetry": single_tables.telemetry,
    "topics": single_tables.topics,
    "records": records.page,
    "commands": commands.page,
    "alerts": single_tables.alerts,
}
"""The generated part of each page, by the page's name."""


def rewritten(name: str, text: str) -> str:
    """Return the text of a page with its generated part (`<!-- metrics -->` to `<!-- /metrics -->`) as it is now."""
    between = re.compile(f"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
    return between.sub(lambda _: f"\n{PAGES[name]()}\n\n", text)


def rewrite() -> None:
    """Write the generated parts of all pages, and of the script that grants rights."""
    for name in PAGES:
        file = FOLDER / f"{name}.md"
        file.write_text(rewritten(name, file.read_text(encoding="utf-8")), encoding="utf-8")
    acls.SCRIPT.write_text(acls.rewritten(acls.SCRIPT.read_text(encoding="utf-8")), encoding="utf-8")
