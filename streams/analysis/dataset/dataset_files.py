"""The files of a dataset: ragweir's own, and those of ragas, DeepEval, Langfuse and Opik.

tests/exports/README.md says how the tests know that each tool reads its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from ragweir.schemas.codec.json import encode
from ragweir.streams.analysis.dataset.items import DatasetItem

_ID_BYTES = 16


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def _own(items: Sequence[DatasetItem], _: str) -> bytes:
    """Write interactions, which `ragweir score` reads; `dataset` says where each comes from."""
    return _lines(
        _given(orjson.loads(encode(each.event)))
        | {"dataset": {name: own for name, own in each.origin().items() if name in _OWN}}
        for each in items
    )


_OWN = ("because", "people", "scores", "source", "duplicates", "redacted")


def _given(value: Any) -> Any:
    """Return plain data without the fields that are null or have no names."""
    if isinstance(value, list):
        return [_given(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _given(own) for name, own in value.items() if own not in (None, {})}


def _expected(item: DatasetItem) -> str | None:
    return item.event.expected[0] if item.event.expected else None


def _ragas(items: Sequence[DatasetItem], _: str) -> bytes:
    """Write samples, as `EvaluationDataset.from_jsonl` reads them; ragas has no place for where they come from."""
    return _lines(
        {
            "user_input": each.asked,
            "response": each.response,
            "retrieved_contexts": each.passages,
            "reference": _expected(each),
        }
        for each in items
    )


def _deepeval(items: Sequence[DatasetItem], _: str) -> bytes:
    """Write goldens, as `EvaluationDataset.add_goldens_from_json_file` reads them."""
    rows = [
        {
            "input": each.asked,
            "actual_output": each.response,
            "expected_output": _expected(each),
            "retrieval_context": each.passages,
            "name": each.event.event_id,
            "additional_metadata": each.origin(),
        }
        for each in items
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2) + b"\n"


def _langfuse(items: Sequence[DatasetItem], name: str) -> bytes:
    """Write the bodies of `POST /api/public/dataset-items`; the id makes that a second upload changes nothing."""
    return _lines(
        {
            "datasetName": name,
            "id": blake2b(orjson.dumps([name, each.event.event_id]), digest_size=_ID_BYTES).hexdigest(),
            "input": each.asked,
            "expectedOutput": _expected(each),
            "sourceTraceId": each.event.trace_id,
            "sourceObservationId": each.event.span_id if each.event.trace_id else None,
            "metadata": {**each.origin(), "response": each.response, "contexts": each.passages},
        }
        for each in items
    )


def _opik(items: Sequence[DatasetItem], _: str) -> bytes:
    """Write items, as `Dataset.read_jsonl_from_file` reads them; `source` and `trace_id` are names of its own."""
    return _lines(
        {
            "input": each.asked,
            "expected_output": _expected(each),
            "response": each.response,
            "contexts": each.passages,
            "metadata": each.origin(),
        }
        for each in items
    )


FORMATS: Mapping[str, Callable[[Sequence[DatasetItem], str], bytes]] = {
    "dataset.jsonl": _own,
    "ragas.jsonl": _ragas,
    "deepeval.json": _deepeval,
    "langfuse.jsonl": _langfuse,
    "opik.jsonl": _opik,
}
"""The names of the files, each with the function that writes it from the items and the name of the dataset."""
