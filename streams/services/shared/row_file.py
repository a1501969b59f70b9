"""Reading of routing rows from a file, as `ragweir routing plan --export FILE` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragweir.errors import ConfigurationError
from ragweir.schemas.routing_row import RoutingRow
from ragweir.streams.services.shared.routing_rows import MAX_ROW_BYTES


def read_row_file(file: Path) -> Iterator[RoutingRow]:
    """Yield the rows of a file of JSON lines; empty lines are ignored.

    Raises:
        ConfigurationError: if the file cannot be read, or a line is not a row.
    """
    try:
        with file.open("rb") as lines:
            number = 0
            while line := lines.readline(MAX_ROW_BYTES + 1):
                number += 1
                if line.strip():
                    yield _row(line, f"{file}, line {number}")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None


def _row(line: bytes, place: str) -> RoutingRow:
    try:
        if len(line) <= MAX_ROW_BYTES:
            return RoutingRow.model_validate_json(line)
    except (ValueError, RecursionError):  # pydantic's error is a ValueError.
        pass
    raise ConfigurationError(f"{place}: not a routing row, as `ragweir routing plan --export FILE` writes them")
