"""The thumbs of simulated users: on answers of some hours ago, hours after them, as users give them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import orjson

from ragweir.errors import DemoError
from ragweir.schemas.feedback import JoinedFeedback
from ragweir.streams.playground.demo.rater import ungrounded
from ragweir.streams.playground.demo.sample_traffic import Encode
from ragweir.streams.playground.demo.samples import STAGING, interaction
from ragweir.streams.playground.process import wait_until
from ragweir.streams.runtime.kafka.blocking_publisher import BlockingPublisher
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.settings import Settings

ANSWERS = 36
"""Number of answers, of which users rate some."""
HOURS_AGO = 6
"""Time since the answers, in hours."""
RATED_OF = 3
"""One answer in this number gets no thumb."""
_WRONG_OF = 11
"""The user of one answer in this number gives the wrong thumb."""
_FIRST = 10_000
"""Number of the first answer: those before have other ids."""
_SECONDS = 60.0
Thumbs = Mapping[str, Counter[str]]
"""By pipeline version, the number of thumbs up and down."""


def given_thumbs(
    settings: Settings, publisher: BlockingPublisher, encode: Encode, check: Callable[[], None], now: datetime
) -> Thumbs:
    """Publish answers of hours ago and thumbs on some of them, and return the thumbs once they are joined.

    Args:
        settings: the demo's.
        publisher: sends the records of the answers.
        encode: returns the records of an answer.
        check: raises an error if the services have ended.
        now: the time.

    Raises:
        DemoError: if they are not joined in a minute.
    """
    rated: dict[str, bytes] = {}
    for number in range(ANSWERS):
        ended_at = now - timedelta(hours=HOURS_AGO) + timedelta(minutes=number)
        event = interaction(_FIRST + number, ended_at) | {"environment": STAGING}
        for key, value in encode(event):
            publisher.send(value, None if key is None else key.encode())
        if number % RATED_OF:
            is_bad = event["response"] in ungrounded()
            thumb = {
                # The id of the event is another one if it is assembled from a trace.
                "trace_id": event["trace_id"],
                "name": "thumbs",
                "value": "down" if is_bad is (number % _WRONG_OF != 1) else "up",
                "giver": f"user {number}",
                "time": ended_at + timedelta(hours=1 + number % (HOURS_AGO - 1)),
            }
            rated[event["trace_id"]] = orjson.dumps(thumb)
    with BlockingPublisher(settings, f"{settings.topics.prefix}feedback") as thumbs:
        for trace_id, value in rated.items():
            thumbs.send(value, trace_id.encode())
    found: list[JoinedFeedback] = []

    def all_joined() -> bool:
        topic = f"{settings.topics.prefix}feedback.joined"
        records = read(settings, offset_range(settings, topic))
        found[:] = [JoinedFeedback.model_validate_json(each.value) for each in records if each.value is not None]
        return len(found) >= len(rated)

    late = DemoError(f"the thumbs are not joined after {_SECONDS:.0f} s")
    wait_until(all_joined, check, _SECONDS, late)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in found:
        counts[each.dimensions["pipeline_version"]][str(each.value)] += 1
    return counts
