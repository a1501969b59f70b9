"""Python values as JSON: mappings, dates, and the numbers, arrays and missing values of data frames."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from ragweir.errors import Rejected
from ragweir.streams.runtime.text.terminal import printable

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
_MISSING = ("NaTType", "NAType")
"""Types of the missing values of pandas; NaN is written as null by orjson."""


def as_json(event: Mapping[Any, Any]) -> bytes:
    """Return an event as JSON; what is missing, such as NaN, is null.

    >>> as_json({"event_id": 7, "contexts": ({"text": "Ada."},), "score": float("nan")})
    b'{"event_id":7,"contexts":[{"text":"Ada."}],"score":null}'

    Raises:
        Rejected: if it has a value that JSON has not. The message names the field.
    """
    try:
        return orjson.dumps(event, _plain, _OPTIONS)
    except TypeError as error:
        problem = str(error)
    field = next((name for name, value in event.items() if not _is_writable({name: value})), "")
    raise Rejected("invalid", f"{printable(str(field))}: it cannot be written as JSON ({printable(problem, 200)})")


def _is_writable(part: Mapping[Any, Any]) -> bool:
    try:
        orjson.dumps(part, _plain, _OPTIONS)
    except TypeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Return a value that orjson does not know as one that it knows."""
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, datetime):  # A timestamp of pandas.
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, Decimal):
        return float(value)
    listed = getattr(value, "tolist", None) or getattr(value, "to_list", None)  # Arrays and series.
    if listed is None:
        raise TypeError(type(value).__name__)
    return listed()
