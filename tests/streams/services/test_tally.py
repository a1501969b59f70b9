"""Tally: the newest feedback of each answer, name and giver counts once, in the window of its answer."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ragweir.errors import StateError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Source
from ragweir.schemas.feedback import JoinedFeedback, KeyedFeedback
from ragweir.schemas.window import Window
from ragweir.streams.runtime.agent import Assignment, StoredChangelog
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.tally.agent import TallyAgent
from ragweir.streams.services.tally.held_feedback import OTHER, counted_value

HORIZON_S = 24 * 3_600
NOW_MS = 1_795_255_200_000
KEYED = "rag.feedback.keyed"
HOUR = datetime(2026, 11, 21, 10, tzinfo=UTC)


class Tally:
    """The agent, with the topics that it writes."""

    def __init__(self) -> None:
        self.joined: list[Record] = []
        self.windows: dict[bytes | None, Window] = {}
        self.offset = 0
        self.start()

    def start(self) -> None:
        self.agent = TallyAgent(HORIZON_S)
        self.agent.on_assigned(Assignment((KEYED, 3), None, 0, StoredChangelog(self.joined)))

    def record(self, feedback: KeyedFeedback | bytes | None, at_ms: int = NOW_MS) -> Record:
        self.offset += 1
        value = encode(feedback) if isinstance(feedback, KeyedFeedback) else feedback
        return Record(KEYED, 3, self.offset, b"k", value, at_ms)

    def handle(self, *records: Record, commit: bool = True, at_ms: int = NOW_MS) -> Outcome:
        outcome = self.agent.handle(records)
        outcome.extend(self.agent.tick(NOW_MS / 1000, (), 1_000))
        if not commit:
            self.agent.on_abort()
            return outcome
        self.agent.on_commit()
        for each in outcome.emissions:
            self.keep(each, at_ms)
        return outcome

    def keep(self, emission: Emission, at_ms: int) -> None:
        if emission.topic == "feedback.windows":
            self.windows[emission.key] = Window.model_validate_json(emission.value or b"")
        elif emission.topic == "feedback.joined":
            place = len(self.joined)
            self.joined.append(Record("rag.feedback.joined", 3, place, emission.key, emission.value, at_ms))
        if emission.topic != "feedback.unmatched":
            assert emission.partition == 3

    def values(self) -> dict[tuple[str, str, str | None], Any]:
        newest = {record.key: JoinedFeedback.model_validate_json(record.value or b"") for record in self.joined}
        return {(each.event_id, each.name, each.giver): each.value for each in newest.values()}

    def counts(self) -> dict[tuple[datetime, str], Any]:
        return {(window.start, window.dimensions["application"]): window.categories for window in self.windows.values()}


def keyed(value: Any = "down", second: int = 0, offset: int = 0, **fields: Any) -> KeyedFeedback:
    given: dict[str, Any] = {
        "event_id": "e1",
        "name": "thumbs",
        "giver": "g1",
        "time": HOUR + timedelta(seconds=second),
        "received": HOUR + timedelta(days=1),
        "source": Source(topic="rag.feedback", partition=0, offset=offset),
        "event_time": HOUR + timedelta(minutes=5),
        "dimensions": {"application": "bot"},
    }
    return KeyedFeedback(**{**given, "value": value, **fields})


def test_feedback_is_joined_and_counted_in_the_hour_of_its_answer() -> None:
    tally = Tally()
    outcome = tally.handle(tally.record(keyed("down")), tally.record(keyed("up", giver="g2")))
    assert tally.values() == {("e1", "thumbs", "g1"): "down", ("e1", "thumbs", "g2"): "up"}
    (window,) = tally.windows.values()
    assert (window.window, window.start, window.end) == ("1h", HOUR, HOUR + timedelta(hours=1))
    assert (window.events, window.partition, window.part) == (0, 3, 0)
    assert window.categories == {"thumbs": {"down": 1, "up": 1}}
    assert outcome.counts["ragweir_feedback_total", "thumbs", "joined"] == 2
    assert outcome.levels["ragweir_feedback_values",] == 2


def test_the_newest_by_time_holds_whatever_comes_last() -> None:
    tally = Tally()
    tally.handle(tally.record(keyed("up", second=5)))
    outcome = tally.handle(tally.record(keyed("down", second=3)))
    assert [each.topic for each in outcome.emissions] == []
    assert outcome.counts["ragweir_feedback_total", "thumbs", "outdated"] == 1
    outcome = tally.handle(tally.record(keyed("down", second=9)))
    assert outcome.counts["ragweir_feedback_total", "thumbs", "replaced"] == 1
    assert tally.values() == {("e1", "thumbs", "g1"): "down"}
    assert tally.counts() == {(HOUR, "bot"): {"thumbs": {"down": 1}}}


def test_feedback_that_is_taken_back_counts_no_more() -> None:
    tally = Tally()
    tally.handle(tally.record(keyed("up")))
    outcome = tally.handle(tally.record(keyed(None, second=1)))
    assert outcome.counts["ragweir_feedback_total", "thumbs", "taken_back"] == 1
    assert (tally.values(), tally.counts()) == ({("e1", "thumbs", "g1"): None}, {(HOUR, "bot"): {}})
    outcome = tally.handle(tally.record(keyed("up", second=2)))
    assert outcome.counts["ragweir_feedback_total", "thumbs", "joined"] == 1
    assert tally.counts() == {(HOUR, "bot"): {"thumbs": {"up": 1}}}


def test_feedback_moves_with_its_answer() -> None:
    """An answer that was evaluated again with another dimension is counted there, and no more where it was."""
    tally = Tally()
    tally.handle(tally.record(keyed("up")))
    tally.handle(tally.record(keyed("up", second=1, dimensions={"application": "other"})))
    assert tally.counts() == {(HOUR, "bot"): {}, (HOUR, "other"): {"thumbs": {"up": 1}}}


@pytest.mark.parametrize("crash", [False, True])
def test_a_record_that_is_written_again_counts_once(*, crash: bool) -> None:
    """So that match may write it again, as after its group was deleted."""
    tally = Tally()
    tally.handle(tally.record(keyed("up")))
    if crash:
        tally.start()
    outcome = tally.handle(tally.record(keyed("up")), tally.record(keyed("up")))
    assert outcome.emissions == []
    assert outcome.counts["ragweir_feedback_total", "thumbs", "outdated"] == 2


def test_what_is_not_committed_did_not_happen() -> None:
    tally = Tally()
    tally.handle(tally.record(keyed("up")))
    tally.handle(tally.record(keyed("down", second=1)), tally.record(keyed(None, second=2)), commit=False)
    tally.handle(tally.record(keyed(3, second=1, giver="g2")))
    assert tally.counts() == {(HOUR, "bot"): {"thumbs": {"3": 1, "up": 1}}}
    tally.handle(tally.record(keyed("down", second=1)))
    assert tally.counts() == {(HOUR, "bot"): {"thumbs": {"3": 1, "down": 1}}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_records_crashes_and_aborts_comes_to_the_same(seed: int) -> None:
    """The state is what was committed: the newest of each key, and the sums of them by window."""
    chance = random.Random(seed)
    made = [
        keyed(
            chance.choice([1, True, "up", "down", 0.5, None]),
            chance.randrange(20),
            offset,
            event_id=f"e{(event := chance.randrange(4))}",
            giver=chance.choice(["g1", "g2", None]),
            name=chance.choice(["thumbs", "copied"]),
            event_time=HOUR + timedelta(minutes=40 * event),
            dimensions={"application": ("bot", "other")[event % 2]},
        )
        for offset in range(60)
    ]
    newest: dict[tuple[str, str, str | None], KeyedFeedback] = {}
    for each in sorted(made, key=lambda feedback: feedback.order):
        newest[each.event_id, each.name, each.giver] = each
    expected: dict[tuple[datetime, str], Counter[tuple[str, str]]] = {}
    for each in newest.values():
        if (text := counted_value(each.value)) is not None:
            place = each.event_time.replace(minute=0), each.dimensions["application"]
            expected.setdefault(place, Counter())[each.name, text] += 1
    tally, left = Tally(), chance.sample(made, len(made)) + chance.choices(made, k=20)
    while left:
        size = chance.randrange(1, 8)
        records = [tally.record(each) for each in left[:size]]
        commit = chance.random() < 0.7
        tally.handle(*records, commit=commit)
        left = left[size:] if commit else left
        if chance.random() < 0.2:
            tally.start()
    assert tally.values() == {key: each.value for key, each in newest.items()}
    found = {
        place: Counter({(name, value): number for name, values in names.items() for value, number in values.items()})
        for place, names in tally.counts().items()
    }
    assert {place: counts for place, counts in found.items() if counts} == expected


def test_a_window_has_a_bounded_number_of_values() -> None:
    """The most frequent ones have a count of their own, and all are counted."""
    tally = Tally()
    tally.handle(*[tally.record(keyed(number / 7, giver=f"g{number}")) for number in range(150)])
    tally.handle(*[tally.record(keyed("often", giver=f"h{number}")) for number in range(5)])
    values = tally.counts()[HOUR, "bot"]["thumbs"]
    assert (len(values), sum(values.values()), values["often"], values[OTHER]) == (101, 155, 5, 51)


def test_feedback_is_forgotten_after_three_horizons_by_the_times_of_records() -> None:
    """No clock of a worker ends it."""
    tally = Tally()
    tally.handle(tally.record(keyed("up")))
    later_ms = NOW_MS + 3 * HORIZON_S * 1000
    tally.handle(tally.record(keyed("down", event_id="e2"), later_ms), at_ms=later_ms)
    outcome = tally.handle(tally.record(keyed("up", event_id="e3"), later_ms + 1), at_ms=later_ms + 1)
    assert outcome.levels["ragweir_feedback_values",] == 3
    outcome = tally.handle()
    assert outcome.levels["ragweir_feedback_values",] == 2
    tally.start()
    assert tally.handle().levels["ragweir_feedback_values",] == 2


@pytest.mark.parametrize("value", [None, b"", b"{}", b"SECRET", b'{"event_id":"SECRET"}'])
def test_a_record_of_another_writer_is_unmatched(value: bytes | None) -> None:
    tally = Tally()
    outcome = tally.handle(tally.record(value), tally.record(keyed()))
    assert [each.topic for each in outcome.emissions] == ["feedback.unmatched", "feedback.joined", "feedback.windows"]
    assert b"SECRET" not in (outcome.emissions[0].value or b"")
    assert outcome.counts["ragweir_feedback_total", "", "unmatched_invalid"] == 1


def test_joined_feedback_that_was_deleted_is_noticed() -> None:
    """Windows would count anew, without what was joined before; retention alone leaves the end where it was."""
    with pytest.raises(StateError, match=r"read up to offset 7, but feedback\.joined was deleted or emptied"):
        TallyAgent(HORIZON_S).on_assigned(Assignment((KEYED, 3), 7, 7, StoredChangelog()))
    TallyAgent(HORIZON_S).on_assigned(Assignment((KEYED, 3), 7, 7, StoredChangelog(end=5)))
    TallyAgent(HORIZON_S).on_assigned(Assignment((KEYED, 3), 7, 0, StoredChangelog()))  # Both topics are new.


def test_feedback_on_answers_of_24_to_48_hours_ago_is_a_gauge() -> None:
    """By name and value as it holds now; what is taken back, younger or older is in none, and its series ends."""
    tally, now = Tally(), HOUR + timedelta(hours=48, minutes=30)

    def levels(minutes: float = 0.0) -> dict[Any, float | None]:
        found: dict[Any, float | None] = {}
        found |= tally.agent.tick((now + timedelta(minutes=minutes)).timestamp(), (), 1_000).levels
        tally.agent.on_commit()
        found |= tally.agent.drain_metrics().levels
        return {key[1:]: value for key, value in found.items() if key[0] == "ragweir_feedback_given"}

    ages = {"e1": 48, "e2": 25, "e3": 24, "e4": 49}
    hour = HOUR + timedelta(hours=48)
    given = [keyed(event_id=name, event_time=hour - timedelta(hours=age), offset=age) for name, age in ages.items()]
    tally.agent.handle([tally.record(each) for each in given])
    assert levels() == {("thumbs", "down"): 2}
    tally.agent.handle([tally.record(keyed(None, event_id="e2", event_time=given[1].event_time, second=9))])
    assert levels(0.1) == {}, "it is counted every 15 s"
    assert levels(1) == {("thumbs", "down"): 1}
    assert levels(31) == {("thumbs", "down"): 1}, "the answer of 49 hours ago has gone, that of 24 hours ago has come"
    assert levels(60 * 30) == {("thumbs", "down"): None}


def test_values_of_recent_feedback_are_few_series() -> None:
    tally = Tally()
    given = [keyed(f"value {number:02}", event_id=f"e{number}", offset=number) for number in range(25)]
    tally.agent.handle([tally.record(each) for each in given])
    found = tally.agent.tick((HOUR + timedelta(hours=30)).timestamp(), (), 1_000).levels
    values = {key[2]: value for key, value in found.items() if key[0] == "ragweir_feedback_given"}
    assert (len(values), values[OTHER]) == (21, 5)
