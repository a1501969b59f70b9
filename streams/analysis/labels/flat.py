"""Labels as flat rows, for tables: the draw and the score are columns of their own, as `draw_id`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from ragweir.schemas.codec.json import encode
from ragweir.schemas.label import Label, LabelDraw, LabelledScore

_PARTS: Mapping[str, tuple[str, ...]] = {
    "draw": tuple(LabelDraw.model_fields),
    "judged": tuple(LabelledScore.model_fields),
}
"""The fields that are objects, with their fields."""
_TYPES = {
    "value": "VARCHAR",
    "blind": "BOOLEAN",
    "time": "TIMESTAMPTZ",
    "event_time": "TIMESTAMPTZ",
    "seconds": "DOUBLE",
    "draw_probability": "DOUBLE",
    "judged_value": "DOUBLE",
    "judged_bad": "BOOLEAN",
    "judged_probability": "DOUBLE",
}


def columns() -> dict[str, str]:
    """Return the columns, with their types in Parquet."""
    names = [f"{field}_{part}" if part else field for field in Label.model_fields for part in _PARTS.get(field, ("",))]
    return {name: _TYPES.get(name, "VARCHAR") for name in names}


def flat(label: Label) -> dict[str, Any]:
    """Return a label as a row of `columns`; the dimensions are JSON text."""
    content = orjson.loads(encode(label))
    row: dict[str, Any] = {}
    for field in Label.model_fields:
        value = content.get(field)
        if field in _PARTS:
            row |= {f"{field}_{part}": (value or {}).get(part) for part in _PARTS[field]}
        else:
            row[field] = orjson.dumps(value).decode() if isinstance(value, dict) else value
    return row


def nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a label of its row, whether it is flat or not.

    >>> nested({"event_id": "1", "draw_id": "d", "draw_probability": 0.5, "dimensions": "{}"})
    {'event_id': '1', 'dimensions': {}, 'draw': {'id': 'd', 'probability': 0.5}}
    """
    parts_of = tuple(f"{each}_" for each in _PARTS)
    content = {name: value for name, value in row.items() if value is not None and not name.startswith(parts_of)}
    if isinstance(dimensions := content.get("dimensions"), str):
        with suppress(orjson.JSONDecodeError):  # It is then no label.
            content["dimensions"] = orjson.loads(dimensions or "{}")
    for field, names in _PARTS.items():
        parts = {name: value for name in names if (value := row.get(f"{field}_{name}")) is not None}
        if parts:
            content[field] = parts
    return content
