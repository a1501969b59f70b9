"""The keys of the windows topic: one of each part of a window, and one of each partition's progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import orjson

from ragweir.schemas.times import parse_rfc3339

_PROGRESS = "progress"
_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_SORT_KEYS


class WindowKey(NamedTuple):
    """The key of one part of a window."""

    start: datetime
    """In UTC."""
    dimensions: Mapping[str, str]
    partition: int
    """The partition of `evaluations` that the part counts."""
    part: int
    """See `ragweir.schemas.window.Window.part`."""


class ProgressKey(NamedTuple):
    """The key of one partition's progress."""

    partition: int


def encode_window_key(key: WindowKey | ProgressKey) -> bytes:
    """Write a key; equal keys have equal bytes, whatever the order of their dimensions.

    >>> encode_window_key(ProgressKey(3))
    b'["progress",3]'
    """
    parts = [_PROGRESS, key.partition] if type(key) is ProgressKey else [*key]
    return orjson.dumps(parts, option=_OPTIONS)


def parse_window_key(key: bytes | None) -> WindowKey | ProgressKey:
    """Read the key of a record of the windows topic.

    Only what a key is recognised by is checked: a start with dimensions, or a progress with its partition.

    >>> parse_window_key(b'["2026-11-21T12:00:00Z",{"model":"m"},0,17]')
    WindowKey(start=datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.timezone.utc), dimensions={'model': 'm'},
    partition=0, part=17)

    Raises:
        ValueError: if it is neither of the two.
    """
    # As plain as it can be: a `match` alone takes longer than all of this, and readers see a key per revision.
    try:
        parts = orjson.loads(key or b"")
        if isinstance(parts, list):
            if len(parts) == 4 and isinstance(parts[0], str) and isinstance(parts[1], dict):
                return WindowKey(parse_rfc3339(parts[0]), *parts[1:])
            if len(parts) == 2 and parts[0] == _PROGRESS and isinstance(parts[1], int):
                return ProgressKey(parts[1])
    except ValueError:
        pass
    raise ValueError("neither the key of a window nor that of a partition's progress")
