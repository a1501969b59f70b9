"""The rows of judged evaluations for the topic `documents`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable

from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.runtime.records import Emission
from ragweir.streams.services.judge.held_requests import HeldRequest
from ragweir.streams.services.shared.row_writer import EventRow, RowWriter


def judged_rows(writer: RowWriter, emitted: Iterable[HeldRequest]) -> list[Emission]:
    """Return the records of rows of the requests of a transaction that are settled by an evaluation."""
    rows = []
    for held in emitted:
        for each in held.result.emissions:
            if each.topic == "evaluations" and each.value is not None:
                evaluation = Evaluation.model_validate_json(each.value)
                # A request of a time without rows has the ids of some documents alone.
                documents = b64decode(held.request.documents) or writer.hashes.joined(evaluation.document_ids)
                rows.append(EventRow(evaluation, documents, b64decode(held.request.chunks)))
    return writer.emissions(rows)
