"""A window of one label set, merged over partitions, parts and smaller windows, and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from ragweir.metrics.aggregation.window_aggregate import WindowAggregate

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class MergedWindow:
    """A closed window of one label set. Its aggregate may be shared with other windows and is not to be changed."""

    size: str
    """Size, such as `1m`."""
    start: datetime
    end: datetime
    dimensions: Mapping[str, str]
    aggregate: WindowAggregate

    def encode(self) -> bytes:
        """Return the record, a `ragweir.schemas.window.Window`; the order in which it was merged makes no difference.

        >>> from datetime import UTC
        >>> start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
        >>> MergedWindow("1m", start, end, {"model": "m"}, WindowAggregate(events=3)).encode()[:44]
        b'{"window":"1m","start":"2026-01-01T00:00:00Z'
        """
        # Its fields are those of records that were checked when they were read, and sums over them: validating them
        # again would take most of the time of the end of a replay.
        fields = self.aggregate.fields(whole=True)
        for metric in fields["metrics"].values():
            histogram = metric["histogram"]
            bins = histogram["bins"]
            histogram["bins"] = {number: bins[number] for number in sorted(bins)}
        record = {
            "window": self.size,
            "start": self.start,
            "end": self.end,
            "dimensions": self.dimensions,
            "partition": None,
            "part": None,
            "events": fields.pop("events"),
            "late": fields.pop("late"),
            "revision": None,
            **fields,
            "closed": True,
        }
        return orjson.dumps(record, option=_OPTIONS)
