"""Wrong clocks and hostile label values, from evaluations to what Prometheus is shown, without Kafka and with it."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from metrics.catalogue import Catalogue, everything
from metrics.closing import Closing
from metrics.totals import Totals
from schemas.window import OVERFLOW
from streams.agents.agent import Record
from streams.agents.aggregate import AggregateAgent, AggregateConfig
from streams.dimensions import admission_limits
from streams.serving.exporter import Exposition
from streams.settings import WindowSettings

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOTALS = Totals(Catalogue(everything()))
REAL = ("claims", "search", "support")
METRICS = ("context_support", "bigram_support", "unsupported_risk", "total_latency_ms", "input_tokens")


def evaluation(at: datetime, application: str) -> bytes:
    scores = dict.fromkeys(METRICS, 0.5)
    data = {"event_id": "1", "event_time": at, "application": application, "scores": scores, "catalogue_version": "1"}
    return orjson.dumps(data)


class Pipeline:
    """Aggregate and export in one process: evaluations in, the exposition out, by a clock of its own."""

    def __init__(self, **windows: Any) -> None:
        settings = WindowSettings(**windows)
        self.agent = AggregateAgent(AggregateConfig(TOTALS, settings))
        self.agent.restore(0, None, 0, iter(()))
        limits = admission_limits(settings)
        self.closing = Closing(settings.sizes, settings.dimensions, TOTALS.reading(), settings.grace_s, limits)
        self.exposition = Exposition(settings.dimensions, [])
        self.offset = 0
        self.counts: Counter[str] = Counter()
        self.series: set[str] = set()
        """Every series of windows that a scrape has seen."""
        self.events: dict[str, dict[str, int]] = {}
        """Of the windows that are shown: events by size and application."""

    def send(self, now: datetime, *values: bytes) -> None:
        """One commit of records that are written now, and what export makes of it."""
        stamp_ms = round(now.timestamp() * 1000)
        records = [
            Record("evaluations", 0, self.offset + each, None, value, stamp_ms) for each, value in enumerate(values)
        ]
        self.offset += len(records)
        outcome = self.agent.handle(records)
        self.agent.settled(committed=True)
        self.counts += Counter({name[0]: number for name, number in outcome.counts.items()})
        for each in outcome.emissions:
            self.closing.take(each.key, each.value, now.timestamp())
        closed = self.closing.advance(now.timestamp())
        self.exposition.show(closed.values())
        for size, window in closed.items():
            self.events[size] = {labels[0]: contents.events for labels, contents in window.sets.items()}
        if closed:
            lines = self.exposition.content.decode().splitlines()
            self.series |= {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


# A clock that is fast.


def test_one_fast_clock_hides_nobody() -> None:
    """Nine applications are on time, the tenth four minutes ahead: all ten are shown, with all their events."""
    pipeline = Pipeline()
    honest = [f"honest-{number}" for number in range(9)]
    for second in range(800):
        now = NOON + timedelta(seconds=second)
        values = [evaluation(now - timedelta(milliseconds=300), name) for name in honest]
        pipeline.send(now, *values, evaluation(now + timedelta(minutes=4), "fast"))
    assert pipeline.counts["ragweir_late_events_total"] == 0
    assert pipeline.events["1m"] == dict.fromkeys((*honest, "fast"), 60)
    assert pipeline.events["5m"] == dict.fromkeys((*honest, "fast"), 300)


# A backlog.


@pytest.mark.parametrize("seed", range(3))
def test_what_a_backlog_shows_is_complete_in_the_end(seed: int) -> None:
    """All records are stamped now and their event times come in any order: no timestamp bounds a watermark."""
    pipeline, draw = Pipeline(), random.Random(seed)
    moments = [
        (NOON + timedelta(seconds=second, minutes=4 * (name == "ahead")), name)
        for second in range(0, 7_200, 6)
        for name in (*REAL, "ahead")
    ]
    draw.shuffle(moments)
    now = NOON + timedelta(days=1)
    for first in range(0, len(moments), 100):
        now += timedelta(seconds=1)
        pipeline.send(now, *(evaluation(at, name) for at, name in moments[first : first + 100]))
    now += timedelta(seconds=20)
    pipeline.send(now, evaluation(NOON + timedelta(hours=2, minutes=1), "ahead"))
    wanted: dict[str, Counter[str]] = {}
    for size, minutes, end in (("1m", 1, 122), ("5m", 5, 120), ("1h", 60, 120)):
        start = NOON + timedelta(minutes=end - minutes)
        wanted[size] = Counter(name for at, name in moments if start <= at < start + timedelta(minutes=minutes))
    assert pipeline.counts["ragweir_late_events_total"] > 1_000
    assert pipeline.events == wanted


# Label sets.


def test_new_label_sets_neither_hide_the_known_nor_flood_prometheus() -> None:
    """Three applications come first, then 200 new ones begin every minute for ten minutes, ahead of the three."""
    pipeline = Pipeline()
    for minute in range(12):
        now = NOON + timedelta(minutes=minute)
        attack = [evaluation(now, f"attack-{minute}-{each}") for each in range(200 if minute else 0)]
        pipeline.send(now + timedelta(seconds=1), *attack, *(evaluation(now, name) for name in REAL))
        if "1m" in pipeline.events:
            assert {name: pipeline.events["1m"][name] for name in REAL} == dict.fromkeys(REAL, 1)
    assert pipeline.events["1m"] == {**dict.fromkeys(REAL, 1), OVERFLOW: 200}
    assert pipeline.counts["ragweir_window_overflow_total"] == 11 * 200 - 100
    applications = {line.partition('application="')[2].partition('"')[0] for line in pipeline.series}
    assert len(applications - {""}) <= 100 + len(REAL) + 1
    per_set = len([line for line in pipeline.series if 'application="claims"' in line])
    assert len(pipeline.series) <= per_set * 105
