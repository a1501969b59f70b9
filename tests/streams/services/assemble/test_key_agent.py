"""The agent of `key`: slices, dead letters and clock marks, without a broker."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.schemas.assembly import HEADER_SOURCE, HEADER_TIME, ClockMark
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.key.agent import KeyAgent
from ragweir.streams.services.key.source_clock import SourceClock
from ragweir.streams.settings import AssembleSettings, load
from ragweir.streams.traces.wire import read

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)
SOURCE = ("otlp_spans", 0)
LIMIT = 64 * 1024


def spans(*traces: int, name: str = "") -> bytes:
    own = [
        {"traceId": f"{trace:032x}", "spanId": f"{number + 1:016x}", "name": name}
        for number, trace in enumerate(traces)
    ]
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": own}]}]})


class Driver:
    """Calls an agent as the runtime does, with a clock of its own."""

    def __init__(self, *partitions: int, targets: int = 2, counted: bool = True, reads_feedback: bool = False) -> None:
        self.now = NOW
        self.agent = KeyAgent(AssembleSettings(), LIMIT, reads_feedback=reads_feedback)
        self.offset = 0
        for partition in partitions or (0,):
            self.agent.on_assigned(Assignment((SOURCE[0], partition), None, 0))
        if counted:
            self.agent.input_progress.on_partition_counts({SOURCE[0]: len(partitions) or 1}, {"spans": targets})

    def record(self, value: bytes | None, timestamp: int | None = NOW_MS, partition: int = 0) -> Record:
        self.offset += 1
        return Record(SOURCE[0], partition, self.offset, None, value, timestamp)

    def read(self, timestamps: Sequence[int], partition: int = 0) -> list[Record]:
        return [self.record(spans(1), timestamp, partition) for timestamp in timestamps]

    def step(
        self, records: Sequence[Record] = (), ends: dict[int, float] | None = None, *, commit: bool = True
    ) -> Outcome:
        """Drive one transaction."""
        self.agent.input_progress.on_time(self.now)
        outcome = self.agent.handle(records) if records else Outcome()
        if ends:
            self.agent.input_progress.on_ends({(SOURCE[0], partition): time for partition, time in ends.items()})
        outcome.extend(self.agent.tick(self.now, (), 1000))
        (self.agent.on_commit if commit else self.agent.on_abort)()
        return outcome

    def mark(self, records: Sequence[Record] = (), ends: dict[int, float] | None = None) -> dict[int, tuple[int, bool]]:
        """Drive one transaction a second later; return the time and state of each partition in its mark."""
        self.now += 1
        found = marks(self.step(records, ends))
        return {each.partition: (each.time_ms - NOW_MS, each.caught_up) for each in found[0].marks} if found else {}


def marks(outcome: Outcome) -> list[ClockMark]:
    return [ClockMark.model_validate_json(each.value or b"") for each in outcome.emissions if each.key is None]


def slices(outcome: Outcome) -> list[Emission]:
    return [each for each in outcome.emissions if each.topic == "spans" and each.key is not None]


def times(outcome: Outcome) -> list[int]:
    return [int(dict(each.headers)[HEADER_TIME] or b"") - NOW_MS for each in slices(outcome)]


def letters(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {name: (value or b"").decode() for name, value in each.headers}
        for each in outcome.emissions
        if each.topic == "dead-letter"
    ]


# Slices.


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_record_gives_one_slice_for_each_of_its_traces(driver: Driver) -> None:
    """Keyed by trace id, with the place that it came from, in order; the record is settled."""
    record = driver.record(spans(1, 2, 1))
    outcome = driver.step([record])
    first, second = slices(outcome)
    assert (first.key, second.key) == (b"%032x" % 1, b"%032x" % 2)
    assert [len(read(each.value or b"")[0]) for each in (first, second)] == [2, 1]
    assert dict(first.headers)[HEADER_SOURCE] == b"otlp_spans/0/1"
    assert {each.partition for each in (first, second)} == {-1}
    assert outcome.settled == [record]
    assert outcome.counts["ragweir_assemble_slices_total",] == 2
    assert outcome.counts["ragweir_assemble_items_total", "traces"] == 3
    assert outcome.counts["ragweir_events_in_total",] == 1


def test_log_records_are_counted_as_such() -> None:
    own = [{"traceId": f"{1:032x}", "body": {"stringValue": "x"}, "timeUnixNano": 1}, {"timeUnixNano": 2}]
    driver = Driver()
    outcome = driver.step([driver.record(orjson.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": own}]}]}))])
    assert outcome.counts["ragweir_assemble_items_total", "logs"] == 1
    assert letters(outcome) == []


@pytest.mark.parametrize(
    ("value", "error_class", "reason"),
    [
        (None, "tombstone", "no value"),
        (b"hello", "unreadable", "neither OTLP"),
        (spans(0), "unreadable", "none of the spans"),
        (spans(1, name="x" * 200_000), "too_large", "1 of its 1 traces take up to 200"),
    ],
)
def test_what_cannot_be_copied_is_a_dead_letter(
    value: bytes | None, error_class: str, reason: str, driver: Driver
) -> None:
    """The records around it are copied."""
    records = [driver.record(spans(1)), driver.record(value), driver.record(spans(2))]
    outcome = driver.step(records)
    assert len(slices(outcome)) == 2
    (letter,) = letters(outcome)
    assert letter["ragweir-error-class"] == error_class
    assert reason in letter["ragweir-message"]
    assert outcome.settled == records
    assert outcome.counts["ragweir_dead_letters_total", error_class] == 1


def test_a_slice_that_is_too_large_does_not_take_the_others_along() -> None:
    """Every output fits into a record with its key and headers; Kafka would reject a larger one without naming it."""
    most = max_record_bytes(LIMIT)
    driver = Driver()
    for size in range(most - 2_300, most + 100, 60):
        outcome = driver.step([driver.record(spans(7, name="x" * size))])
        assert all(len(each.value or b"") + 1024 < most for each in slices(outcome))
        assert len(slices(outcome)) + len(letters(outcome)) == 1
    own = [
        {"traceId": f"{trace:032x}", "spanId": f"{1:016x}", "name": "x" * size} for trace, size in ((1, 9), (2, most))
    ]
    outcome = driver.step([driver.record(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": own}]}]}))])
    assert [each.key for each in slices(outcome)] == [b"%032x" % 1]
    assert letters(outcome)[0]["ragweir-error-class"] == "too_large"


def test_the_largest_slice_has_the_size_that_a_dead_letter_names(driver: Driver) -> None:
    (letter,) = letters(driver.step([driver.record(spans(7, name="x" * 200_000))]))
    limit = int(letter["ragweir-message"].partition("over the limit of ")[2].split()[0])
    outcomes = [driver.step([driver.record(spans(7, name="x" * size))]) for size in range(limit - 100, limit)]
    sizes = [len(each.value or b"") for outcome in outcomes for each in slices(outcome)]
    assert max(sizes) == limit


def test_unjoinable_spans_are_counted(driver: Driver) -> None:
    outcome = driver.step([driver.record(spans(1, 0, 0))])
    assert outcome.counts["ragweir_assemble_unjoinable_spans_total",] == 2
    assert len(slices(outcome)) == 1


def test_a_fault_of_the_parser_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    """Any exception but MemoryError, which may not be the record's fault."""

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr("ragweir.streams.services.key.agent.divided", fail)
    fault: BaseException = ZeroDivisionError()
    assert "ZeroDivisionError" in letters(driver.step([driver.record(b"")]))[0]["ragweir-message"]
    fault = MemoryError()
    with pytest.raises(MemoryError):
        driver.step([driver.record(b"")])


def test_a_dead_letter_of_the_runtime_settles_its_record(driver: Driver) -> None:
    record = driver.record(spans(1))
    outcome = driver.agent.dead_letter(record, "it ended two processes", "fatal")
    assert outcome.settled == [record]
    assert letters(outcome)[0]["ragweir-error-class"] == "fatal"
    assert slices(outcome) == []


# Times.


def test_the_time_of_a_slice_is_that_of_its_record(driver: Driver) -> None:
    """Not beyond now, and now for a record without a time."""
    outcome = driver.step([driver.record(spans(1), each) for each in (NOW_MS - 50, NOW_MS + 10_000, None, -1, 2**62)])
    assert times(outcome) == [-50, 0, 0, 0, 0]


def test_the_time_of_a_slice_is_not_before_the_mark_of_its_partition() -> None:
    """A producer whose clock is an hour behind would otherwise be late everywhere."""
    driver = Driver(0, 1)
    driver.mark(ends={0: NOW, 1: NOW - 100})
    outcome = driver.step([driver.record(spans(1), NOW_MS - 3_600_000, each) for each in (0, 1)])
    assert times(outcome) == [0, -100_000]


# Marks.


def test_a_confirmed_end_is_marked_in_every_partition_of_spans() -> None:
    driver = Driver(targets=3)
    outcome = driver.step(ends={0: NOW - 0.25})
    assert [each.partition for each in outcome.emissions] == [0, 1, 2]
    assert {(each.topic, each.key, each.headers) for each in outcome.emissions} == {("spans", None, ())}
    (mark,) = {each.model_dump_json(): each for each in marks(outcome)}.values()
    assert mark.sources == {"otlp_spans": 1}
    assert [(each.topic, each.partition, each.time_ms - NOW_MS, each.caught_up) for each in mark.marks] == [
        ("otlp_spans", 0, -250, True)
    ]
    assert outcome.levels["ragweir_assemble_mark_timestamp_seconds", "otlp_spans", "0"] == NOW - 0.25


def test_nothing_is_marked_without_progress(driver: Driver) -> None:
    """Neither time alone moves a mark, nor being at an end that was not confirmed."""
    assert driver.mark() == {}
    assert driver.mark(ends={0: NOW}) == {0: (0, True)}
    driver.now += 3_600
    assert driver.step().emissions == []
    driver.agent.tick(driver.now, [SOURCE], 100)
    driver.agent.on_commit()
    assert driver.mark() == {}


def test_marks_follow_the_slices_that_they_cover(driver: Driver) -> None:
    outcome = driver.step(driver.read([NOW_MS]), ends={0: NOW})
    assert [each.key is None for each in outcome.emissions] == [False, True, True]


def test_marks_are_at_least_200_ms_apart(driver: Driver) -> None:
    """The clock moves on between them, and the next mark has it."""
    assert marks(driver.step(ends={0: NOW - 5}))
    driver.now += 0.15
    assert not marks(driver.step(ends={0: NOW - 4}))
    driver.now += 0.1
    assert [each.marks[0].time_ms for each in marks(driver.step())] == [NOW_MS - 4000] * 2
    driver.now -= 1  # This machine's clock was set back.
    assert marks(driver.step(ends={0: NOW - 3}))


def test_before_the_end_the_median_of_the_newest_records_counts(driver: Driver) -> None:
    """Four of ten producers some minutes ahead or behind do not move it, and one record is no majority."""
    past = [NOW_MS - 600_000 + each for each in range(100)]
    assert driver.mark(driver.read([NOW_MS])) == {}
    mixed = [each + (300_000, -300_000, 0, 0, 0)[number % 5] for number, each in enumerate(past)]
    found = driver.mark(driver.read(mixed))
    assert -600_000 <= found[0][0] <= -599_900
    assert found[0][1] is False


def test_timestamps_in_the_future_are_no_progress(driver: Driver) -> None:
    """A backlog of producers that are all ahead would be marked as read before it is."""
    assert driver.mark(driver.read([NOW_MS + 60_000 + each for each in range(100)])) == {}
    assert driver.mark(ends={0: NOW}) == {0: (0, True)}


def test_a_mark_is_never_beyond_now(driver: Driver) -> None:
    driver.now += 1
    (mark, _) = marks(driver.step(ends={0: NOW + 100}))
    assert mark.marks[0].time_ms == NOW_MS + 1000


def test_a_partition_without_a_mark_is_left_out() -> None:
    """Its absence holds the clock of join, as `sources` counts it."""
    driver = Driver(0, 1)
    assert driver.mark(ends={1: NOW}) == {1: (0, True)}
    assert driver.mark(ends={0: NOW}) == {0: (0, True), 1: (0, True)}


def test_marks_wait_for_the_partition_counts() -> None:
    driver = Driver(counted=False)
    assert driver.mark(ends={0: NOW}) == {}
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 1}, {})
    assert driver.mark(ends={0: NOW + 1}) == {}
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 1}, {"spans": 1})
    assert driver.mark() == {0: (1000, True)}


def test_added_partitions_are_marked_at_once() -> None:
    """Those of spans get a mark, and those of a source count, even if nothing else moves."""
    driver = Driver(targets=1)
    driver.mark(ends={0: NOW})
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 1}, {"spans": 2})
    assert [each.partition for each in driver.step().emissions] == [0, 1]
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 4}, {"spans": 2})
    assert [each.sources for each in marks(driver.step())] == [{SOURCE[0]: 4}] * 2
    driver.agent.input_progress.on_partition_counts({"otlp_logs": 3}, {})
    assert marks(driver.step())[0].sources == {SOURCE[0]: 4, "otlp_logs": 3}, "a topic that is away holds the clock"
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 2, "otlp_logs": 3}, {"spans": 2})
    assert marks(driver.step())[0].sources == {SOURCE[0]: 2, "otlp_logs": 3}, "it was created again with fewer"


def test_a_source_that_is_deleted_holds_the_clock_for_ten_seconds() -> None:
    """Its partitions are marked no longer, even before they are taken away; one that is back counts at once."""
    driver = Driver(0)
    logs = ("otlp_logs", 0)
    driver.agent.on_assigned(Assignment(logs, None, 0))
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 1, logs[0]: 1}, {"spans": 1})
    driver.agent.input_progress.on_ends({logs: NOW})
    assert driver.mark(ends={0: NOW}) == {0: (0, True)}, "of the source that is last by name"
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 1}, {"spans": 1})
    for _ in range(9):
        driver.now += 1
        (mark,) = marks(driver.step(ends={0: driver.now}))
        assert mark.sources == {SOURCE[0]: 1, logs[0]: 1}
    driver.now += 1
    (mark,) = marks(driver.step())
    assert (mark.sources, [each.topic for each in mark.marks]) == ({SOURCE[0]: 1}, [SOURCE[0]])
    driver.agent.on_revoked([logs])
    driver.now += 1
    driver.agent.input_progress.on_partition_counts({SOURCE[0]: 1, logs[0]: 2}, {"spans": 1})
    (mark,) = marks(driver.step())
    assert (mark.sources, [each.topic for each in mark.marks]) == ({SOURCE[0]: 1, logs[0]: 2}, [SOURCE[0]])


def test_a_source_that_is_away_for_a_moment_counts_on() -> None:
    driver = Driver(0)
    for passed in range(0, 30, 2):
        driver.now = NOW + passed
        driver.agent.input_progress.on_partition_counts(
            {SOURCE[0]: 1, "otlp_logs": 1} if passed % 4 else {SOURCE[0]: 1}, {"spans": 1}
        )
        assert all(mark.sources.keys() >= {"otlp_logs"} for mark in marks(driver.step(ends={0: driver.now})) if passed)


# Aborts, restarts and rebalances.


def test_an_abort_takes_marks_and_times_back(driver: Driver) -> None:
    assert marks(driver.step(driver.read([NOW_MS - 9] * 20), {0: NOW - 1}, commit=False))
    assert driver.agent.input_progress.note(SOURCE) == ""
    assert driver.mark() == {}
    assert driver.mark(driver.read([NOW_MS - 5_000] * 20)) == {0: (-5_000, False)}


def test_an_aborted_mark_comes_again_at_once(driver: Driver) -> None:
    driver.step(ends={0: NOW - 1}, commit=False)
    assert marks(driver.step(ends={0: NOW - 1}))


def test_the_next_owner_goes_on_from_the_mark(driver: Driver) -> None:
    """It is committed with the offset, in the transaction that writes it."""
    driver.agent.input_progress.on_ends({SOURCE: NOW - 7})
    driver.agent.tick(NOW, (), 100)
    note = driver.agent.input_progress.note(SOURCE)
    driver.agent.on_commit()
    assert driver.agent.input_progress.note(SOURCE) == note
    heir = KeyAgent(AssembleSettings(), LIMIT)
    heir.input_progress.on_time(NOW)
    heir.on_assigned(Assignment(SOURCE, 5, 5, note=note))
    (emission,) = slices(heir.handle([Record(*SOURCE, 5, None, spans(1), NOW_MS - 60_000)]))
    assert dict(emission.headers)[HEADER_TIME] == b"%d" % (NOW_MS - 7000)


@pytest.mark.parametrize("note", ["", "x", "-1", "9" * 50, "1e3", "١"])
def test_a_foreign_note_is_none(note: str) -> None:
    agent = KeyAgent(AssembleSettings(), LIMIT)
    agent.on_assigned(Assignment(SOURCE, 5, 5, note=note))
    assert agent.input_progress.note(SOURCE) == ""


def test_a_partition_that_was_given_up_is_marked_no_longer() -> None:
    """Its new owner does, and this worker's gauge ends."""
    driver = Driver(0, 1)
    assert driver.mark(ends={0: NOW, 1: NOW}) == {0: (0, True), 1: (0, True)}
    driver.agent.on_revoked([SOURCE])
    assert driver.mark(ends={0: NOW + 1, 1: NOW + 1}) == {1: (1000, True)}
    assert driver.agent.drain_metrics().levels == {("ragweir_assemble_mark_timestamp_seconds", "otlp_spans", "0"): None}
    assert driver.agent.drain_metrics().levels == {}


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(-5_000, 5_000), max_size=15),
            st.none() | st.integers(-5_000, 5_000),
            st.integers(0, 500),
        )
    )
)
def test_a_clock_never_goes_back_nor_beyond_now_and_what_was_read(
    steps: list[tuple[list[int], int | None, int]],
) -> None:
    clock, now, seen = SourceClock(), 0, [-10_000]
    for timestamps, confirmed, passed in steps:
        now += passed
        own = [each for each in timestamps if each <= now]
        advanced = clock.advance(own, confirmed, now)
        seen += own
        if advanced.time_ms is not None:
            assert clock.time_ms is None or advanced.time_ms >= clock.time_ms
            assert advanced.time_ms <= now
            if not advanced.caught_up:
                assert advanced.time_ms in seen
        clock = advanced


def test_a_span_of_redpanda_is_copied_as_any_other() -> None:
    """A record of `redpanda.otel_traces`: a schema's id, the index of the message, and a span of Redpanda's."""
    span = b"\x2a\x10" + bytes(range(16)) + b"\x32\x08" + bytes(range(1, 9)) + b"\x52\x03ask"
    outcome = Driver().step([Driver().record(b"\0\0\0\0\7" + b"\0" + span)])
    (copied,) = (each for each in outcome.emissions if each.key)
    ((found,), _) = read(copied.value or b"")
    assert (copied.key, found.span_id, found.name) == (bytes(range(16)).hex().encode(), bytes(range(1, 9)).hex(), "ask")


def test_the_settings_for_redpanda_read_its_topic_alone() -> None:
    settings = load(Path(__file__).parents[4] / "deploy" / "otel" / "redpanda.toml")
    assert settings.trace_topics == ("redpanda.otel_traces",)


def annotated(*labels: str) -> bytes:
    """A request with a span of feedback for each label, and one that is none."""
    own: list[dict[str, Any]] = [{"traceId": f"{9:032x}", "spanId": f"{9:016x}", "name": "root"}]
    own += [
        {
            "traceId": f"{9:032x}",
            "spanId": f"{number + 1:016x}",
            "name": "user_feedback",
            "attributes": [{"key": "feedback.label", "value": {"stringValue": label}}],
        }
        for number, label in enumerate(labels)
    ]
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": own}]}]})


def test_feedback_in_traces_is_given_to_its_topic_if_it_is_enabled() -> None:
    """Its spans are not copied then; those that are no feedback are in one dead letter."""
    driver = Driver(reads_feedback=True)
    assert driver.agent.outputs == ("spans", "dead-letter", "feedback")
    outcome = driver.step([driver.record(annotated("up", "bell \x07", "down"))])
    found = [
        (each.key, orjson.loads(each.value or b"")["value"]) for each in outcome.emissions if each.topic == "feedback"
    ]
    assert found == [(f"{9:032x}".encode(), "up"), (f"{9:032x}".encode(), "down")]
    (own,) = slices(outcome)
    assert [each.name for each in read(own.value or b"")[0]] == ["root"]
    (letter,) = [each for each in outcome.emissions if each.topic == "dead-letter"]
    assert dict(letter.headers)["ragweir-error-class"] == b"invalid"
    assert outcome.counts["ragweir_assemble_feedback_total", "given"] == 2
    assert outcome.counts["ragweir_assemble_feedback_total", "rejected"] == 1


def test_feedback_in_traces_is_copied_like_other_spans_unless_it_is_enabled() -> None:
    driver = Driver()
    assert driver.agent.outputs == ("spans", "dead-letter")
    outcome = driver.step([driver.record(annotated("up"))])
    assert {each.topic for each in outcome.emissions} == {"spans"}
    assert [len(read(each.value or b"")[0]) for each in slices(outcome)] == [2]
