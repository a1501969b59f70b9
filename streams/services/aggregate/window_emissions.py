"""The records of the windows topic: parts of windows, and the progress of partitions."""

from __future__ import annotations

from datetime import datetime

import orjson

from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.codec.json import encode
from ragweir.schemas.window import Progress
from ragweir.schemas.window_key import ProgressKey, WindowKey, encode_window_key
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Emission
from ragweir.streams.services.aggregate.window_times import EPOCH

SERVICE = "aggregate"


def part_emission(window: str, end: datetime, key: WindowKey, revision: int, contents: WindowAggregate) -> Emission:
    """Return the record of a part, a `ragweir.schemas.window.Window`."""
    # A model of it would cost more than the sums.
    record = orjson.dumps(
        {
            "window": window,
            "start": key.start,
            "end": end,
            "dimensions": key.dimensions,
            "partition": key.partition,
            "part": key.part,
            "revision": revision,
            **contents.fields(),
        },
        option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS,
    )
    name = encode_window_key(key)
    headers = cloud_event(SERVICE, "window", name.decode(), key.start, "application/json")
    return Emission("windows", name, record, headers, key.partition)


def progress_emission(progress: Progress) -> Emission:
    """Return the record of the progress of a partition."""
    name = encode_window_key(ProgressKey(progress.partition))
    headers = cloud_event(SERVICE, "progress", name.decode(), progress.watermark or EPOCH, "application/json")
    return Emission("windows", name, encode(progress), headers, progress.partition)
