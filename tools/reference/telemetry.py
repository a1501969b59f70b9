"""The series that services have about themselves, by service; the page has those of the windows."""

from __future__ import annotations

from collections.abc import Iterator

from ragweir.streams.runtime.serving.telemetry import TABLE, Instrument
from tools.reference.markdown import blocks, code, plain, table

HEAD = ("series", "kind", "labels", "meaning")


def page() -> str:
    """Return the generated part of the page."""
    return blocks(*(blocks(f"## {title}", table(HEAD, map(_row, lines))) for title, lines in sections()))


def sections() -> Iterator[tuple[str, list[Instrument]]]:
    """Yield the instruments of all services, and then those of some, by the services that have them."""
    owners = dict.fromkeys(line.by for line in TABLE)
    for by in sorted(owners, key=len):
        title = f"Series of {' and '.join(f'`{each}`' for each in by)}" if by else "Series of all services"
        yield title, [line for line in TABLE if line.by == by]


def _row(line: Instrument) -> tuple[str, ...]:
    return code(line.name), line.kind, ", ".join(map(code, line.labels)), plain(line.help)
