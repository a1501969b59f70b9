"""Match: feedback finds its answer whenever it comes, waits in the topic meanwhile, and nothing stops it."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragweir.schemas.feedback import KeyedFeedback, UnmatchedFeedback, WaitingFeedback
from ragweir.streams.runtime.agent import Assignment, StoredChangelog
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.match import agent
from ragweir.streams.services.match.agent import MatchAgent, MatchConfig, TargetSource
from ragweir.streams.services.match.target_store import EvaluatedAnswer, TargetStore
from ragweir.streams.services.shared.raters import hashed_rater

HOUR_MS = 3_600_000
HORIZON_S = 24 * 3_600
NOW_MS = 1_795_255_200_000
FEEDBACK, TOPIC_ID = "rag.feedback", "topic-1"


class Match:
    """The agent with a store of its own, whose waiting feedback is kept as the topic keeps it."""

    def __init__(self, folder: Path, most_waiting: int = 100) -> None:
        self.path = folder / "answers.sqlite"
        self.store = TargetStore(HORIZON_S, ("application",))
        self.store.open(self.path)
        self.config = MatchConfig("secret", HORIZON_S, ("application",), 64 * 1024, most_waiting)
        self.waiting: list[Record] = []
        self.written: list[Emission] = []
        self.offset = 0
        self.start()

    def start(self) -> None:
        """Start the agent as after a crash: with what was committed."""
        self.store.close()
        self.store = TargetStore(HORIZON_S, ("application",))
        self.store.open(self.path)
        self.agent = MatchAgent(self.config, self.store, TargetSource())
        changelog = StoredChangelog(self.waiting)
        self.agent.on_assigned(Assignment((FEEDBACK, 0), None, 0, changelog, topic_id=TOPIC_ID))

    def record(self, value: dict[str, Any] | bytes | None, at_ms: int = NOW_MS) -> Record:
        self.offset += 1
        encoded = orjson.dumps(value) if isinstance(value, dict) else value
        return Record(FEEDBACK, 0, self.offset, None, encoded, at_ms)

    def handle(self, *records: Record, now_ms: int = NOW_MS, commit: bool = True, caught_up: bool = True) -> Outcome:
        """Make one transaction of records, without any a tick alone."""
        outcome = self.agent.handle(records) if records else Outcome()
        assert outcome.settled == list(records)
        outcome.extend(self.agent.tick(now_ms / 1000, ((FEEDBACK, 0),) * caught_up, 1_000))
        if not commit:
            self.agent.on_abort()
            return outcome
        self.agent.on_commit()
        for emission in outcome.emissions:
            if emission.topic == "feedback.waiting":
                assert emission.partition == 0
                place = len(self.waiting)
                self.waiting.append(Record("rag.feedback.waiting", 0, place, emission.key, emission.value, NOW_MS))
            else:
                self.written.append(emission)
        return outcome

    def evaluate(self, event_id: str, trace_id: str | None = None, written_ms: int = NOW_MS) -> None:
        self.store.add(EvaluatedAnswer(event_id, 1_000_000, ("bot",)), trace_id, None, written_ms)
        self.store.commit({0: 1}, caught_up=True)

    def keyed(self) -> list[KeyedFeedback]:
        return [
            KeyedFeedback.model_validate_json(each.value or b"")
            for each in self.written
            if each.topic == "feedback.keyed"
        ]

    def unmatched(self) -> list[UnmatchedFeedback]:
        return [
            UnmatchedFeedback.model_validate_json(each.value or b"")
            for each in self.written
            if each.topic == "feedback.unmatched"
        ]

    def left(self) -> list[WaitingFeedback]:
        """What waits by the topic."""
        newest = {record.key: record.value for record in self.waiting}
        return [WaitingFeedback.model_validate_json(value) for value in newest.values() if value is not None]


@pytest.fixture
def match(tmp_path: Path) -> Iterator[Match]:
    match = Match(tmp_path)
    yield match
    match.store.close()


def thumbs(event_id: str, **fields: Any) -> dict[str, Any]:
    return {"event_id": event_id, "name": "thumbs", "value": "down", **fields}


def test_feedback_on_an_evaluated_answer_is_keyed_at_once(match: Match) -> None:
    match.evaluate("e1")
    outcome = match.handle(match.record(thumbs("e1", giver="Ada", time="2026-11-20T08:00:00Z", comment="no page 3")))
    (emission,) = outcome.emissions
    (keyed,) = match.keyed()
    assert (emission.topic, emission.key, emission.partition) == ("feedback.keyed", b"e1", -1)
    assert (keyed.event_id, keyed.name, keyed.value, keyed.dimensions) == (
        "e1",
        "thumbs",
        "down",
        {"application": "bot"},
    )
    assert keyed.giver == hashed_rater("Ada", "secret")
    assert keyed.event_time.timestamp() == 1
    assert keyed.time.isoformat() == "2026-11-20T08:00:00+00:00"
    assert b"Ada" not in (emission.value or b"")
    assert b"page" not in (emission.value or b"")
    assert outcome.counts["ragweir_feedback_total", "thumbs", "matched"] == 1


def test_no_feedback_is_later_than_its_record(match: Match) -> None:
    """A clock that is a year ahead does not make its feedback the last one for a year."""
    match.evaluate("e1")
    match.handle(match.record(thumbs("e1", time="2099-01-01T00:00:00Z")), match.record(thumbs("e1")))
    assert [keyed.time.timestamp() * 1000 for keyed in match.keyed()] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("crash", [False, True])
def test_feedback_waits_for_its_answer(match: Match, *, crash: bool) -> None:
    """It is in the topic from its own transaction on, and leaves it in the one that writes it with its event."""
    match.handle(match.record(thumbs("e1")), match.record({**thumbs("t1"), "event_id": None, "trace_id": "T1"}))
    assert len(match.left()) == 2
    assert match.keyed() == []
    if crash:
        match.start()
    match.evaluate("e1")
    match.handle()
    assert [keyed.event_id for keyed in match.keyed()] == ["e1"]
    match.evaluate("e2", "t1")
    match.handle()
    assert [keyed.event_id for keyed in match.keyed()] == ["e1", "e2"]
    assert match.left() == []
    match.start()
    match.handle()
    assert len(match.keyed()) == 2


def test_an_answer_that_came_before_a_crash_is_found_after_it(match: Match) -> None:
    match.handle(match.record(thumbs("e1")))
    match.evaluate("e1")
    match.start()
    match.handle()
    assert [keyed.event_id for keyed in match.keyed()] == ["e1"]


def test_what_is_not_committed_did_not_happen(match: Match) -> None:
    early, late = match.record(thumbs("e1")), match.record(thumbs("e2"))
    match.handle(early)
    match.evaluate("e1")
    match.handle(late, commit=False)
    assert len(match.left()) == 1
    match.evaluate("e2")
    match.handle(late)
    assert sorted(keyed.event_id for keyed in match.keyed()) == ["e1", "e2"]
    assert match.left() == []


def test_feedback_is_given_up_once_evaluations_of_the_horizon_after_it_were_read(match: Match) -> None:
    """Neither this machine's clock nor an outage of evaluate ends the wait."""
    record = match.record(thumbs("e1", giver="Ada"))
    match.handle(record)
    day_later = NOW_MS + HORIZON_S * 1000
    match.handle(now_ms=NOW_MS + 365 * 24 * HOUR_MS)
    match.evaluate("other", written_ms=day_later + 500_000)
    match.handle(now_ms=NOW_MS + 365 * 24 * HOUR_MS)
    match.evaluate("another", written_ms=day_later + 2 * 600_000)
    match.handle(now_ms=NOW_MS)
    assert (match.unmatched(), len(match.left())) == ([], 1)
    match.handle(now_ms=day_later + 2 * 600_000)
    (unmatched,) = match.unmatched()
    assert (unmatched.error_class, unmatched.source.offset) == ("unknown", record.offset)
    assert unmatched.feedback is not None
    assert unmatched.feedback.giver == hashed_rater("Ada", "secret")
    assert match.left() == []


def test_an_answer_at_the_end_of_the_horizon_is_joined(match: Match) -> None:
    """Feedback is looked for once more before it is given up."""
    match.handle(match.record(thumbs("e1")))
    match.evaluate("e1", written_ms=NOW_MS + HORIZON_S * 1000 - 1)
    match.evaluate("other", written_ms=NOW_MS + 2 * HORIZON_S * 1000)
    match.handle(now_ms=NOW_MS + 2 * HORIZON_S * 1000)
    assert [keyed.event_id for keyed in match.keyed()] == ["e1"]
    assert match.unmatched() == []


def test_nothing_is_given_up_while_the_store_is_read_anew(match: Match) -> None:
    match.handle(match.record(thumbs("e1")))
    match.store.close()
    match.handle(match.record(thumbs("e2")), now_ms=NOW_MS + 9 * HORIZON_S * 1000)
    match.path.unlink()
    match.store.open(match.path)
    match.store.add(EvaluatedAnswer("e3", 1, ("bot",)), None, None, NOW_MS + 9 * HORIZON_S * 1000)
    match.store.commit({}, caught_up=False)
    match.handle(now_ms=NOW_MS + 9 * HORIZON_S * 1000)
    assert (match.unmatched(), len(match.left())) == ([], 2)
    match.evaluate("e1")
    match.evaluate("e2")
    match.handle()
    assert len(match.keyed()) == 2


def test_answers_are_looked_for_again_once_the_store_is_open_again(match: Match) -> None:
    """As while its file is opened anew after an error: nothing that it had before is read again."""
    match.evaluate("e1")
    match.store.close()
    match.handle(match.record(thumbs("e1")))
    match.handle()
    assert len(match.left()) == 1
    match.store.open(match.path)
    match.handle()
    assert [keyed.event_id for keyed in match.keyed()] == ["e1"]


def test_answers_are_kept_until_all_that_waits_for_them_has_looked(
    match: Match, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that catches up may read more than the horizon between two transactions."""
    monkeypatch.setattr(agent, "_MOST_CHECKED", 1)
    match.handle(*[match.record(thumbs(f"e{number}")) for number in range(3)])
    for number in range(3):
        match.handle()
        match.evaluate(f"e{number}", written_ms=NOW_MS + number)
    for number in range(4):
        match.evaluate(f"other{number}", written_ms=NOW_MS + (2 + number) * HORIZON_S * 1000)
        match.handle()
    assert [keyed.event_id for keyed in match.keyed()] == ["e0", "e1", "e2"]


def test_a_flood_of_unknown_ids_holds_up_and_is_given_up_after_ten_minutes(tmp_path: Path) -> None:
    """Memory is bounded: nothing more is read while as much waits as may, and the oldest goes when it can."""
    match = Match(tmp_path, most_waiting=20)
    match.evaluate("other")
    for number in range(20):
        assert match.agent.holding.capacity == 20 - number
        match.handle(match.record(thumbs(f"unknown{number}"), NOW_MS + number * 60_000))
    later_ms = NOW_MS + 19 * 60_000
    match.handle(now_ms=later_ms)
    assert (match.agent.holding.capacity, match.unmatched()) == (0, [])
    match.evaluate("another", written_ms=later_ms)
    match.handle(now_ms=later_ms)
    assert [each.error_class for each in match.unmatched()] == ["crowded", "crowded"]
    assert [each.source.offset for each in match.unmatched()] == [1, 2]
    assert match.agent.holding.capacity == 2
    match.evaluate("unknown19", written_ms=later_ms)
    match.handle(now_ms=later_ms)
    assert [keyed.event_id for keyed in match.keyed()] == ["unknown19"]
    match.store.close()


@pytest.mark.parametrize("caught_up", [True, False])
def test_answers_stay_while_feedback_is_behind(match: Match, caught_up: bool) -> None:
    """An answer that was within the horizon when its feedback came is found, however late the feedback is read."""
    match.evaluate("e1")
    for quarter in range(1, 9):
        match.evaluate(f"later {quarter}", written_ms=NOW_MS + quarter * HORIZON_S * 250)
        match.handle(now_ms=NOW_MS + quarter * HORIZON_S * 250, caught_up=caught_up)
    match.handle(match.record(thumbs("e1"), NOW_MS + 1), now_ms=NOW_MS + 2 * HORIZON_S * 1000)
    assert [keyed.event_id for keyed in match.keyed()] == ([] if caught_up else ["e1"])


@pytest.mark.slow
def test_feedback_that_waits_takes_a_kilobyte_of_memory(match: Match) -> None:
    """So that the most that may wait takes 50 MB: orjson alone would keep 8 KB for each."""
    records = [match.record(thumbs(f"e{number:036}", giver="Ada")) for number in range(2_000)]
    match.handle(*records[:1_000])
    tracemalloc.start()
    try:
        match.agent.handle(records[1_000:])
        match.agent.tick(NOW_MS / 1000, (), 1_000)
        match.agent.on_commit()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / 1_000 < 1_500


@pytest.mark.parametrize(
    ("value", "error_class"),
    [
        (None, "tombstone"),
        (b"", "not_json"),
        (b"SECRET", "not_json"),
        (b"[" * 10_000, "not_json"),
        (b'{"event_id":"SECRET","trace_id":"t","name":"thumbs","value":1}', "invalid"),
        (b'{"event_id":"e1","name":"thumbs","value":["SECRET"]}', "invalid"),
        (b'{"event_id":"e1","name":"th\\u001bumbs","value":1}', "invalid"),
        (b'{"event_id":"e1","name":"thumbs","value":1,"comment":"' + b"SECRET" * 180_000 + b'"}', "too_large"),
        (b"\xff\xfe" * 100, "not_json"),
    ],
    ids=["tombstone", "empty", "text", "deep", "targets", "type", "control", "large", "bytes"],
)
def test_what_is_no_feedback_is_unmatched_with_its_class(match: Match, value: bytes | None, error_class: str) -> None:
    """It is settled with the others of its batch, and nothing of it is written."""
    match.evaluate("e1")
    outcome = match.handle(match.record(thumbs("e1")), match.record(value), match.record(thumbs("e1")))
    (unmatched,) = match.unmatched()
    assert (unmatched.error_class, unmatched.source.offset, unmatched.length) == (error_class, 2, len(value or b""))
    assert unmatched.feedback is None
    assert all(b"SECRET" not in (each.value or b"") for each in outcome.emissions)
    assert len(match.keyed()) == 2
    assert outcome.counts["ragweir_feedback_total", "", f"unmatched_{error_class}"] == 1


def test_a_poisonous_record_is_unmatched(match: Match) -> None:
    outcome = match.agent.dead_letter(match.record(b"x"), "Kafka rejects it", "refused")
    (emission,) = outcome.emissions
    assert emission.topic == "feedback.unmatched"
    assert orjson.loads(emission.value or b"")["error_class"] == "refused"


def test_series_are_of_few_names(match: Match) -> None:
    records = [match.record({**thumbs("e1"), "name": f"name{number}"}) for number in range(100)]
    counts = match.handle(*records).counts
    assert len({labels[0] for metric, *labels in counts if metric == "ragweir_feedback_total"}) == 21
    assert counts["ragweir_feedback_total", "__other__", "waiting"] == 80


def test_partitions_that_are_given_up_wait_elsewhere(match: Match) -> None:
    match.handle(match.record(thumbs("e1")))
    match.agent.on_revoked([(FEEDBACK, 0)])
    match.evaluate("e1")
    assert [each for each in match.handle().emissions if each.topic != "feedback.waiting"] == []
