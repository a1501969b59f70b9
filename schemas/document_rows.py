"""Rows of events on the topic `documents`: what each carried, and the verdicts on it.

A record has the rows of one batch and partition. Its columns are little-endian numbers in base64, one or more for each
row in the order of the rows:

| column | type | content |
|---|---|---|
| `offset` | i8 | offset of the interaction's record |
| `index` | u4 | index of the event within the record |
| `time` | i8 | event time in microseconds since 1970 |
| `session` | u8 | hash of the session, 0 for none |
| `question` | u8 | hash of the question's id, 0 for none |
| `field` | u2 | for each of `FIELDS` the number of the named value plus 1, 0 for none |
| `verdict` | u1 | for each of the criteria 0 bad, 1 good, 2 unanswered, 3 undefined, 4 not selected |
| `chance` | f8 | for each of the suites the probability of being judged |
| `value`, `value_count` | u2, u2 | numbers of the named values of facets, and how many each row has |
| `document`, `document_count` | u8, u1 | hashes of documents, and how many each row has |
| `chunk`, `chunk_count` | u8, u1 | hashes of chunks, and how many each row has |
| `label`, `label_name`, `label_count` | u8, u2, u1 | hashes of labels, the numbers of their names, and how many |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, FiniteFloat, NonNegativeInt

from ragweir.schemas.interaction import RecordPart

COLUMNS: Mapping[str, str] = {
    "offset": "<i8",
    "index": "<u4",
    "time": "<i8",
    "session": "<u8",
    "question": "<u8",
    "field": "<u2",
    "verdict": "<u1",
    "chance": "<f8",
    "value": "<u2",
    "value_count": "<u2",
    "document": "<u8",
    "document_count": "<u1",
    "chunk": "<u8",
    "chunk_count": "<u1",
    "label": "<u8",
    "label_name": "<u2",
    "label_count": "<u1",
}
"""The type of each column, as NumPy names it."""
FIELDS = ("application", "pipeline_version", "model", "tenant", "environment")
"""The fields of an evaluation that each row has."""
MAX_PARTS = 64
"""Number of documents, chunks and labels of one event that a row has, the first ones."""


class RowCriterion(RecordPart):
    """A metric and its threshold, on which the rows of a record have verdicts."""

    metric: str
    """Name of the metric."""
    threshold: FiniteFloat
    """Threshold between bad and good."""
    higher_is_better: bool
    """True if values below the threshold are bad."""
    suite: str | None = None
    """Suite that computes the metric; null for a metric that needs no judge."""


class DocumentRows(RecordPart):
    """The events of one batch of a partition, one row for each."""

    topic: str
    """Name of the topic that the interactions were read from."""
    partition: int
    """Number of its partition."""
    stage: Literal["scored", "judged"]
    """Stage of the evaluations: rows of stage `judged` have the verdicts of the judge, others all others."""
    catalogue_version: str
    """Version of the formulas."""
    run_id: str | None = None
    """Id of the replay; null if live."""
    rows: NonNegativeInt
    """Number of rows."""
    criteria: tuple[RowCriterion, ...] = ()
    """Metrics on which the rows have verdicts."""
    suites: tuple[str, ...] = ()
    """Suites of which the rows have the probability of being judged."""
    facets: tuple[str, ...] = ()
    """Names of the facets of named values, and of labels as `labels.NAME`."""
    values: tuple[tuple[NonNegativeInt, str], ...] = ()
    """Named values: the number of the facet, and the value. Long ones end in a digest."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Columns of the rows in base64, by name: little-endian numbers, see `ragweir.schemas.document_rows`."""
