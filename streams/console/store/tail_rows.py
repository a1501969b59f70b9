"""The tail of the store: the rows that are in no segment yet, those of a flush as one row of the table `tail`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from ragweir.streams.console.store.layout import HEAD
from ragweir.streams.console.store.row_maker import StoredRow

_BLOBS = "heads", "layouts", "scores", "id_lengths", "ids", "document_counts", "documents"
_PUT = f"insert into tail values (?, ?{', ?' * len(_BLOBS)})"  # noqa: S608
_READ = f"select {', '.join(_BLOBS)} from tail order by first"  # noqa: S608


def append(db: sqlite3.Connection, first: int, rows: Sequence[StoredRow]) -> None:
    """Append rows, all of one segment.

    Args:
        db: the store, in a transaction.
        first: number of the first row.
        rows: at least one.
    """
    ids = [row.event_id.encode("utf-8", "surrogatepass") for row in rows]
    documents = [row.documents for row in rows]
    blobs = (
        b"".join([row.head for row in rows]),
        np.array([row.layout for row in rows], "<u4").tobytes(),
        b"".join([row.scores for row in rows]),
        np.array([len(each) for each in ids], "<u4").tobytes(),
        b"".join(ids),
        bytes([len(each) // 4 for each in documents]),
        b"".join(documents),
    )
    db.execute(_PUT, (first, len(rows), *blobs))


class TailRows(NamedTuple):
    """Rows of the tail as columns."""

    heads: NDArray[Any]
    """With the fields of `HEAD`."""
    metrics: list[int]
    """Numbers of the metrics that one of the rows has."""
    scores: NDArray[np.float64]
    """Values by metric and row; NaN for none."""
    id_lengths: NDArray[np.uint32]
    """Bytes of each event id."""
    ids: bytes
    document_counts: NDArray[np.uint8]
    """Number of the documents of each row."""
    documents: bytes
    """Digests of the documents."""

    @classmethod
    def read(cls, db: sqlite3.Connection) -> TailRows:
        """Return the rows, of which there is at least one."""
        columns = zip(*db.execute(_READ), strict=True)
        heads, layouts, scores, id_lengths, ids, document_counts, documents = (b"".join(each) for each in columns)
        known = {number: orjson.loads(metrics) for number, metrics in db.execute("select id, metrics from layout")}
        return cls(
            np.frombuffer(heads, HEAD),
            *_by_metric(np.frombuffer(layouts, "<u4"), np.frombuffer(scores, "<f8"), known),
            np.frombuffer(id_lengths, "<u4"),
            ids,
            np.frombuffer(document_counts, np.uint8),
            documents,
        )


def _by_metric(
    layouts: NDArray[np.uint32], scores: NDArray[np.float64], known: Mapping[int, Sequence[int]]
) -> tuple[list[int], NDArray[np.float64]]:
    """Return the numbers of the metrics of some rows, and the values by metric and row.

    Args:
        layouts: the layout of each row.
        scores: the values of all rows, row after row.
        known: the metrics of each layout.
    """
    used = np.unique(layouts).tolist()
    metrics = sorted({metric for layout in used for metric in known[layout]})
    at = {metric: place for place, metric in enumerate(metrics)}
    places = {layout: np.flatnonzero(layouts == layout) for layout in used}
    sizes = np.zeros(len(layouts), np.int64)
    for layout in used:
        sizes[places[layout]] = len(known[layout])
    starts = np.cumsum(sizes) - sizes
    found = np.full((len(metrics), len(layouts)), np.nan)
    for layout in used:
        own = np.array([at[metric] for metric in known[layout]], np.int64)
        values = scores[starts[places[layout]][:, None] + np.arange(len(own))]
        found[own[:, None], places[layout]] = values.T
    return metrics, found
