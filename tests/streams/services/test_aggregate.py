"""The aggregate agent without Kafka: what it emits, what it keeps, and what it goes on from."""

import gc
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from ragweir.errors import ConfigurationError, StateError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.topics import max_record_bytes
from ragweir.schemas.window import OVERFLOW, Progress, Window
from ragweir.schemas.window_record import parse_window
from ragweir.streams.runtime.agent import Assignment, Changelog, StoredChangelog
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.aggregate import agent as aggregate_agent
from ragweir.streams.services.aggregate import open_windows
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Slo, WindowSettings, load

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATER = NOON + timedelta(days=1)
TOTALS = Aggregator(Catalogue(everything()))


def event(time: datetime | int = 0, **fields: Any) -> dict[str, Any]:
    """An evaluation so many seconds after noon."""
    at = NOON + timedelta(seconds=time) if isinstance(time, int) else time
    return {"event_id": "1", "event_time": at, "scores": {"context_support": 0.5}, "catalogue_version": "1", **fields}


INPUT = ("evaluations", 0)


def is_progress(key: bytes | None) -> bool:
    """Whether a record of the windows topic tells a partition's progress."""
    return (key or b"").startswith(b'["progress"')


class Partition:
    """One partition in the hands of one agent after another, with what it would have in Kafka."""

    def __init__(self, slos: tuple[Slo, ...] = (), **windows: Any) -> None:
        self.config = AggregateConfig(TOTALS, WindowSettings(**windows), slos)
        self.records: list[Record] = []
        self.changelog: list[Record] = []
        self.committed: int | None = None
        self.end = 0
        self.dead = 0
        self.wall_s = 1e9
        self.now_s = 0.0
        self.restart()

    def restart(self, start: int | None = None) -> None:
        """A new agent takes it over."""
        self.agent = AggregateAgent(self.config, lambda: self.now_s)
        self.agent.on_assigned(
            Assignment(
                INPUT,
                self.committed,
                self.committed or 0 if start is None else start,
                StoredChangelog(self.changelog, self.end),
            )
        )

    def records_of(self, events: Sequence[dict[str, Any] | bytes], stamp: datetime = LATER) -> list[Record]:
        """The next records of the input; they are written a day after the events, as in a backlog."""
        values = [each if isinstance(each, bytes) else orjson.dumps(each) for each in events]
        first = self.records[-1].offset + 1 if self.records else self.committed or 0
        new = [
            Record("evaluations", 0, first + number, None, value, int(stamp.timestamp() * 1000))
            for number, value in enumerate(values)
        ]
        self.records += new
        return new

    def send(self, *events: dict[str, Any] | bytes, stamp: datetime = LATER) -> Outcome:
        """One batch, committed."""
        new = self.records_of(events, stamp)
        return self.commit(self.handled(new), new[-1].offset + 1)

    def handled(self, *batches: Sequence[Record]) -> Outcome:
        """The outcome of a transaction of batches, not committed."""
        outcome = Outcome()
        for batch in batches:
            outcome.extend(self.agent.handle(batch))
        outcome.extend(self.agent.tick(self.wall_s, (), 1))
        return outcome

    def look(self, now_s: float, caught_up: Sequence[int] = (0,)) -> Outcome:
        """A look at the clock, committed."""
        self.now_s = now_s
        return self.commit(self.agent.tick(self.wall_s, [(INPUT[0], each) for each in caught_up], 1), self.committed)

    def commit(self, outcome: Outcome, committed: int | None) -> Outcome:
        windows = [each for each in outcome.emissions if each.topic == "windows" and each.partition == 0]
        for emission in windows:
            self.changelog.append(Record("windows", 0, self.end, emission.key, emission.value, None))
            self.end += 1
        self.dead += sum(emission.topic == "dead-letter" for emission in outcome.emissions)
        self.end += bool(windows)  # The transaction's end mark.
        self.agent.on_commit()
        self.committed = committed
        return outcome

    def windows(self) -> list[Window]:
        """What the windows topic says: the last record of each key."""
        latest = {record.key: record.value for record in self.changelog if not is_progress(record.key)}
        return [Window.model_validate_json(value) for value in latest.values() if value]

    def progress(self) -> Progress:
        """How far it is."""
        return Progress.model_validate_json(
            next(record.value or b"" for record in reversed(self.changelog) if is_progress(record.key))
        )

    def held(self) -> int:
        """How many parts are in memory."""
        return sum(len(parts) for parts in self.agent._states[0].held.windows.values())


class Unread(Changelog):
    """A changelog that nobody may read."""

    end = 1

    @override
    def since(self, first: int) -> Iterator[Record]:
        pytest.fail("the changelog is read")


def kinds(outcome: Outcome) -> list[str]:
    """What is emitted, in short."""
    return ["progress" if is_progress(emission.key) else emission.topic for emission in outcome.emissions]


@pytest.fixture
def partition() -> Partition:
    return Partition()


def test_a_window_starts_inclusive_and_ends_exclusive(partition: Partition) -> None:
    """Events exactly on an edge belong to the window that starts there; windows are aligned to the epoch."""
    partition.send(event(-1), event(0), event(59), event(NOON + timedelta(seconds=60, microseconds=-1)), event(60))
    assert {window.start: window.events for window in partition.windows()} == {
        NOON - timedelta(minutes=1): 1,
        NOON: 3,
        NOON + timedelta(minutes=1): 1,
    }
    assert all(window.end - window.start == timedelta(minutes=1) for window in partition.windows())


def test_a_window_is_replaced_by_its_next_revision(partition: Partition) -> None:
    """A part keeps its key, the offset at which it was opened; its record holds all of it so far."""
    partition.send(event(), event(scores={"context_support": 0.25}, categories={"recall_warning": "x"}))
    partition.send(event(30, scores={"context_support": None}))
    (window,) = partition.windows()
    assert (window.part, window.revision, window.events, window.partition, window.window) == (0, 2, 3, 0, "1m")
    summary = window.metrics["context_support"]
    assert (summary.count, summary.sum, summary.min, summary.max) == (2, 0.75, 0.25, 0.5)
    assert window.categories == {"recall_warning": {"x": 1}}
    assert summary.histogram.bins == {"25": 1, "50": 1}


def judged_event(time: int = 0, probability: float = 0.02, **fields: Any) -> dict[str, Any]:
    """What a judge makes of an event that the rubric had selected."""
    decision = {"suites": [{"suite": "rubric", "status": "judged", "probability": probability}]}
    return event(time, stage="judged", **{"decision": decision, "scores": {"judge_relevance": 0.75}} | fields)


def test_a_record_is_what_its_model_says(partition: Partition) -> None:
    """The record that is written without its model holds every field of it but `closed`, and nothing else."""
    decision = {"suites": [{"suite": "rubric", "status": "selected", "probability": 0.02}]}
    partition.send(event(decision=decision), judged_event())
    (record,) = [record for record in partition.changelog if not is_progress(record.key)]
    data = orjson.loads(record.value or b"")
    assert data.keys() == Window.model_fields.keys() - {"closed"}
    assert orjson.loads(encode(Window.model_validate(data))) == data | {"closed": None}
    assert data["decisions"] == {"rubric": {"judged": 1, "selected": 1}}
    selected = {"count": 1, "drawn": 1, "weight": 50, "spread": 2450}
    assert data["chances"] == {"rubric": {"least": 0.02, "none": 0, "selected": selected}}
    assert data["estimates"]["judge_relevance"] == {
        "suite": "rubric",
        "count": 1,
        "drawn": 1,
        "weight": 50,
        "weighted_sum": 37.5,
        "drawn_sum": 37.5,
        "spread": 2450,
        "spread_sum": 1837.5,
        "spread_squares": 1378.125,
        "result": None,
    }


def test_judged_evaluations_enter_with_what_was_judged_only(partition: Partition) -> None:
    """An event that is scored and later judged is one event, and counted once by each metric; so after a restart."""
    scored = {"context_support": 0.5}
    partition.send(event(scores=scored))
    partition.restart()
    partition.send(judged_event(scores=scored | {"judge_relevance": 0.75}), judged_event())
    (window,) = partition.windows()
    assert window.events == 1
    assert {name: summary.count for name, summary in window.metrics.items()} == {
        "context_support": 1,
        "judge_relevance": 2,
    }
    assert (window.estimates["judge_relevance"].count, window.estimates["judge_relevance"].weight) == (2, 100)


def test_a_judgement_is_never_late(partition: Partition) -> None:
    """It enters the window of its event whenever it comes, and neither counts as late nor moves the watermark."""
    partition.send(event(), event(200))
    outcome = partition.send(judged_event(), event(1), judged_event(1))
    first, _ = sorted(partition.windows(), key=lambda window: window.start)
    assert (first.events, first.late, first.estimates["judge_relevance"].count) == (2, 1, 2)
    assert outcome.counts["ragweir_late_events_total",] == 1


# Restoring.


def test_a_successor_goes_on_where_the_last_commit_was() -> None:
    """A new agent with the changelog emits what the old one would have."""
    one, other = Partition(), Partition()
    first = [event(second, application=f"a{second % 3}") for second in range(0, 120, 7)]
    more = [
        event(second, application=f"a{second % 4}", scores={"total_latency_ms": 5.5}) for second in range(60, 200, 9)
    ]
    for partition in (one, other):
        partition.send(*first)
    other.restart()
    emitted = [[(each.key, orjson.loads(each.value or b"")) for each in p.send(*more).emissions] for p in (one, other)]
    assert emitted[0] == emitted[1]


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[datetime, list[dict[str, Any]]]]:
    """Records' timestamps, and events from long before them to long after them, of more applications than have room."""
    made, now = [], NOON
    for _ in range(draw(st.integers(2, 8))):
        now += timedelta(seconds=draw(st.sampled_from((1, 60, 200, 2000))))
        around = st.integers(-900, 900) | st.sampled_from((-90_000, -4_000, 3_600, 3_660, 7_000, 90_000))
        drawn = draw(st.lists(st.tuples(around, st.sampled_from("abcdefgh"), st.booleans()), min_size=1, max_size=8))
        events = [
            event(now + timedelta(seconds=seconds), application=name, stage="judged" if judged else "scored")
            for seconds, name, judged in drawn
        ]
        made.append((now, events))
    return made


@pytest.mark.heavy
@given(batches(), st.data())
@settings(max_examples=150)
def test_a_restart_changes_nothing(batches: list[tuple[datetime, list[dict[str, Any]]]], data: st.DataObject) -> None:
    """Whenever a worker is replaced, its successor holds the same windows and emits the same, label sets included."""
    chosen = {"hold_h": 0.25, "max_series": 5, "new_series_per_hour": 2, "grace_s": 0, "disorder_s": 3}
    steady, moved = Partition(**chosen), Partition(**chosen)
    restarts = data.draw(st.sets(st.integers(0, len(batches) - 1), min_size=1))
    for number, (stamp, events) in enumerate(batches):
        outcomes = [partition.send(*events, stamp=stamp) for partition in (steady, moved)]
        assert sorted_emissions(outcomes[0]) == sorted_emissions(outcomes[1])
        assert outcomes[0].counts == outcomes[1].counts
        if number in restarts:
            moved.restart()
        assert held_parts(steady) == held_parts(moved)
        for partition in (steady, moved):
            offset = partition.progress().changelog_offset
            assert offset is not None
            written = {(each.key or b""): each.offset for each in partition.changelog}
            parts = {number for parts in held_parts(partition).values() for number in parts.values()}
            assert all(at >= offset for key, at in written.items() if orjson.loads(key)[-1] in parts)


class Counted(StoredChangelog):
    """A changelog that counts the records that are read."""

    read = 0

    @override
    def since(self, first: int) -> Iterator[Record]:
        for record in super().since(first):
            self.read += 1
            yield record


def restored(partition: Partition) -> int:
    """Restore it in another agent, which comes to the same; gives the number of records that are read."""
    changelog = Counted(partition.changelog, partition.end)
    before = held_parts(partition)
    partition.agent = AggregateAgent(partition.config)
    partition.agent.on_assigned(Assignment(INPUT, partition.committed, partition.committed or 0, changelog))
    assert held_parts(partition) == before
    return changelog.read


@pytest.mark.slow
def test_a_restore_reads_only_from_the_oldest_window_that_is_held() -> None:
    """However long the history is: the newest progress, at the end, names the offset; before a restart and after it."""
    partition = Partition(hold_h=0.5)
    for minute in range(300):
        partition.send(event(minute * 60))
        partition.send(event(minute * 60 + 1))
    assert 31 * 4 <= restored(partition) <= 32 * 4 + 64
    for minute in range(300, 310):
        partition.send(event(minute * 60))
    partition.agent.on_abort()
    assert 21 * 4 + 10 * 2 <= restored(partition) <= 32 * 4 + 64


def test_windows_of_an_idle_partition_are_restored_however_old_they_are() -> None:
    """Thousands of records of progress lie behind them, and none of these raises the offset."""
    partition = Partition(idle_s=1)
    partition.send(event())
    for now_s in range(0, 2_000 * 1_000_000, 1_000_000):
        partition.look(float(now_s))
    assert len(partition.changelog) > 1_000
    assert partition.progress().changelog_offset == 0
    restored(partition)
    partition.send(event())
    assert [(window.events, window.revision) for window in partition.windows()] == [(2, 2)]


@pytest.mark.parametrize("offset", [None, 10**6])
def test_without_an_offset_that_fits_a_restore_reads_everything_once(offset: int | None) -> None:
    """Progress of release 0.1.0 has none; one beyond the progress itself is of a topic that was created anew."""
    partition = Partition(hold_h=0.5)
    for minute in range(100):
        partition.send(event(minute * 60))
    last = partition.changelog[-1]
    fields = orjson.loads(last.value or b"") | {"changelog_offset": offset}
    if offset is None:
        del fields["changelog_offset"]
    partition.changelog[-1] = last._replace(value=orjson.dumps(fields))
    assert 200 <= restored(partition) <= 200 + 64
    partition.send(event(100 * 60))
    assert restored(partition) <= 31 * 2 + 64, "the next progress has one"


def test_an_offset_that_is_too_high_costs_no_event(partition: Partition) -> None:
    """Windows that are not restored go on as new parts."""
    for minute in range(10):
        partition.send(event(minute * 60))
    last = partition.changelog[-1]
    fields = orjson.loads(last.value or b"") | {"changelog_offset": last.offset}
    partition.changelog[-1] = last._replace(value=orjson.dumps(fields))
    partition.restart()
    for minute in range(10):
        partition.send(event(minute * 60))
    assert sum(window.events for window in partition.windows()) == 20


def sorted_emissions(outcome: Outcome) -> list[tuple[bytes | None, Any]]:
    """The emissions without the offset of a restore: a restored worker may know it more exactly."""
    emitted = [(each.key or b"", orjson.loads(each.value or b"")) for each in outcome.emissions]
    return sorted((key, {**fields, "changelog_offset": 0}) for key, fields in emitted)


def held_parts(partition: Partition) -> dict[datetime, dict[Labels, int]]:
    """The windows in memory: their parts' numbers by label set."""
    windows = partition.agent._states[0].held.windows
    return {start: {labels: part.number for labels, part in parts.items()} for start, parts in windows.items()}


def test_state_in_memory_is_kept_when_it_is_current(partition: Partition) -> None:
    """A partition that comes back at the offset where it was left is not restored from its changelog."""
    partition.send(event())
    partition.agent.on_revoked([INPUT])
    partition.agent.on_assigned(Assignment(INPUT, partition.committed, 1, Unread()))
    assert kinds(partition.look(1.0)) == ["progress"], "whoever had it meanwhile may have told that it is idle"
    partition.send(event())
    assert [window.events for window in partition.windows()] == [2]


def test_state_in_memory_is_read_anew_when_another_has_gone_on(partition: Partition) -> None:
    """A partition that comes back at another offset is restored."""
    partition.send(event())
    first = partition.agent
    first.on_revoked([INPUT])
    partition.restart()
    partition.send(event(), event())
    partition.agent = first
    first.on_assigned(Assignment(INPUT, partition.committed, 3, StoredChangelog(partition.changelog)))
    partition.send(event())
    assert [(window.events, window.revision) for window in partition.windows()] == [(4, 3)]


def test_nothing_is_said_of_a_partition_that_was_given_up(partition: Partition) -> None:
    """Its progress is another worker's to tell, even when it had fallen idle here."""
    partition.send(event())
    for now in (1.0, 100.0):
        partition.look(now)
    assert partition.progress().idle
    partition.agent.on_revoked([INPUT])
    for now, caught_up in ((101.0, []), (200.0, [0])):
        assert not partition.look(now, caught_up).emissions


def test_an_abort_is_forgotten(partition: Partition) -> None:
    """What was emitted and not committed has not happened: the same batch again comes to the same."""
    partition.send(event())
    new = partition.records_of([event(), event(120)])
    first = partition.handled(new)
    partition.agent.on_abort()
    again = partition.handled(new)
    assert [each.value for each in again.emissions] == [each.value for each in first.emissions]
    partition.commit(again, 3)
    assert sorted(window.events for window in partition.windows()) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 7, 10_000])
def test_a_transaction_of_many_batches_comes_to_what_one_batch_does(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """However it is cut and however often rows are summed, also after an abort: each window is written once."""
    monkeypatch.setattr(open_windows, "_MOST_ROWS", rows)
    one, other = Partition(max_series=4), Partition(max_series=4)
    rng = random.Random(rows)
    for start in (0, 90, 4_000, 12_000):
        events = [
            b"{"
            if rng.random() < 0.05
            else event(start + rng.randrange(-200, 200), application=rng.choice("abcdefgh"), scores={"m": rng.random()})
            for _ in range(60)
        ]
        whole = one.send(*events)
        new = other.records_of(events)
        cuts = sorted(rng.sample(range(61), 5))
        batches = [new[first:end] for first, end in zip([0, *cuts], [*cuts, 60], strict=True)]
        other.agent.handle(new[:20])
        other.agent.on_abort()
        other.handled(*[batch for batch in batches if batch][:3])
        other.agent.on_abort()
        parts = other.commit(other.handled(*[batch for batch in batches if batch]), new[-1].offset + 1)
        assert (parts.counts, parts.levels) == (whole.counts, whole.levels)
        of = [[each for each in outcome.emissions if each.topic == "windows"] for outcome in (parts, whole)]
        assert of[0] == of[1]
    assert other.dead == one.dead > 0
    assert len({window.part for window in other.windows()}) > 10


def test_a_transaction_ends_when_it_has_changed_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their contents are in memory until it is committed."""
    monkeypatch.setattr(aggregate_agent, "_MOST_WINDOWS", 3)
    partition = Partition()
    first, second = partition.records_of([event(0), event(60)]), partition.records_of([event(90), event(130)])
    partition.agent.handle(first)
    assert not partition.agent.is_commit_due
    partition.agent.handle(second)
    assert partition.agent.is_commit_due
    partition.commit(partition.handled(), 4)
    assert not partition.agent.is_commit_due
    assert sorted(window.events for window in partition.windows()) == [1, 1, 2]


def test_a_dead_letter_amid_a_transaction_moves_its_offset_only(partition: Partition) -> None:
    """The runtime makes a record between batches a dead letter; the rest is summed, and progress is behind them all."""
    first, refused, last = (partition.records_of([event()]) for _ in range(3))
    outcome = partition.agent.handle(first)
    outcome.extend(partition.agent.dead_letter(refused[0], "refused"))
    outcome.extend(partition.handled(last))
    partition.commit(outcome, 3)
    assert kinds(outcome) == ["dead-letter", "windows", "progress"]
    assert [window.events for window in partition.windows()] == [2]
    assert partition.progress().next_offset == 3


def test_an_old_window_is_reopened_as_a_new_part() -> None:
    """Beyond `hold` a window is no longer in memory; what still comes opens a part that adds up with the first."""
    partition = Partition(hold_h=0.5)
    partition.send(event(), event())
    partition.send(event(3600), stamp=NOON + timedelta(hours=1))
    partition.send(event(), stamp=NOON + timedelta(hours=1))
    parts = sorted((window.part, window.events, window.late) for window in partition.windows() if window.start == NOON)
    assert parts == [(-1 - 3, 1, 1), (0, 2, 0)]
    partition.restart()
    partition.send(event(), stamp=NOON + timedelta(hours=1))
    assert sum(window.events for window in partition.windows() if window.start == NOON) == 4


@pytest.mark.parametrize(
    ("committed", "emptied", "told"),
    [(7, False, "to 2"), (None, False, "gone"), (2, True, "emptied")],
    ids=["offsets were set", "the group was deleted", "the topic was emptied"],
)
def test_state_that_does_not_fit_is_rejected(
    committed: int | None, emptied: bool, told: str, partition: Partition
) -> None:
    """Windows and offsets that speak of different places are never gone on from; the message says what to do."""
    partition.send(event(), event())
    partition.committed = committed
    if emptied:
        partition.changelog = []
    with pytest.raises(StateError, match=told):
        partition.restart()


def test_a_gap_left_by_retention_is_gone_over(partition: Partition) -> None:
    """Where the committed offset no longer exists, work goes on behind the gap, and the progress says so at once."""
    partition.send(event(), event())
    partition.restart(start=10)
    partition.look(1.0)
    partition.committed = 10
    assert partition.progress().next_offset == 10
    partition.restart()
    partition.records = []
    partition.send(event())
    assert [window.events for window in partition.windows()] == [3]


def test_windows_of_other_settings_are_left_and_not_mixed(partition: Partition) -> None:
    """After a change of the base size or the dimensions, what was summed before stays apart."""
    partition.send(event())
    for windows in ({"sizes": ("5m",)}, {"dimensions": ("tenant",)}):
        partition.config = AggregateConfig(TOTALS, WindowSettings(**windows))
        partition.restart()
        partition.send(event())
    assert [(window.window, window.events, len(window.dimensions)) for window in partition.windows()] == [
        ("1m", 1, 3),
        ("5m", 1, 3),
        ("1m", 1, 1),
    ]


def test_windows_that_were_summed_otherwise_are_left_and_not_mixed(partition: Partition) -> None:
    """A metric that changes its bounds with a new version opens new parts, and stops nothing."""
    partition.send(event())
    old = b'"scheme":"linear:0:1:100"'
    assert any(old in (record.value or b"") for record in partition.changelog)
    partition.changelog = [
        Record("windows", 0, 0, each.key, (each.value or b"").replace(old, b'"scheme":"linear:0:5:100"'), None)
        for each in partition.changelog
    ]
    partition.restart()
    partition.send(event())
    assert [(window.part, window.events) for window in partition.windows()] == [(0, 1), (1, 1)]


# Bounds.


def test_label_sets_stay_within_their_number() -> None:
    """Of 1,000 values `max_series` stand for themselves, the rest count as overflow; so after a restart."""
    partition = Partition(max_series=20)
    overflow = 0
    for first in range(0, 1000, 250):
        outcome = partition.send(*(event(application=f"a{number}") for number in range(first, first + 250)))
        overflow += outcome.counts["ragweir_window_overflow_total",]
        partition.restart()
    sets = {tuple(window.dimensions.values()): window.events for window in partition.windows()}
    assert len(sets) == 21
    assert sets[(OVERFLOW,) * 3] == overflow == 980
    assert sum(sets.values()) == 1000


@pytest.mark.heavy
@pytest.mark.parametrize("restarts", [False, True])
def test_new_label_sets_push_no_known_one_out(restarts: bool, partition: Partition) -> None:
    """Three applications come first; then 200 new ones begin every minute, before them. The three stay apart.

    So do those of the new ones that found room: as many an hour as `new_series_per_hour` has, until `max_series`, and
    until their windows are no longer held.
    """
    real = [f"real-{number}" for number in range(3)]
    counted = 0
    for minute in range(130):
        attack = [event(minute * 60, application=f"{minute}-{number}") for number in range(200 if minute else 0)]
        own = [event(minute * 60 + 30, application=name) for name in real]
        outcome = partition.send(*attack, *own, *attack[:1])
        counted += outcome.counts["ragweir_window_overflow_total",]
        if restarts:
            partition.restart()
    events: Counter[str] = Counter()
    first: dict[str, datetime] = {}
    for window in partition.windows():
        name = window.dimensions["application"]
        events[name] += window.events
        first[name] = min(window.start, first.get(name, window.start))
    assert {name: events[name] for name in real} == dict.fromkeys(real, 130)
    assert sum(events.values()) == 129 * 201 + 3 * 130
    assert counted == events[OVERFLOW]
    admitted = [start for name, start in first.items() if name not in (*real, OVERFLOW)]
    assert Counter((start - NOON) // timedelta(hours=1) for start in admitted) == {0: 100, 1: 97, 2: 100}
    held = partition.agent._states[0].held.windows.values()
    assert len({labels for parts in held for labels in parts}) <= 201, "those of the first hour have left"


@pytest.mark.slow
def test_a_first_deployment_of_many_label_sets_is_not_limited_by_the_hour(partition: Partition) -> None:
    """Those of the first window may be as many as `max_series`, and a worker that finds 200 held goes on with all."""
    for minute in range(3):
        outcome = partition.send(*(event(minute * 60, application=f"a{number}") for number in range(200)))
        assert not outcome.counts["ragweir_window_overflow_total",]
        partition.restart()
    assert {window.dimensions["application"] for window in partition.windows()} == {f"a{each}" for each in range(200)}


def many(minute: int, sets: int = 100, each: int = 1) -> list[dict[str, Any]]:
    """Events of one minute, of so many label sets."""
    return [event(minute * 60, application=f"a{number % sets}") for number in range(sets * each)]


@pytest.mark.slow
def test_memory_bounds_label_sets_and_no_event_is_lost() -> None:
    """Beyond `max_bytes` label sets of further windows overflow; what overflows is counted, and no window has none."""
    partition = Partition(max_bytes=1 << 20, hold_h=0.4)
    overflow = 0
    for minute in range(60):
        overflow += partition.send(*many(minute)).counts["ragweir_window_overflow_total",]
        overflow += partition.send(*many(minute)).counts["ragweir_window_overflow_total",]
        assert partition.agent._states[0].held.size <= 3 << 18
    found: Counter[str] = Counter()
    apart: Counter[datetime] = Counter()
    for window in partition.windows():
        found["overflow" if OVERFLOW in window.dimensions.values() else "apart"] += window.events
        apart[window.start] += OVERFLOW not in window.dimensions.values()
    assert found.total() == 60 * 200
    assert found["overflow"] == overflow > 1_000
    assert apart[NOON] == 100, "all stay apart while there is room"
    assert len(apart) == 60
    assert 3 <= min(apart.values()) < 20, "each window keeps some apart"


@pytest.mark.heavy
def test_memory_bounds_the_same_label_sets_after_a_restart() -> None:
    """The decision depends on the records that are held, not on which of them a worker happens to have decoded."""
    chosen = {"max_bytes": 1 << 20, "hold_h": 0.4}
    steady, moved = Partition(**chosen), Partition(**chosen)
    for minute in range(40):
        for _ in range(2):
            outcomes = [partition.send(*many(minute)) for partition in (steady, moved)]
            assert sorted_emissions(outcomes[0]) == sorted_emissions(outcomes[1])
            assert outcomes[0].counts == outcomes[1].counts
            moved.restart()
            assert held_parts(steady) == held_parts(moved)
    assert OVERFLOW in {window.dimensions["application"] for window in steady.windows()}


@pytest.mark.slow
def test_a_worker_that_takes_more_partitions_over_holds_less_of_each() -> None:
    """The oldest windows are released, and go on as new parts: all events are counted, the known labels kept."""
    partition = Partition(max_bytes=2 << 20)
    for minute in range(6):
        partition.send(*many(minute))
    whole = partition.agent._states[0].held
    for other in range(1, 6):
        partition.agent.on_assigned(Assignment(("evaluations", other), None, 0))
    held = partition.agent._states[0].held
    assert held.size <= (2 << 20) // 6 * 3 // 4 < whole.size
    assert set(held.windows) == set(sorted(whole.windows)[-len(held.windows) :]), "the newest stay"
    for minute in range(6):
        partition.send(*many(minute))
    assert sum(window.events for window in partition.windows()) == 12 * 100
    partition.agent = AggregateAgent(partition.config)
    for other in range(1, 6):
        partition.agent.on_assigned(Assignment(("evaluations", other), None, 0))
    changelog = StoredChangelog(partition.changelog)
    partition.agent.on_assigned(Assignment(INPUT, partition.committed, partition.committed or 0, changelog))
    assert partition.agent._states[0].held.size <= (2 << 20) // 6 * 3 // 4, "so does a worker that restores it"
    partition.send(*many(5))
    assert sum(window.events for window in partition.windows()) == 13 * 100


@pytest.mark.slow
def test_states_that_were_given_up_make_room() -> None:
    """Windows of partitions that another worker has now are forgotten before they take what others need."""
    for max_bytes, kept in ((1 << 30, True), (1 << 20, False)):
        partition = Partition(max_bytes=max_bytes)
        for minute in range(30):
            partition.send(*many(minute))
        partition.agent.on_revoked([INPUT])
        partition.agent.on_assigned(Assignment(("evaluations", 1), None, 0))
        assert (0 in partition.agent._states) == kept


@pytest.mark.heavy
@pytest.mark.parametrize("events", [1, 10, 200, 2_000])
def test_decoded_contents_take_what_is_accounted_for_them(events: int) -> None:
    """Contents never take more memory than they are accounted with, which is at most four times as much."""
    chance = random.Random(events)
    names = [metric.name for metric in everything() if metric.unit != "category"][:40]
    partition, copies = Partition(), 40
    evaluations = [event(scores={name: chance.lognormvariate(0, 1) for name in names}) for _ in range(events)]
    partition.send(*evaluations)
    (part,) = partition.agent._states[0].held.windows[NOON].values()
    reading = TOTALS.decoder()
    gc.collect()
    tracemalloc.start()
    contents = [reading.decode(parse_window(part.record)) for _ in range(copies)]
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] / copies
    tracemalloc.stop()
    assert len(contents) == copies
    assert taken <= part.contents_size <= 4 * taken


@pytest.mark.slow
def test_contents_are_given_back_before_label_sets_overflow() -> None:
    """At a quarter of the memory only the newest windows keep their contents, and nothing overflows for that."""
    partition = Partition(max_bytes=8 << 20)
    outcome = partition.send(*[each for minute in range(10) for each in many(minute)])
    held = partition.agent._states[0].held
    assert 0 < len(held.decoded) < 10
    assert held.decoded == set(sorted(held.windows)[-len(held.decoded) :])
    assert not outcome.counts["ragweir_window_overflow_total",]
    assert all(
        (part.contents is None) == (start not in held.decoded)
        for start in held.windows
        for part in held.windows[start].values()
    )


def test_windows_of_the_previous_release_are_gone_on_with(partition: Partition) -> None:
    """Label sets beyond the limits that a window already has stay there; a window far ahead is continued in a part."""
    many = [f"a{number}" for number in range(300)]
    for first in (0, 150):  # As an earlier release did it: the limit was each window's own.
        partition.config = AggregateConfig(TOTALS, WindowSettings(max_series=1_000, new_series_per_hour=1_000))
        partition.restart()
        partition.send(*(event(first, application=name) for name in many[first : first + 150]))
    partition.config = AggregateConfig(TOTALS, WindowSettings())
    partition.restart()
    outcome = partition.send(*(event(150, application=name) for name in (*many, "new")))
    assert outcome.counts["ragweir_window_overflow_total",] == 1
    assert sum(window.events for window in partition.windows()) == 601
    far = NOON + timedelta(days=3650)
    old = next(record for record in partition.changelog if not is_progress(record.key))
    moved = [(part or b"").replace(b"2026-11-21T12", b"2036-11-18T12") for part in (old.key, old.value)]
    partition.changelog.append(old._replace(key=moved[0], value=moved[1]))
    partition.restart()
    assert far not in partition.agent._states[0].held.windows
    partition.send(event(far, application="a0"))
    partition.restart()
    parts = sorted((window.part, window.events) for window in partition.windows() if window.start == far)
    assert parts == [(-1 - 601, 1), (0, 1)]


HOSTILE = [
    "",
    "\u0000",
    "\n",
    '"',
    "\\",
    "{}",
    "__overflow__",
    "progress",
    "\u202e",
    "😀" * 300,
    "x" * 100_000,
    "é" * 121,
]


def test_hostile_labels_are_labels() -> None:
    """Whatever a label holds, it is one label set of bounded size, and the same after a restart."""
    partition = Partition(dimensions=("labels.name", "tenant"))
    for _ in range(2):
        partition.send(*(event(labels={"name": value}) for value in HOSTILE))
        partition.restart()
    found = {window.dimensions["labels.name"]: window.events for window in partition.windows()}
    assert set(found.values()) == {2}
    assert len(found) == len(HOSTILE)
    assert all(len(value) <= 120 for value in found)


def test_long_labels_that_begin_alike_stay_apart(partition: Partition) -> None:
    """Two models whose names share their first 120 characters are two models."""
    partition.send(event(model="m" * 150 + "1"), event(model="m" * 150 + "2"), event(model="m" * 150 + "2"))
    assert sorted(window.events for window in partition.windows()) == [1, 2]


def test_values_beside_the_allowlist_are_overflow() -> None:
    """Where values are listed, others count as overflow, and none as none."""
    partition = Partition(dimensions=("tenant",), values={"tenant": ("a",)})
    partition.send(event(tenant="a"), event(tenant="b"), event())
    assert sorted(window.dimensions["tenant"] for window in partition.windows()) == ["", OVERFLOW, "a"]


@pytest.mark.parametrize("years", [10, -10], ids=["ahead", "behind"])
def test_wrong_clocks_cost_bounded_memory_and_no_event(years: int) -> None:
    """Events ten years away, each in another minute, are all counted; what is held stays within its number."""
    partition = Partition(hold_h=0.5, max_series=5)
    far = NOON + timedelta(days=365 * years)
    for first in range(0, 600, 50):
        batch = [
            event(far + timedelta(minutes=minute), application=f"a{minute % 3}") for minute in range(first, first + 50)
        ]
        partition.send(event(first // 10), *batch, stamp=NOON + timedelta(seconds=first // 10))
        assert len(partition.agent._states[0].held.windows) <= 90
        assert (
            sum(
                part.contents is not None
                for parts in partition.agent._states[0].held.windows.values()
                for part in parts.values()
            )
            <= 55
        )
    assert partition.progress().watermark == NOON + timedelta(seconds=55 - 10)
    assert sum(window.events for window in partition.windows()) == 612
    partition.restart()
    assert len(partition.agent._states[0].held.windows) <= 90


@pytest.mark.slow
def test_a_restore_never_holds_more_than_will_be_held() -> None:
    """A changelog of any length, its progress at its end as compaction leaves it, is read in bounded memory."""

    class Long(Changelog):
        end = 20_001

        @override
        def since(self, first: int) -> Iterator[Record]:
            for minute in range(first, 20_000):
                key = orjson.dumps([NOON + timedelta(minutes=minute), dimensions, 0, minute], option=orjson.OPT_UTC_Z)
                yield Record("windows", 0, minute, key, bytes(2_000), None)
            yield Record("windows", 0, 20_000, b'["progress",0]', encode(progress), None)

    dimensions = dict.fromkeys(WindowSettings().dimensions, "")
    progress = Progress(partition=0, next_offset=7, watermark=NOON + timedelta(minutes=20_000), idle=False)
    agent = AggregateAgent(AggregateConfig(TOTALS))
    tracemalloc.start()
    agent.on_assigned(Assignment(INPUT, 7, 7, Long()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(agent._states[0].held.windows) == 120
    assert peak < 2_000_000, "of 40,000,000 bytes"


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_the_ends_of_the_calendar_are_no_place_for_windows(time: str, partition: Partition) -> None:
    """An event there becomes a dead letter and stops nothing."""
    outcome = partition.send(event(), event() | {"event_time": time}, event())
    assert outcome.counts["ragweir_dead_letters_total", "no_time"] == 1
    assert [window.events for window in partition.windows()] == [2]


ABSURD = (1e300, -1e300, 1e-300, 1.7e308, 0.0, -0.0)


def test_absurd_values_are_values(partition: Partition) -> None:
    """The largest numbers there are enter a window, are stored, and are gone on from."""
    for _ in range(2):
        partition.send(*(event(scores=dict.fromkeys(("cost_usd", "context_support", "x"), value)) for value in ABSURD))
        partition.restart()
    (window,) = partition.windows()
    assert {summary.count for summary in window.metrics.values()} == {12}
    assert window.metrics["cost_usd"].sum == str(2 * (int(1.7e308)) + 0) + ".000000"


# Time.


def test_late_events_are_counted_in_and_as_late() -> None:
    """An event is late when its window's end and grace lie behind the watermark that was reached before it."""
    partition = Partition(grace_s=30, disorder_s=10)
    outcome = partition.send(event(0), event(99), event(59), event(100), event(59), event(60))
    (first, second) = sorted(partition.windows(), key=lambda window: window.start)
    assert (first.events, first.late) == (3, 1)
    assert (second.events, second.late) == (3, 0)
    assert outcome.counts["ragweir_late_events_total",] == 1


@pytest.mark.parametrize("ahead_s", [1, 240, 300, 10 * 365 * 86_400])
def test_a_clock_in_the_future_moves_the_watermark_to_its_record_at_most(ahead_s: int, partition: Partition) -> None:
    """However far ahead an event is, event time goes no further than the timestamp of its record, and never back."""
    outcome = partition.send(event(), event(ahead_s), event(-100), stamp=NOON)
    assert partition.progress().watermark == NOON - timedelta(seconds=10)
    assert outcome.levels["ragweir_watermark_timestamp_seconds", "0"] == (NOON - timedelta(seconds=10)).timestamp()
    assert sum(window.events for window in partition.windows()) == 3


@pytest.mark.parametrize("stamp_ms", [-(2**63), -1, 0, 2**63 - 1])
def test_absurd_timestamps_of_records_stop_nothing(stamp_ms: int, partition: Partition) -> None:
    """Event time neither overflows nor leaves the calendar, whatever timestamp a record has."""
    records = [each._replace(timestamp_ms=stamp_ms) for each in partition.records_of([event(), event()])]
    partition.commit(partition.handled(records), 2)
    assert sum(window.events for window in partition.windows()) == 2
    assert partition.progress().watermark == (NOON if stamp_ms > 0 else EPOCH) - timedelta(seconds=10)


@pytest.mark.slow
def test_one_fast_clock_makes_no_honest_event_late() -> None:
    """Nine applications are on time and one is four minutes ahead: nobody is late, and all are in their windows."""
    partition = Partition(idle_s=60)
    late = 0
    for second in range(0, 600, 5):
        now = NOON + timedelta(seconds=second)
        honest = [event(now - timedelta(seconds=1), application=f"honest-{number}") for number in range(9)]
        outcome = partition.send(*honest, event(now + timedelta(minutes=4), application="fast"), stamp=now)
        late += outcome.counts["ragweir_late_events_total",]
    assert late == 0
    found = Counter(window.dimensions["application"] for window in partition.windows() for _ in range(window.events))
    assert set(found.values()) == {120}
    assert len(found) == 10


def test_a_quiet_partition_falls_idle_and_wakes() -> None:
    """Idle is told once, when it was caught up and quiet for `idle_s`, and is over with the next event."""
    partition = Partition(idle_s=60)
    partition.send(event())
    told = [
        (now, partition.look(now, caught_up).emissions != [])
        for now, caught_up in (
            (1000.0, [0]),
            (1059.0, [0]),
            (1060.0, [0]),
            (1061.0, [0]),
            (2000.0, [0]),
        )
    ]
    assert [now for now, emitted in told if emitted] == [1060.0]
    assert partition.progress().idle
    partition.send(event())
    assert not partition.progress().idle
    partition.look(2001.0, [])
    for now in (2100.0, 2200.0):
        assert not partition.look(now, []).emissions, "it is not caught up"
    assert not partition.look(2259.0).emissions
    assert kinds(partition.look(2260.0)) == ["progress"]


def test_a_partition_without_any_event_tells_its_progress_once(partition: Partition) -> None:
    """So that readers do not wait for what never comes; and then it is silent."""
    assert kinds(partition.look(1.0)) == ["progress"]
    assert partition.progress() == Progress(partition=0, next_offset=0, watermark=None, idle=False, changelog_offset=0)
    assert not partition.look(2.0).emissions
    assert kinds(partition.look(61.0)) == ["progress"]
    assert not any(partition.look(float(now)).emissions for now in range(62, 3000, 100))


def test_progress_is_told_again_before_its_topic_forgets_it() -> None:
    """A partition that is quiet for longer than the windows topic keeps records can still be restored."""
    partition = Partition(retention_h=4)
    partition.send(event())
    emitted = [now for now in range(0, 4 * 3600, 60) if partition.look(now + 1.0).emissions]
    assert emitted == [60, 3720, 7380, 11040], "after falling idle about once an hour"


# Rejected records and SLOs.


@pytest.mark.parametrize(
    ("value", "error_class"),
    [
        (b"{", "not_json"),
        (b"[]", "invalid"),
        (b"{}", "invalid"),
        (orjson.dumps(event(scores={"context_support": "much"})), "invalid"),
        (orjson.dumps(event(stage="dreamt")), "invalid"),
        (b" " * (max_record_bytes() + 1), "too_large"),
    ],
)
def test_what_is_no_evaluation_is_a_dead_letter(value: bytes, error_class: str, partition: Partition) -> None:
    """It enters no window, and the offset goes on behind it."""
    outcome = partition.send(value)
    assert kinds(outcome) == ["dead-letter", "progress"]
    assert outcome.counts["ragweir_dead_letters_total", error_class] == 1
    assert partition.progress().next_offset == 1
    partition.restart()


def test_a_record_that_the_broker_rejects_is_a_dead_letter(partition: Partition) -> None:
    """As above."""
    (record,) = partition.records_of([event()])
    outcome = partition.agent.dead_letter(record, "refused")
    outcome.extend(partition.handled())
    partition.commit(outcome, 1)
    assert kinds(outcome) == ["dead-letter", "progress"]
    partition.restart()
    assert partition.windows() == []


SLOS = (
    Slo(name="grounded", metric="context_support", at_least=0.5, objective=0.9),
    Slo(name="fast", metric="total_latency_ms", at_most=100, objective=0.9, dimensions={"labels.region": "eu"}),
    Slo(name="faithful", metric="faithfulness", at_least=0.8, objective=0.9),
)


def test_slos_count_events_with_a_value_and_their_dimensions() -> None:
    """On the bound is good; null, other dimensions and the free metrics of judged evaluations count nothing."""
    partition = Partition(SLOS)
    eu = {"labels": {"region": "eu"}}
    outcome = partition.send(
        event(scores={"context_support": 0.5, "total_latency_ms": 101}, **eu),
        event(scores={"context_support": 0.49, "total_latency_ms": 100}, **eu),
        event(scores={"context_support": None, "total_latency_ms": 1}),
        event(scores={"context_support": 0.9, "faithfulness": 0.1}, stage="judged"),
        b"nothing",
    )
    counted = {count[1:]: number for count, number in outcome.counts.items() if count[0] == "ragweir_slo_events_total"}
    assert counted == {
        ("grounded", "good"): 1,
        ("grounded", "bad"): 1,
        ("fast", "good"): 1,
        ("fast", "bad"): 1,
        ("faithful", "bad"): 1,
    }


@pytest.mark.parametrize(
    ("slo", "told"),
    [
        ('metric = "no_such_metric"', "no_such_metric"),
        ('metric = "recall_warning"', "recall_warning"),
        ('metric = "context_support"\ndimensions = { app = "x" }', "app"),
    ],
    ids=["unknown", "a category", "a dimension that is none"],
)
def test_an_slo_that_cannot_be_counted_is_rejected_at_the_start(tmp_path: Path, slo: str, told: str) -> None:
    """Before any event."""
    file = tmp_path / "ragweir.toml"
    file.write_text(f'[[slo]]\nname = "s"\nat_least = 1\nobjective = 0.9\n{slo}\n')
    with pytest.raises(ConfigurationError, match=told):
        SERVICES["aggregate"].agent(load(file), 1)


def test_metrics_that_are_switched_off_stop_nothing(partition: Partition) -> None:
    """Windows from before, which hold them, are gone on from."""
    partition.send(event())
    agent = SERVICES["aggregate"].agent(load(None, {"metrics": {"off": ("context_support",)}}), 1)
    assert isinstance(agent, AggregateAgent)
    partition.config = agent._config
    partition.restart()
    partition.send(event())
    assert [window.events for window in partition.windows()] == [2]


@pytest.mark.parametrize(
    "key", [None, b"", b"no json", b'["2026",{}]', b'["yesterday",{"tenant":"t"},0,1]', b"[1,2,3,4]"]
)
def test_a_foreign_record_in_the_windows_topic_stops_no_restore(key: bytes | None, partition: Partition) -> None:
    """Whoever wrote it, the windows beside it are still ours."""
    partition.send(event())
    before = partition.held()
    partition.changelog.insert(0, Record("windows", 0, 0, key, b"{}", None))
    partition.changelog.append(Record("windows", 0, 9, key, None, None))
    partition.restart()
    assert partition.held() == before == 1


def test_windows_go_on_where_the_evaluations_are_made_again() -> None:
    """Offsets begin again at 0. No window loses what it had, and no part has the key of an earlier one."""
    partition = Partition(hold_h=1, disorder_s=60)
    partition.agent.on_assigned(Assignment(INPUT, None, 0, topic_id="first"))
    day = 24 * 3600
    partition.send(event(-day), event(0))  # The first is held no longer once the second is there.
    partition.send(event(-day + 60))
    before = {record.key for record in partition.changelog if not is_progress(record.key)}
    for again in range(2):
        partition.committed, partition.records = None, []
        partition.agent = AggregateAgent(partition.config)
        changelog = StoredChangelog(partition.changelog)
        partition.agent.on_assigned(Assignment(INPUT, None, 0, changelog, topic_id=f"{again}"))
        partition.committed = 0
        partition.send(event(0), event(-day))
        partition.send(event(-day + 60))
        assert partition.progress().next_offset == 3
        of_start: Counter[datetime] = Counter()
        for window in partition.windows():
            of_start[window.start] += window.events
        assert of_start == {
            NOON: 2 + again,
            NOON - timedelta(days=1): 2 + again,
            NOON - timedelta(days=1) + timedelta(seconds=60): 2 + again,
        }
    after = {record.key for record in partition.changelog if not is_progress(record.key)}
    assert len(after) == len(before) + 2 * 2, "each old window has a part for each topic"


@pytest.mark.parametrize("committed", [None, 0, 1])
def test_offsets_of_a_topic_that_was_made_again_are_not_compared_with_the_state(
    committed: int | None, partition: Partition
) -> None:
    """Nor do those that somebody has set have to fit what was read of the old topic."""
    partition.agent.on_assigned(Assignment(INPUT, None, 0, topic_id="old"))
    partition.send(event(), event())
    changelog = StoredChangelog(partition.changelog)
    with pytest.raises(StateError, match="to 2 with kafka-consumer-groups"):
        AggregateAgent(partition.config).on_assigned(Assignment(INPUT, committed, 0, changelog, topic_id="old"))
    partition.agent = AggregateAgent(partition.config)
    partition.agent.on_assigned(Assignment(INPUT, committed, committed or 0, changelog, topic_id="new"))
    partition.look(1.0)
    assert (partition.progress().next_offset, partition.progress().topic_id) == (committed or 0, "new")


def test_progress_without_the_id_of_a_topic_is_read_and_written(partition: Partition) -> None:
    """As release 0.1.0 writes it; the next one has the id."""
    partition.send(event(), event())
    (written,) = [record for record in partition.changelog if is_progress(record.key)][-1:]
    assert b"topic_id" not in (written.value or b"")
    partition.agent = AggregateAgent(partition.config)
    partition.agent.on_assigned(Assignment(INPUT, 2, 2, StoredChangelog(partition.changelog), topic_id="first"))
    partition.look(1.0)
    assert (partition.progress().next_offset, partition.progress().topic_id) == (2, "first")


def test_a_jump_of_the_wall_clock_makes_no_partition_idle() -> None:
    """Nor does one back keep it from being idle in time."""
    partition = Partition(idle_s=60)
    partition.send(event())
    for now_s, wall_s in ((1.0, 1e9), (2.0, 5e9), (30.0, 1e3), (60.0, 1e9)):
        partition.wall_s = wall_s
        assert not partition.look(now_s).emissions
    assert not partition.progress().idle
    partition.wall_s = 1e3
    assert kinds(partition.look(61.0)) == ["progress"]
    assert partition.progress().idle
