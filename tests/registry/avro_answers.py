"""Answered questions in a foreign Avro schema, of which there are two versions, and the map of their fields."""

from io import BytesIO
from typing import Any

import fastavro

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Answered",
    "namespace": "com.example.shop",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "question", "type": "string"},
        {"name": "answer", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "passages", "type": {"type": "array", "items": "string"}},
    ],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "model", "type": "string", "default": "m1"}]}
MAP = """
event_id = "id"
query = "question"
response = "answer"
ended_at = "at"
contexts = "passages"
"""
TIME_MS = 1_764_000_000_000


def avro(schema: Any, schema_id: int, number: int) -> bytes:
    out = BytesIO()
    out.write(b"\0" + schema_id.to_bytes(4, "big"))
    value = {
        "id": f"e{number}",
        "question": "What is the excess?",
        "answer": "The excess is $604.",
        "at": TIME_MS + number,
        "passages": ["Water damage carries an excess of $604."],
        "model": "m2",
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()
