"""Keys of the windows topic: those of the parts of windows, and those of the partitions' progress."""

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
    """Return a key as bytes; equal keys have equal bytes, in any order of their dimensions.

    >>> encode_window_key(ProgressKey(3))
    b'["progress",3]'
    """
    parts = [_PROGRESS, key.partition] if type(key) is ProgressKey else [*key]
    return orjson.dumps(parts, option=_OPTIONS)


def parse_window_key(key: bytes | None) -> WindowKey | ProgressKey:
    """Parse the key of a record of the windows topic.

    It is only checked that a window has a start and dimensions, and progress a partition.

    >>> parse_window_key(b'["2026-11-21T12:00:00Z",{"model":"m"},0,17]')
    WindowKey(start=datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.timezone.utc), dimensions={'model': 'm'},
    partition=0, part=17)

    Raises:
        ValueError: if it is neither of the two.
    """
    # Readers parse a key per revision, and a `match` alone takes longer than all of this.
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
