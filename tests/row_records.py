"""Reads the records of the topic `documents` row by row, without code of ragweir."""

import struct
from base64 import b64decode
from hashlib import blake2b
from typing import Any

import orjson

_TYPES = {
    "offset": "q",
    "index": "I",
    "time": "q",
    "session": "Q",
    "question": "Q",
    "field": "H",
    "verdict": "B",
    "chance": "d",
    "value": "H",
    "value_count": "H",
    "document": "Q",
    "document_count": "B",
    "chunk": "Q",
    "chunk_count": "B",
    "label": "Q",
    "label_name": "H",
    "label_count": "B",
}


def key_hash(key: str, text: str) -> int:
    """The hash of an id by a key."""
    own = blake2b(key.encode(), digest_size=32, person=b"documents").digest()
    return int.from_bytes(blake2b(text.encode(errors="replace"), key=own, digest_size=8).digest(), "little")


def rows_of(value: bytes) -> list[dict[str, Any]]:
    """The rows of a record."""
    record = orjson.loads(value)
    column: dict[str, list[Any]] = {}
    for name, kind in _TYPES.items():
        raw = b64decode(record["columns"].get(name, ""))
        column[name] = list(struct.unpack(f"<{len(raw) // struct.calcsize('<' + kind)}{kind}", raw))
    found = []
    facets, values = record["facets"], [(record["facets"][facet], text) for facet, text in record["values"]]

    def taken(name: str, count: int) -> list[Any]:
        own, column[name] = column[name][:count], column[name][count:]
        return own

    for place in range(record["rows"]):
        verdicts = taken("verdict", len(record["criteria"]))
        fields = taken("field", 5)
        labels = column["label_count"][place]
        found.append(
            {
                "stage": record["stage"],
                "run_id": record["run_id"],
                "at": (record["topic"], record["partition"], column["offset"][place], column["index"][place]),
                "time": column["time"][place],
                "session": column["session"][place],
                "question": column["question"][place],
                "verdicts": {each["metric"]: own for each, own in zip(record["criteria"], verdicts, strict=True)},
                "chances": dict(zip(record["suites"], taken("chance", len(record["suites"])), strict=True)),
                "fields": dict(values[each - 1] for each in fields if each),
                "facets": [values[each] for each in taken("value", column["value_count"][place])],
                "documents": taken("document", column["document_count"][place]),
                "chunks": taken("chunk", column["chunk_count"][place]),
                "labels": [
                    (facets[name], own)
                    for name, own in zip(taken("label_name", labels), taken("label", labels), strict=True)
                ],
            }
        )
    assert not any(column[name] for name in ("value", "document", "chunk", "label", "verdict", "chance", "field"))
    return found
