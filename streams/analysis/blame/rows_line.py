"""The reading of a record of topic `documents`."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragweir.schemas.document_rows import COLUMNS

Column = NDArray[Any]


class CriterionLine(msgspec.Struct):
    """The fields of `ragweir.schemas.document_rows.RowCriterion`."""

    metric: str
    threshold: float
    higher_is_better: bool
    suite: str | None = None


class RowsLine(msgspec.Struct):
    """The fields of `ragweir.schemas.document_rows.DocumentRows` that are read."""

    topic: str
    partition: int
    stage: str
    rows: int
    criteria: tuple[CriterionLine, ...] = ()
    suites: tuple[str, ...] = ()
    facets: tuple[str, ...] = ()
    values: tuple[tuple[int, str], ...] = ()
    columns: dict[str, str] = msgspec.field(default_factory=dict)

    def column(self, name: str) -> Column:
        """Return the numbers of a column."""
        return np.frombuffer(b64decode(self.columns.get(name, ""), validate=True), dtype=COLUMNS[name])


_DECODER = msgspec.json.Decoder(RowsLine)


def read_rows(value: bytes) -> RowsLine:
    """Return the fields of a record.

    Raises:
        msgspec.MsgspecError: if it is none.
    """
    return _DECODER.decode(value)
