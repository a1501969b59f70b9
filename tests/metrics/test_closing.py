"""Closing: what the merged windows hold, when each is closed, and what bounds the memory of it all."""

import json
import random
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pytest
from commands import ragweir
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Admission, AdmissionLimits, Labels, admit_sets
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.merger import ClosedWindow, WindowMerger
from ragweir.metrics.aggregation.selection import Chance
from ragweir.metrics.aggregation.summary import Scheme, Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, WindowDecoder, merged
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.window import OVERFLOW, Progress, Window, duration_s
from ragweir.schemas.window_record import parse_window
from ragweir.streams.services.aggregate.windowing import Windowing
from ragweir.streams.settings import WindowSettings

SIZES = ("1m", "5m", "1h")
DIMENSIONS = ("application",)
RATIO = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
TIME = Scheme(None, None, 1_000, 1)
SCHEMES = {"support": RATIO, "latency_ms": TIME}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
GRACE = 30


def reading() -> WindowDecoder:
    return WindowDecoder(SCHEMES, {"relevance": "rubric"})


def contents(
    support: Iterable[float] = (), latency_ms: Iterable[float] = (), events: int | None = None
) -> WindowAggregate:
    own = list(support)
    kept = {"support": Summary.of(own, RATIO), "latency_ms": Summary.of(list(latency_ms), TIME)}
    return WindowAggregate(
        events=len(own) if events is None else events,
        metrics={name: summary for name, summary in kept.items() if summary.count},
        versions={"1"},
    )


def record(
    start: int, own: WindowAggregate, application: str = "a", partition: int = 0, part: int = 0, size: str = "1m"
) -> tuple[bytes, bytes]:
    """A record as the aggregate agent writes it."""
    dimensions = {"application": application}
    begin = EPOCH + timedelta(seconds=start)
    window = Window(
        window=size,
        start=begin,
        end=begin + timedelta(seconds=60),
        dimensions=dimensions,
        partition=partition,
        part=part,
        revision=1,
        **own.fields(),
    )
    key = orjson.dumps([begin, dimensions, partition, part], option=orjson.OPT_UTC_Z)
    return key, orjson.dumps(window.model_dump(), option=orjson.OPT_UTC_Z)


def progress(partition: int, watermark: int | None, *, idle: bool = False) -> tuple[bytes, bytes]:
    time = None if watermark is None else EPOCH + timedelta(seconds=watermark)
    own = Progress(partition=partition, next_offset=1, watermark=time, idle=idle)
    return orjson.dumps(["progress", partition]), orjson.dumps(own.model_dump(), option=orjson.OPT_UTC_Z)


def limits(most: int) -> AdmissionLimits:
    return AdmissionLimits(most, new_per_hour=most, hold_s=7200)


def closing(most: int = 200, max_bytes: int = 2**28) -> WindowMerger:
    return WindowMerger(SIZES, DIMENSIONS, reading(), GRACE, limits(most), max_bytes)


def take(into: WindowMerger, *records: tuple[bytes, bytes | None]) -> None:
    for key, value in records:
        into.take(key, value, BEGIN + 10**6)


def events(closed: dict[str, ClosedWindow]) -> dict[tuple[str, int], dict[Labels, int]]:
    """Per size and minute: events per label set."""
    return {
        (size, (window.start_s - BEGIN) // 60): {labels: own.events for labels, own in window.sets.items()}
        for size, window in closed.items()
    }


# What the merged windows hold.


@dataclass(frozen=True)
class Event:
    minute: int
    application: str
    partition: int
    support: float
    latency_ms: float


def traffic(seed: int) -> list[Event]:
    draw = random.Random(seed)
    return [
        Event(draw.randrange(130), draw.choice("abc"), draw.randrange(3), draw.random(), draw.lognormvariate(5, 2))
        for _ in range(3_000)
    ]


def parts(traffic: list[Event], seed: int) -> list[tuple[bytes, bytes]]:
    """The records of this traffic: each window of a partition in up to three parts, each part revised as it grows."""
    draw = random.Random(seed)
    grown: defaultdict[tuple[int, str, int, int], list[Event]] = defaultdict(list)
    records = []
    for event in traffic:
        key = event.minute, event.application, event.partition, draw.randrange(3)
        grown[key].append(event)
        if draw.random() < 0.3 or len(grown[key]) == 1:
            records.append(key)
    latest = dict.fromkeys([*records, *grown])
    revisions = [(key, grown[key][: max(1, len(grown[key]) // 2)]) for key in records]
    revisions += [(key, grown[key]) for key in latest]
    return [
        record(
            BEGIN + minute * 60,
            contents([event.support for event in own], [event.latency_ms for event in own]),
            application,
            partition,
            part,
        )
        for (minute, application, partition, part), own in revisions
    ]


def plainly(
    traffic: Iterable[Event], first: int, minutes: int
) -> dict[str, tuple[int, float, float, float, list[float]]]:
    """Per application, by plain arithmetic: events, sum, least and greatest support, and all latencies in order."""
    own: defaultdict[str, list[Event]] = defaultdict(list)
    for event in traffic:
        if first <= event.minute < first + minutes:
            own[event.application].append(event)
    return {
        name: (
            len(events),
            round(sum(round(event.support, 6) for event in events), 6),
            min(event.support for event in events),
            max(event.support for event in events),
            sorted(event.latency_ms for event in events),
        )
        for name, events in own.items()
    }


@pytest.fixture
def into() -> WindowMerger:
    return closing()


@pytest.mark.heavy
@pytest.mark.parametrize("step", [1, 7, 60])
def test_merged_windows_equal_plain_recomputation(step: int) -> None:
    """However often windows are closed, all sizes hold exactly the events of their time, over partitions and parts."""
    all_events = traffic(1)
    into = closing()
    # The records of a minute come before the watermark passes it.
    records = sorted(parts(all_events, 2), key=lambda pair: orjson.loads(pair[0])[0])
    shown: list[ClosedWindow] = []
    for minute in range(0, 131, step):
        bound = (EPOCH + timedelta(seconds=BEGIN + (minute + step) * 60)).isoformat().replace("+00:00", "Z")
        while records and orjson.loads(records[0][0])[0] < bound:
            take(into, records.pop(0))
        for partition in range(3):
            take(into, progress(partition, BEGIN + (minute + step) * 60 + GRACE))
        shown += into.advance(0).values()
    assert {window.size for window in shown} == set(SIZES)
    for window in shown:
        first = (window.start_s - BEGIN) // 60
        wanted = plainly(all_events, first, duration_s(window.size) // 60)
        assert {labels[0] for labels in window.sets} == wanted.keys()
        for (application,), own in window.sets.items():
            count, total, least, most, latencies = wanted[application]
            support, latency = own.metrics["support"], own.metrics["latency_ms"]
            assert (own.events, support.count, support.total / 1e6, support.minimum, support.maximum) == (
                count,
                count,
                total,
                least,
                most,
            )
            for share in (0.5, 0.9):
                true = latencies[int(share * (count - 1))]
                assert latency.quantile(share) == pytest.approx(true, rel=0.0101, abs=1e-9)


summaries = st.lists(st.floats(0, 1), max_size=5)
labels_counted = st.dictionaries(
    st.sampled_from("xy"), st.dictionaries(st.sampled_from("pq"), st.integers(1, 9), min_size=1), max_size=2
)


@st.composite
def any_contents(draw: st.DrawFn) -> WindowAggregate:
    own = contents(draw(summaries), draw(st.lists(st.floats(-1e12, 1e12), max_size=5)), draw(st.integers(0, 9)))
    own.late = draw(st.integers(0, 3))
    own.categories, own.decisions = draw(labels_counted), draw(labels_counted)
    own.versions = draw(st.sets(st.sampled_from("12")))
    for name, subject in (("support", EstimatedMetric("x")), ("class=a", EstimatedMetric("y"))):
        own.chances[subject.suite] = Chance(draw(st.floats(0.01, 1)), draw(st.integers(0, 2)))
        for score, probability in draw(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), max_size=3)):
            own.estimates.setdefault(name, Estimate(subject)).add(score, probability)
    return own


@pytest.mark.slow
@given(any_contents(), any_contents(), any_contents())
def test_merging_has_no_order_and_an_identity(
    one: WindowAggregate, two: WindowAggregate, three: WindowAggregate
) -> None:
    """Merging is associative and commutative, with the empty contents as identity, and leaves its arguments alone."""
    before = [each.fields() for each in (one, two, three)]
    assert merged([merged([one, two]), three]).fields() == merged([one, merged([two, three])]).fields()
    assert merged([one, two]).fields() == merged([two, one]).fields()
    assert merged([one, WindowAggregate()]).fields() == merged([WindowAggregate(), one]).fields() == one.fields()
    assert [each.fields() for each in (one, two, three)] == before


@given(any_contents())
def test_contents_survive_their_record(own: WindowAggregate) -> None:
    """What is written and read back merges as what was never written."""
    _, value = record(BEGIN, own)
    again = reading().decode(parse_window(value))
    assert again.fields() == own.fields()


def test_another_scheme_is_refused_and_counted() -> None:
    """A record whose metric was summarised otherwise is left out and counted; the others are shown."""
    with pytest.raises(ValueError, match="cannot be merged"):
        WindowAggregate(metrics={"support": Summary(TIME)}).merge(WindowAggregate(metrics={"support": Summary(RATIO)}))
    into = closing()
    foreign = WindowAggregate(events=1, metrics={"support": Summary.of([0.5], TIME)})
    take(into, record(BEGIN, foreign, "foreign"), record(BEGIN, contents([0.5])), progress(0, BEGIN + 60 + GRACE))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 1}}
    assert into.fates["unreadable"] == 1


@pytest.mark.parametrize("name", ["relevance", "of a pack that is gone"])
def test_an_estimate_by_another_suite_is_refused_and_counted(name: str, into: WindowMerger) -> None:
    """Also where it comes in a later minute of an hour; of what is not known the first one counts."""

    def judged(suite: str) -> WindowAggregate:
        estimate = Estimate(EstimatedMetric(suite))
        estimate.add(0.5, 1.0)
        return WindowAggregate(events=1, estimates={name: estimate})

    take(
        into,
        record(BEGIN, judged("rubric")),
        record(BEGIN, judged("another"), "b"),
        record(BEGIN + 60, judged("another"), "c"),
        progress(0, BEGIN + 3600 + GRACE),
    )
    assert events(into.advance(0))["1h", 0] == {("a",): 1}
    assert into.fates["unreadable"] == 2


UNREADABLE = (
    (None, b"{}"),
    (b"", b"{}"),
    (b"\xff", b"{}"),
    (b"[]", b"{}"),
    (b'["progress"]', b"{}"),
    (b'["progress",0]', b"{"),
    (b'["progress",0]', b'{"watermark":"never"}'),
    (b'["yesterday",{},0,0]', b"{}"),
    (b"[1,{},0,0]", b"{}"),
    (b'["2026-01-01T00:00:00Z",[],0,0]', b"{}"),
    (b"[" * 10_000, b"{}"),
)


@pytest.mark.parametrize(("key", "value"), UNREADABLE, ids=lambda part: repr(part)[:30])
def test_what_is_no_record_of_ours_is_counted(key: bytes | None, value: bytes, into: WindowMerger) -> None:
    """Neither a strange key nor a strange progress raises or changes anything."""
    take(into, (key, value))  # type: ignore[arg-type]
    assert (into.fates, into.held_bytes) == ({"unreadable": 1}, 0)


@pytest.mark.parametrize("value", [b"", b"{", b"{}", b"[]", b"null", b'{"window":"1m"}'])
def test_what_is_no_window_is_counted_when_it_closes(value: bytes, into: WindowMerger) -> None:
    """A value that is no window is found out at its close and takes nothing with it."""
    key, _ = record(BEGIN, contents([0.5]), "strange")
    take(into, (key, value), record(BEGIN, contents([0.5])), progress(0, BEGIN + 60 + GRACE))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 1}}
    assert into.fates["unreadable"] == 1


def test_windows_of_another_base_size_are_left_out(into: WindowMerger) -> None:
    """After `windows.sizes` was changed, records of the former base size are not mixed with the new ones."""
    take(into, record(BEGIN, contents([0.5]), size="30s"), record(BEGIN, contents([0.1]), part=1))
    take(into, progress(0, BEGIN + 60 + GRACE))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 1}}


def test_a_newer_record_replaces_the_older(into: WindowMerger) -> None:
    """Of the revisions of one part only the last counts; other parts and partitions add up."""
    take(into, record(BEGIN, contents([0.1])), record(BEGIN, contents([0.1, 0.2])), record(BEGIN, contents([0.3] * 5)))
    take(into, record(BEGIN, contents([0.5]), part=9), record(BEGIN, contents([0.5]), partition=1))
    take(into, progress(0, BEGIN + 60 + GRACE), progress(1, BEGIN + 60 + GRACE))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 7}}


def test_a_tombstone_removes_its_part(into: WindowMerger) -> None:
    """A deleted part does not count, nor does a window of nothing but deleted parts take an earlier one's place."""
    key, _ = record(BEGIN, contents([0.1] * 3), part=1)
    gone, _ = record(BEGIN + 60, contents([0.1]))
    take(into, record(BEGIN, contents([0.1])), record(BEGIN, contents([0.1] * 3), part=1), (key, None))
    take(into, record(BEGIN + 60, contents([0.1])), (gone, None), (gone, None), progress(0, BEGIN + 600))
    assert events(into.advance(0))["1m", 0] == {("a",): 1}
    assert into.fates["removed"] == 3


# When windows close.


END = BEGIN + 60
CLOSES = END + GRACE
CLOCK = 10**12
STATES = (
    ("all beyond", [(CLOSES, False), (CLOSES + 5, False)], 0, True),
    ("exactly at the end of grace", [(CLOSES, False)], 0, True),
    ("a second before", [(CLOSES - 1, False)], CLOCK, False),
    ("one lags", [(CLOSES + 99, False), (CLOSES - 1, False)], CLOCK, False),
    ("the laggard is idle", [(CLOSES + 99, False), (CLOSES - 1, True)], 0, True),
    ("one has seen nothing, and may yet", [(CLOSES + 99, False), (None, False)], CLOCK, False),
    ("one has seen nothing and is idle", [(CLOSES + 99, False), (None, True)], 0, True),
    ("all idle, and its time is over", [(BEGIN + 5, True), (None, True)], CLOSES, True),
    ("all idle, and its time is not over", [(BEGIN + 5, True), (None, True)], CLOSES - 1, False),
    ("no partition has ever told its progress", [], CLOSES, True),
)


@pytest.mark.parametrize(("states", "now", "closes"), [each[1:] for each in STATES], ids=[each[0] for each in STATES])
def test_a_window_closes_when_no_partition_can_add_to_it(
    states: list[tuple[int | None, bool]], now: float, closes: bool, into: WindowMerger
) -> None:
    """Partitions that are not idle hold a window open until their watermark has passed its end and the grace."""
    take(into, record(BEGIN, contents([0.5])))
    take(into, *(progress(partition, watermark, idle=idle) for partition, (watermark, idle) in enumerate(states)))
    assert events(into.advance(now)) == ({("1m", 0): {("a",): 1}} if closes else {})


def test_an_idle_pause_does_not_close_the_hour(into: WindowMerger) -> None:
    """With all partitions idle in the middle of an hour, only the windows whose time is over close."""
    take(into, record(BEGIN, contents([0.5])), progress(0, BEGIN + 10, idle=True))
    assert events(into.advance(CLOSES)) == {("1m", 0): {("a",): 1}}
    take(into, record(BEGIN + 240, contents([0.5] * 2)), progress(0, BEGIN + 3600 + GRACE))
    assert events(into.advance(0)) == {("1m", 4): {("a",): 2}, ("5m", 0): {("a",): 3}, ("1h", 0): {("a",): 3}}


def test_a_returning_partition_reopens_nothing(into: WindowMerger) -> None:
    """A partition that comes back from idleness with an old watermark holds the next windows open, not the closed."""
    take(into, record(BEGIN, contents([0.5])), progress(0, CLOSES), progress(1, BEGIN - 600, idle=True))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 1}}
    take(into, progress(1, BEGIN - 600), record(BEGIN, contents([0.1]), partition=1), progress(0, CLOSES + 600))
    take(into, record(BEGIN + 60, contents([0.1] * 4)))
    assert events(into.advance(LATER)) == {("1m", 0): {("a",): 2}}, "what came late is shown"
    take(into, progress(1, CLOSES + 60))
    assert events(into.advance(LATER)) == {("1m", 1): {("a",): 4}}
    assert not into.fates["late"]


def test_a_minute_whose_hour_has_closed_revises_it(into: WindowMerger) -> None:
    """What comes between an idle pause and the hour it closed is a window of its own, and one more of the hour."""
    take(into, record(BEGIN + 57 * 60, contents([0.5])), progress(0, BEGIN + 57 * 60, idle=True))
    assert {size for size, _ in events(into.advance(BEGIN + 3600 + GRACE))} == set(SIZES)
    take(into, record(BEGIN + 58 * 60, contents([0.5] * 2)), progress(0, BEGIN + 3600 + GRACE))
    closed = into.advance(0)
    assert events(closed) == {("1m", 58): {("a",): 2}, ("5m", 55): {("a",): 3}, ("1h", 0): {("a",): 3}}
    assert {size: window.revised for size, window in closed.items()} == {"1m": False, "5m": True, "1h": True}
    assert not into.fates["late"]


# What comes late.


LATER = 10**6
"""A clock by which an earlier revision was long ago."""


def test_a_late_revision_takes_the_place_of_what_is_shown(into: WindowMerger) -> None:
    """A revision, a new part and a new label set after the close enter their window, and the larger ones once each."""
    take(into, record(BEGIN, contents([0.5])), record(BEGIN, contents([0.5] * 2), partition=1), progress(0, CLOSES))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 3}}
    take(into, record(BEGIN, contents([0.5, 0.1])), record(BEGIN, contents([0.5] * 4), part=7))
    take(into, record(BEGIN, contents([0.2]), "b"))
    closed = into.advance(LATER)
    assert events(closed) == {("1m", 0): {("a",): 8, ("b",): 1}}
    assert closed["1m"].revised
    assert closed["1m"].sets["a",].metrics["support"].minimum == 0.1
    assert into.advance(2 * LATER) == {}
    take(into, record(BEGIN, contents([0.2] * 2), "b"), record(BEGIN + 60, contents([0.5])), progress(0, BEGIN + 3630))
    assert events(into.advance(0)) == {
        ("1m", 1): {("a",): 1},
        ("5m", 0): {("a",): 9, ("b",): 2},
        ("1h", 0): {("a",): 9, ("b",): 2},
    }
    assert not into.fates["late"]
    take(into, record(BEGIN, contents([0.2] * 3), "b"))
    assert events(into.advance(2 * LATER)) == {("5m", 0): {("a",): 9, ("b",): 3}, ("1h", 0): {("a",): 9, ("b",): 3}}


def test_what_is_older_than_all_that_is_shown_is_late(into: WindowMerger) -> None:
    """It has no place where it could be seen; so is a tombstone for what was merged."""
    take(into, record(BEGIN, contents([0.5])), record(BEGIN + 3600, contents([0.5])), progress(0, BEGIN + 7230))
    assert events(into.advance(0)).keys() == {("1m", 60), ("5m", 60), ("1h", 60)}
    take(into, record(BEGIN, contents([0.5] * 2)), (record(BEGIN + 3600, contents([0.5]))[0], None))
    assert into.advance(LATER) == {}
    assert into.fates["late"] == 2


def test_revisions_come_at_most_every_ten_seconds(into: WindowMerger) -> None:
    """A judge revises closed windows with every commit; a window that closes takes what has come with it."""
    take(into, record(BEGIN, contents([0.5])), progress(0, CLOSES))
    into.advance(1000)
    found = []
    for second in range(25):
        take(into, record(BEGIN, contents([0.5] * (second + 2))))
        found += [second] * bool(into.advance(1000 + second))
    assert found == [10, 20]
    take(into, record(BEGIN + 60, contents([0.5])), progress(0, CLOSES + 60))
    assert into.advance(1025).keys() == {"1m"}
    take(into, record(BEGIN + 120, contents([0.5])), progress(0, CLOSES + 240))
    assert events(into.advance(1025))["5m", 0] == {("a",): 28}, "nothing is missing in the larger window"


@pytest.mark.slow
def test_a_call_revises_a_bounded_number_of_records(into: WindowMerger) -> None:
    """Of a backlog of revisions the newest windows are revised first, and the others by and by."""
    for minute in range(5):
        take(into, *(record(BEGIN + minute * 60, contents(events=1), part=part) for part in range(400)))
    take(into, progress(0, BEGIN + 330))
    assert events(into.advance(0))["5m", 0] == {("a",): 2_000}
    for minute in range(5):
        take(into, *(record(BEGIN + minute * 60, contents(events=2), part=part) for part in range(400)))
    found = [events(into.advance(now)) for now in (1_000, 1_005, 1_010, 1_020)]
    assert found == [
        {("1m", 4): {("a",): 800}, ("5m", 0): {("a",): 3_200}},
        {},
        {("5m", 0): {("a",): 4_000}},
        {},
    ]


def test_a_part_that_shrinks_is_no_revision(into: WindowMerger) -> None:
    """A record with fewer events than its predecessor is counted as unreadable, and what was merged stays."""
    take(into, record(BEGIN, contents([0.5, 0.2])), progress(0, CLOSES))
    into.advance(0)
    take(into, record(BEGIN, contents([0.5] * 3)), record(BEGIN, contents([0.2]), "b"))
    assert events(into.advance(LATER)) == {("1m", 0): {("a",): 2, ("b",): 1}}
    assert into.fates["unreadable"] == 1
    take(into, record(BEGIN, contents([0.5, 0.2, 0.2])))
    assert events(into.advance(2 * LATER)) == {("1m", 0): {("a",): 3, ("b",): 1}}


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
def test_windows_that_are_shown_equal_plain_recomputation_however_late_records_come(seed: int) -> None:
    """In a backlog the watermark is far ahead of most records; in the end all windows that are shown are complete."""
    all_events, draw = traffic(seed), random.Random(seed)
    revisions: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for key, value in parts(all_events, seed + 10):
        revisions[key].append(value)
    turns = [key for key, values in revisions.items() for _ in values]
    draw.shuffle(turns)
    into, shown = closing(), dict[str, ClosedWindow]()
    take(into, *(progress(partition, BEGIN + 130 * 60 + GRACE) for partition in range(3)))
    for now, key in enumerate(turns):
        take(into, (key, revisions[key].pop(0)))
        if draw.random() < 0.05:
            shown |= into.advance(now)
    shown |= into.advance(LATER)
    assert {(size, window.start_s - BEGIN) for size, window in shown.items()} == {
        ("1m", 129 * 60),
        ("5m", 125 * 60),
        ("1h", 60 * 60),
    }
    for window in shown.values():
        wanted = plainly(all_events, (window.start_s - BEGIN) // 60, duration_s(window.size) // 60)
        found = {
            name: (own.events, (own.metrics["support"]).total / 1e6, *extremes(own.metrics["support"]))
            for (name,), own in window.sets.items()
        }
        assert found == {name: own[:4] for name, own in wanted.items()}
    assert into.fates["late"] > 100


def extremes(summary: Summary) -> tuple[float | None, float | None]:
    return summary.minimum, summary.maximum


def test_after_a_restart_only_the_last_windows_are_shown() -> None:
    """Of a long history read at once, each size shows its last closed window, as an exporter that never stopped."""
    restarted, steady = closing(), closing()
    shown: dict[str, ClosedWindow] = {}
    needless, _ = record(BEGIN, contents([0.5]), part=1)
    take(restarted, (needless, b"would be found unreadable if it were decoded"))
    for minute in range(200):
        own = record(BEGIN + minute * 60, contents([0.5] * (minute + 1)))
        reached = progress(0, BEGIN + (minute + 1) * 60 + GRACE)
        take(restarted, own, reached)
        take(steady, own, reached)
        shown |= steady.advance(0)
    assert events(restarted.advance(0)) == events(shown)
    assert +restarted.fates == {"held": 201}
    assert events(shown).keys() == {("1m", 199), ("5m", 195), ("1h", 120)}


def test_an_idle_label_set_leaves(into: WindowMerger) -> None:
    """A label set that the next closed window does not have is not in it."""
    take(into, record(BEGIN, contents([0.5]), "a"), record(BEGIN, contents([0.5]), "b"), progress(0, CLOSES))
    assert events(into.advance(0)) == {("1m", 0): {("a",): 1, ("b",): 1}}
    take(into, record(BEGIN + 60, contents([0.5]), "b"), progress(0, CLOSES + 60))
    assert events(into.advance(0)) == {("1m", 1): {("b",): 1}}


def test_other_dimensions_are_merged_over() -> None:
    """Records of other settings count under our dimensions: merged over what we lack, empty where they lack it."""
    into = WindowMerger(SIZES, ("application", "model"), reading(), GRACE, limits(200))
    take(into, record(BEGIN, contents([0.5])), progress(0, CLOSES))
    assert events(into.advance(0)) == {("1m", 0): {("a", ""): 1}}


# What bounds memory.


@pytest.mark.slow
def test_label_sets_stay_within_the_cap() -> None:
    """Of 1,000 label sets in each window, every size shows the cap and an overflow set, and loses no event.

    Those of the first minute that are busiest stay, as long as they come; nobody takes a place that was given.
    """
    into = closing(most=50)
    for minute in range(10):
        for number in range(1_000):
            own = contents(events=1 + 1_000 * (number < 10))
            take(into, record(BEGIN + minute * 60, own, f"{minute if number >= 10 else 'busy'}-{number}"))
        take(into, progress(0, BEGIN + (minute + 1) * 60 + GRACE))
        closed = into.advance(0)
    take(into, progress(0, BEGIN + 3600 + GRACE))
    found = events(closed | into.advance(0))
    assert {place: len(sets) for place, sets in found.items()} == {("1m", 9): 11, ("5m", 5): 11, ("1h", 0): 51}
    for (size, _), sets in found.items():
        assert {(f"busy-{number}",) for number in range(10)} < sets.keys()
        assert sum(sets.values()) == 11_000 * min(10, duration_s(size) // 60)
    assert into.folded["1m"] == 950 + 9 * 990


def test_a_cap_does_not_flap() -> None:
    """A label set that was shown keeps its place when others become busier; an hour without it frees the place."""
    into = closing(most=2)
    found = []
    for minute, own in enumerate(({"a": 1, "b": 2}, {"a": 1, "b": 1, "c": 99}, {"a": 1, "c": 99}, {"b": 1, "c": 99})):
        take(into, *(record(BEGIN + minute * 60, contents(events=number), name) for name, number in own.items()))
        take(into, progress(0, CLOSES + minute * 60))
        found.append({labels[0]: number for labels, number in events(into.advance(0))["1m", minute].items()})
    assert found == [{"a": 1, "b": 2}, {"a": 1, "b": 1, OVERFLOW: 99}, {"a": 1, OVERFLOW: 99}, {"b": 1, OVERFLOW: 99}]
    late = BEGIN + 3 * 7200
    take(into, record(late, contents(events=1), "c"), progress(0, late + 60 + GRACE))
    assert events(into.advance(0))["1m", 3 * 120] == {("c",): 1}


def test_a_revision_of_what_went_into_overflow_stays_there() -> None:
    """Were it shown apart once there is room, it would be shown with a part of its events."""
    into = WindowMerger(SIZES, DIMENSIONS, reading(), GRACE, AdmissionLimits(most=9, new_per_hour=1, hold_s=7200))
    take(into, record(BEGIN, contents(events=1), "a"))
    for events_of_c in (5, 7):
        take(into, record(BEGIN + 60, contents(events=9), "b"), record(BEGIN + 60, contents(events=events_of_c), "c"))
        take(into, progress(0, CLOSES + 60))
        assert events(into.advance(LATER * events_of_c))["1m", 1] == {("b",): 9, (OVERFLOW,): events_of_c}
        into._admission.advance(BEGIN + 10**6)  # There is room again.


@given(st.dictionaries(st.tuples(st.sampled_from([*"abcdefgh", OVERFLOW])), st.integers(0, 3)), st.integers(1, 4))
def test_the_cap_loses_no_event_and_knows_no_order(counts: dict[Labels, int], most: int) -> None:
    """Capping keeps the total, keeps to the number, and gives the same for the label sets in another order."""
    sets = {labels: contents(events=number) for labels, number in counts.items()}
    kept, folded = admit_sets(sets, Admission(limits(most)), 0)
    backwards, _ = admit_sets(dict(reversed(sets.items())), Admission(limits(most)), 0)
    assert sum(own.events for own in kept.values()) == sum(counts.values())
    assert len(kept.keys() - {(OVERFLOW,)}) == min(most, len(counts.keys() - {(OVERFLOW,)}))
    assert folded == counts.keys() - kept.keys()
    assert {labels: own.fields() for labels, own in kept.items()} == {
        labels: own.fields() for labels, own in backwards.items()
    }


def test_clocks_in_the_future_are_not_held(into: WindowMerger) -> None:
    """A window that begins over 5 minutes after its record was written is dropped and counted."""
    for ahead, _ in ((300, True), (301, False), (10 * 365 * 86_400, False)):
        into.take(*record(BEGIN + ahead, contents([0.5])), BEGIN)
    assert into.fates == {"held": 1, "ahead": 2}


def test_beyond_the_bound_the_oldest_go_and_nothing_partial_is_shown() -> None:
    """With a partition that stands still, records stay within their bound; windows that lost some are not shown."""
    weight = sum(map(len, record(BEGIN, contents([0.5]))))
    into = closing(max_bytes=90 * weight)
    take(into, progress(1, BEGIN))
    for minute in range(150):
        take(into, record(BEGIN + minute * 60, contents([0.5])))
        assert into.held_bytes <= 90 * weight
    assert into.fates["evicted"] == 60
    take(into, progress(0, BEGIN + 130 * 60 + GRACE), progress(1, BEGIN + 119 * 60 + GRACE))
    assert events(into.advance(0)) == {("1m", 118): {("a",): 1}, ("5m", 110): {("a",): 5}}
    take(into, progress(1, BEGIN + 200 * 60 + GRACE), progress(0, BEGIN + 130 * 60 + GRACE))
    assert events(into.advance(0)) == {("1m", 129): {("a",): 1}, ("5m", 125): {("a",): 5}, ("1h", 60): {("a",): 60}}


def test_an_hour_that_lost_a_minute_is_not_shown() -> None:
    """The hour in which records were evicted closes without being shown."""
    weight = sum(map(len, record(BEGIN, contents([0.5]))))
    into = closing(max_bytes=30 * weight)
    for minute in range(60):
        take(into, record(BEGIN + minute * 60, contents([0.5])))
    take(into, progress(0, BEGIN + 3600 + GRACE))
    assert {size for size, _ in events(into.advance(0))} == {"1m", "5m"}


@pytest.mark.slow
def test_closed_windows_leave_nothing_behind(into: WindowMerger) -> None:
    """After ten days of traffic, held are the records since the hour that is shown began, and their accumulators."""
    most = 0
    for minute in range(0, 14_400, 10):
        take(into, record(BEGIN + minute * 60, contents([0.5])), progress(0, BEGIN + minute * 60 + 90))
        into.advance(0)
        most = max(most, len(into._bases))
    assert most == 12
    assert {size: len(running) for size, running in into._running.items()} == {"1m": 1, "5m": 2, "1h": 2}


def test_records_that_were_merged_go_first_and_nothing_goes_with_them() -> None:
    """Beyond the bound closed windows can no longer be revised, but they are shown whole, the hour too."""
    weight = sum(map(len, record(BEGIN, contents([0.5]))))
    into = closing(max_bytes=10 * weight)
    for minute in range(60):
        take(into, record(BEGIN + minute * 60, contents([0.5])), progress(0, CLOSES + minute * 60))
        closed = into.advance(0)
        assert into.held_bytes <= 10 * weight
    assert events(closed) == {("1m", 59): {("a",): 1}, ("5m", 55): {("a",): 5}, ("1h", 0): {("a",): 60}}
    take(into, record(BEGIN, contents([0.5] * 2)), record(BEGIN + 59 * 60, contents([0.5] * 2)))
    assert events(into.advance(LATER)) == {("1m", 59): {("a",): 2}, ("5m", 55): {("a",): 6}, ("1h", 0): {("a",): 61}}
    assert +into.fates == {"held": 61, "late": 1}


@pytest.mark.heavy
def test_held_records_take_the_memory_that_was_given() -> None:
    """The measured memory of 4,900 records is bounded, though their bytes are many times the bound."""
    own = contents([number / 1000 for number in range(1000)], [1.5**number for number in range(-50, 50)])
    bound = 1_000_000
    into, came = closing(max_bytes=bound), 0
    tracemalloc.start()
    for minute in range(70):
        for partition in range(70):
            key, value = record(BEGIN + minute * 60, own, "a", partition)
            came += len(value)
            take(into, (bytes(bytearray(key)), value))  # orjson's own bytes take more than their length.
        take(into, progress(0, CLOSES + minute * 60))
        into.advance(0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert came > 10 * bound
    assert kept < 2 * bound


# Windows of a file.


CATALOGUE = Catalogue(everything())


def evaluations(seed: int) -> list[Evaluation]:
    draw = random.Random(seed)
    return [
        Evaluation(
            event_id=str(number),
            event_time=EPOCH + timedelta(seconds=BEGIN + draw.randrange(7_200), milliseconds=draw.randrange(1000)),
            application=draw.choice(["a", "b", None]),
            labels={"region": draw.choice(["eu", "us"])},
            scores={
                "context_support": draw.choice([None, round(draw.random(), 6)]),
                "total_latency_ms": round(draw.lognormvariate(6, 1), 3),
            },
            categories={"recall_warning": draw.choice([None, "HIT_RETRIEVAL_LIMIT"])},
            catalogue_version="1",
        )
        for number in range(2_500)
    ]


def windows_of(evaluations: Iterable[Evaluation], **settings: object) -> list[Window]:
    windowing = Windowing(WindowSettings.model_validate(settings), Aggregator(CATALOGUE))
    for evaluation in evaluations:
        windowing.add(evaluation)
    return [Window.model_validate_json(each.encode()) for each in windowing.windows()]


def _plain_windows(evaluations: Iterable[Evaluation]) -> Iterator[tuple[Any, ...]]:
    for size in ("1m", "5m", "1h"):
        seconds = duration_s(size)
        groups: defaultdict[tuple[int, str, str], list[Evaluation]] = defaultdict(list)
        for each in evaluations:
            start = int(each.event_time.timestamp()) // seconds * seconds
            groups[start, each.application or "", each.labels["region"]].append(each)
        for (start, application, region), own in sorted(groups.items()):
            support = [value for each in own if (value := each.scores["context_support"]) is not None]
            latency = [each.scores["total_latency_ms"] or 0.0 for each in own]
            warned = sum(each.categories["recall_warning"] is not None for each in own)
            yield (
                size,
                start,
                start + seconds,
                {"application": application, "labels.region": region},
                len(own),
                len(support),
                round(sum(round(value * 1e6) for value in support) / 1e6, 6),
                min(support, default=None),
                max(support, default=None),
                round(sum(round(value * 1e3) for value in latency) / 1e3, 3),
                warned,
            )


@pytest.mark.slow
def test_windows_of_a_file_equal_plain_recomputation() -> None:
    """Every size has one window per start and label set, by end, with the counts, sums, extremes of its events."""
    own = evaluations(1)
    found = [
        (
            window.window,
            window.start.timestamp(),
            window.end.timestamp(),
            window.dimensions,
            window.events,
            window.metrics["context_support"].count if "context_support" in window.metrics else 0,
            window.metrics["context_support"].sum if "context_support" in window.metrics else 0.0,
            window.metrics["context_support"].min if "context_support" in window.metrics else None,
            window.metrics["context_support"].max if "context_support" in window.metrics else None,
            window.metrics["total_latency_ms"].sum,
            window.categories.get("recall_warning", {}).get("HIT_RETRIEVAL_LIMIT", 0),
        )
        for window in windows_of(own, dimensions=["application", "labels.region"])
    ]
    assert found == sorted(_plain_windows(own), key=lambda window: (window[2], -window[1], *window[3].values()))


def test_windows_of_a_file_are_merged_and_closed() -> None:
    """Their records say so: no partition, no part, closed."""
    found = windows_of(evaluations(2))
    assert {(window.partition, window.part, window.closed, window.late) for window in found} == {(None, None, True, 0)}


def judging(seed: int) -> list[Evaluation]:
    """Evaluations of the rubric: one in eight demanded, a fifth of the rest drawn, and all of these judged."""
    draw = random.Random(seed)
    made = []
    for scored in evaluations(seed)[:600]:
        probability = draw.choice([1.0, *[0.2] * 7])
        selected = draw.random() < probability
        status = "selected" if selected else "not_selected"
        suite = SuiteDecision(suite="rubric", status=status, probability=probability)
        made.append(scored.model_copy(update={"decision": Decision(suites=(suite,))}))
        if selected:
            judged = {
                "stage": "judged",
                "decision": Decision(suites=(suite.model_copy(update={"status": "judged"}),)),
                "scores": {**scored.scores, "judge_relevance": round(draw.random(), 6)},
            }
            made.append(scored.model_copy(update=judged))
    return made


@pytest.mark.slow
def test_windows_of_a_file_say_what_estimates_come_to() -> None:
    """Every size has the weighted mean of its own judged events, the same in whatever order they come."""
    own = judging(1)
    found = windows_of(own, dimensions=["application"])
    for window in found:
        of_window = [
            each
            for each in own
            if window.start <= each.event_time < window.end
            and (each.application or "") == window.dimensions["application"]
        ]
        judged = [each for each in of_window if each.stage == "judged"]
        assert window.events == len(of_window) - len(judged)
        assert window.decisions["rubric"].get("judged", 0) == len(judged)
        chances = Counter(each.decision.suites[0].probability < 1 for each in of_window if each.stage == "scored")
        scores: dict[bool, list[float]] = {True: [], False: []}
        for each in judged:
            scores[each.decision.suites[0].probability < 1].append(each.scores["judge_relevance"] or 0)
        expected = sum(chances[side] * fmean(own) for side, own in scores.items() if own) / chances.total()
        results = {name: estimate.result for name, estimate in window.estimates.items()}
        assert results.keys() == ({"judge_relevance"} if judged else set())
        if (result := results.get("judge_relevance")) is not None and result.mean is not None:
            assert result.mean == pytest.approx(expected, abs=2e-6)
    hours = [window.estimates["judge_relevance"].result for window in found if window.window == "1h"]
    assert any(hour is not None and hour.low is not None and hour.flags == () for hour in hours)
    random.Random(2).shuffle(own)
    assert [encode(window) for window in windows_of(own, dimensions=["application"])] == [
        encode(window) for window in found
    ]


@pytest.mark.slow
def test_windows_of_a_file_stay_within_the_cap_and_the_allowlist() -> None:
    """1,000 applications come to the cap and an overflow set in every window; values not admitted count as overflow."""
    first = evaluations(3)[0]
    own = [
        first.model_copy(update={"application": f"app-{number % 1000}", "event_id": str(number)})
        for number in range(1_500)
    ]
    capped_windows = windows_of(own, dimensions=["application"], max_series=20)
    assert [len([each for each in capped_windows if each.window == size]) for size in SIZES] == [21, 21, 21]
    assert sum(each.events for each in capped_windows) == 3 * 1_500
    admitted = windows_of(own, dimensions=["application"], values={"application": ["app-1"]})
    assert {each.dimensions["application"]: each.events for each in admitted} == {"app-1": 2, OVERFLOW: 1_498}


@pytest.mark.parametrize("year", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_ends_of_the_calendar_have_no_windows(year: str) -> None:
    """An event at either end of the calendar, where a window could not end, enters none."""
    assert windows_of([Evaluation(event_id="1", event_time=year, catalogue_version="1")]) == []


@pytest.mark.slow
def test_score_writes_windows_whatever_the_order_of_lines(tmp_path: Path) -> None:
    """`score --windows` gives the same bytes for the same lines in another order, and counts every scored line."""
    ragweir("demo", "--write-samples", tmp_path / "samples.jsonl", "--events", "60")
    lines = (tmp_path / "samples.jsonl").read_bytes().splitlines()
    found = set()
    for seed in (1, 2):
        random.Random(seed).shuffle(lines)
        (tmp_path / "in.jsonl").write_bytes(b"\n".join([*lines, b"not JSON"]))
        out, windows = tmp_path / "out.jsonl", tmp_path / "windows.jsonl"
        done = ragweir("score", tmp_path / "in.jsonl", "--out", out, "--windows", windows)
        assert done.returncode == 0, done.stderr
        found.add(windows.read_bytes())
    assert len(found) == 1
    records = [Window.model_validate(json.loads(line)) for line in found.pop().splitlines()]
    assert {size: sum(each.events for each in records if each.window == size) for size in SIZES} == dict.fromkeys(
        SIZES, 60
    )
