"""The routing row: what of an application's events the judge is to read, from one event time on."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import orjson
from pydantic import Field, FiniteFloat, NonNegativeInt

from ragweir.schemas.interaction import RecordPart, Time
from ragweir.schemas.times import parse_rfc3339

Share = Annotated[FiniteFloat, Field(ge=0, le=1)]


class RoutingRow(RecordPart):
    """The selection of one application's events by their bin of `unsupported_risk`.

    An event in a bin above `bin` is selected, one in `bin` with the probability `floor + (1 - floor) * at_bin`, and any
    other, with null among them, with the probability `floor`. The row of an event is the one of its application with
    the latest `effective_at` that is not after the event's time. Rows are only added: none is changed.
    """

    application: str | None
    """The interaction's `application`; null for events without one."""
    effective_at: Time
    """Event time from which the row holds; it is the row's revision in decisions."""
    share: Share
    """The share of events to be selected, `routing.share` when the row was made."""
    floor_share: Share
    """The part of them that is selected at random, `routing.floor_share` when the row was made."""
    bin: Annotated[int, Field(ge=-1, le=99)]
    """Bin of `unsupported_risk` in windows, of 100 from 0 to 1; -1 if every event with a value is selected."""
    at_bin: Share
    """Part of the events in this bin that is selected because of its risk."""
    floor: Share
    """Probability with which any event is selected at random."""
    events: NonNegativeInt = 0
    """Number of events from which the row was made; 0 for the shipped row."""
    window_start: Time | None = None
    """Begin of the windows from which the row was made; null for the shipped row."""
    window_end: Time | None = None
    """End of these windows; null for the shipped row."""

    def probability(self, risk_bin: int | None) -> float:
        """Return the probability of selecting an event, by the bin of its `unsupported_risk`.

        >>> row = RoutingRow(application="docs", effective_at="2026-11-22T00:00:00Z", share=0.1, floor_share=0.25,
        ...     bin=80, at_bin=0.5, floor=0.02)
        >>> row.probability(81), row.probability(80), row.probability(79), row.probability(None)
        (1.0, 0.51, 0.02, 0.02)
        """
        if risk_bin is None or risk_bin < self.bin:
            return self.floor
        return 1.0 if risk_bin > self.bin else self.floor + (1 - self.floor) * self.at_bin


def encode_row_key(application: str | None, effective_at: datetime) -> bytes:
    """Return the key of a row on the topic `control`.

    >>> from datetime import datetime, timezone
    >>> encode_row_key("docs", datetime(2026, 11, 22, tzinfo=timezone.utc))
    b'["docs","2026-11-22T00:00:00Z"]'
    """
    return orjson.dumps([application, effective_at], option=orjson.OPT_UTC_Z)


def parse_row_key(key: bytes | None) -> tuple[str | None, datetime]:
    """Return the application and the effective time of a key.

    Raises:
        ValueError: if it is not the key of a row.
    """
    parts = orjson.loads(key or b"")
    if isinstance(parts, list) and len(parts) == 2 and isinstance(parts[0], str | None) and isinstance(parts[1], str):
        return parts[0], parse_rfc3339(parts[1])
    raise ValueError("not the key of a routing row")
