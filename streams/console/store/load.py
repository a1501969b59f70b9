"""Loading of files of evaluations into the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ragweir.errors import PermanentError
from ragweir.schemas.evaluation_record import read_scored
from ragweir.streams.analysis.labels.store import read_labels
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.files.events import scan_events

_MAX_BYTES = 16 * 1024 * 1024
"""Size of the largest evaluation of a file."""
_FLUSH_ROWS = 2_000


class LoadedFiles(NamedTuple):
    """The numbers of lines that were read from files."""

    evaluations: int
    not_evaluations: int
    """Lines that are no evaluation."""
    rejected: int
    """Evaluations over a limit of the store."""


def load_evaluations(
    files: Sequence[Path], store: StoreWriter, on_bytes: Callable[[int], None] = lambda _: None
) -> LoadedFiles:
    """Load files of evaluations, as `ragweir score --out` writes them, in any format that is read.

    The position of an answer (`StoredAnswer.at`) is the place of its file among these, and the number of its line.

    Args:
        files: the files.
        store: the store, which is flushed.
        on_bytes: called with the number of bytes of each read.

    Raises:
        PermanentError: if a file cannot be read, or none of them holds an evaluation.
    """
    found = other = 0
    total = sum(file.stat().st_size for file in files if file.exists()) or 1
    done = 0

    def count(number: int) -> None:
        nonlocal done
        done += number
        on_bytes(number)

    for place, file in enumerate(files):
        try:
            for number, value in scan_events(file, _MAX_BYTES, count):
                evaluation = read_scored(value, _MAX_BYTES)
                if evaluation is None:
                    other += 1
                    continue
                found += 1
                store.take(evaluation, place, number)
                if store.taken >= _FLUSH_ROWS:
                    store.flush(read=min(1.0, done / total))
        except OSError as error:
            raise PermanentError(f"{file} cannot be read: {error.strerror}") from None
    store.flush()
    if not found:
        raise PermanentError(f"{', '.join(map(str, files))} holds no evaluation; `ragweir score --out` makes them")
    return LoadedFiles(found, other, store.rejected)


def load_labels(files: Sequence[Path], store: StoreWriter) -> None:
    """Load files of labels, as `ragweir labels rate` writes them.

    Raises:
        PermanentError: if a file cannot be read, or holds something else.
    """
    for file in files:
        content = read_labels(file)
        for draw in content.draws.values():
            store.take_draw(draw)
        for label in content.labels.values():
            store.take_label(label)
    store.flush()
