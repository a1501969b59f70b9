"""The store of answers: what is found, what is forgotten, and that a lost or damaged file is made again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragweir.errors import TransientError
from ragweir.schemas.feedback import FeedbackTarget
from ragweir.streams.services.match import target_store
from ragweir.streams.services.match.target_store import EvaluatedAnswer, TargetStore, target_hash

HORIZON_S = 7 * 86_400
DAY_MS = 86_400_000
DIMENSIONS = ("application", "model")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback" / "answers.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[TargetStore]:
    store = opened(path)
    store.offsets("topic-1")
    yield store
    store.close()


def opened(path: Path, *dimensions: str) -> TargetStore:
    store = TargetStore(HORIZON_S, dimensions or DIMENSIONS)
    store.open(path)
    return store


def answer(number: int, time_us: int = 0, application: str = "bot") -> EvaluatedAnswer:
    return EvaluatedAnswer(f"e{number}", time_us, (application, "m"))


def event(number: int) -> FeedbackTarget:
    return FeedbackTarget(event_id=f"e{number}")


def test_an_answer_is_found_by_its_event(store: TargetStore) -> None:
    store.add(answer(1, 5, "ä\x1b"), None, None, 1)
    assert store.find(event(1)) == answer(1, 5, "ä\x1b")
    assert store.find(event(2)) is None


def test_the_first_evaluation_of_an_event_holds(store: TargetStore) -> None:
    """A judged evaluation repeats its event."""
    store.add(answer(1, 5), "t", "s", 1)
    store.add(answer(1, 6), "t", "s", 2)
    assert store.find(event(1)) == answer(1, 5)


@pytest.mark.parametrize(("span", "found"), [(None, 2), ("b1", 1), ("B1", 1), ("b2", 2), ("c9", 2)])
def test_of_a_trace_the_span_is_found_or_the_last_answer(store: TargetStore, span: str | None, found: int) -> None:
    store.add(answer(1, 10), "aa", "b1", 1)
    store.add(answer(2, 30), "AA", "b2", 2)
    store.add(answer(3, 20), "aa", "b3", 3)
    store.add(answer(4, 99), "ab", "b1", 3)
    assert store.find(FeedbackTarget(trace_id="aA", span_id=span)) == answer(found, {1: 10, 2: 30}[found])
    assert store.find(FeedbackTarget(trace_id="e1")) is None
    assert store.find(FeedbackTarget(event_id="aa")) is None


def test_an_event_whose_hash_is_that_of_another_is_not_found(
    store: TargetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feedback is not joined to a wrong answer, however the hashes fall."""
    monkeypatch.setattr(target_store, "hash_of", lambda _: 7)
    store.add(answer(1), None, None, 1)
    assert store.find(event(2)) is None
    assert store.find(event(1)) == answer(1)


def test_what_was_committed_is_there_again_and_the_rest_is_read_again(store: TargetStore, path: Path) -> None:
    """Answers and offsets are stored together, or neither is."""
    store.add(answer(1), "t1", None, 1)
    store.commit({0: 7, 2: 9}, caught_up=False)
    store.add(answer(2), "t2", None, 2)
    assert store.find(event(2)) == answer(2)
    store.close()
    again = opened(path)
    assert again.offsets("topic-1") == {0: 7, 2: 9}
    assert (again.find(event(1)), again.find(event(2))) == (answer(1), None)
    again.add(answer(2), "t2", None, 2)
    again.commit({0: 8}, caught_up=True)
    assert again.offsets("topic-1") == {0: 8, 2: 9}
    assert again.find(event(2)) == answer(2)
    again.close()


@pytest.mark.parametrize("damage", ["lost", "text", "half", "index"])
def test_a_lost_or_damaged_file_is_made_again(store: TargetStore, path: Path, damage: str) -> None:
    for number in range(2_000):
        store.add(answer(number), f"t{number}", None, 1)
    store.commit({0: 2_000}, caught_up=True)
    store.close()
    content = path.read_bytes()
    damaged = {
        "lost": None,
        "text": b"no database" * 100,
        "half": content[: len(content) // 2],
        "index": content[:8_192] + b"\xa5" * (len(content) - 8_192),
    }[damage]
    path.unlink() if damaged is None else path.write_bytes(damaged)
    again = TargetStore(HORIZON_S, DIMENSIONS)
    for _ in range(3):  # Damage may show only when it is read.
        try:
            again.open(path)
            offsets = again.offsets("topic-1")
            found = again.find(event(1))
            again.add(answer(1), "t1", None, 1)
            again.commit({}, caught_up=True)
            break
        except TransientError:
            continue
    assert (offsets, found) == ({}, None)
    assert again.find(event(1)) == answer(1)
    again.close()


def test_a_topic_that_was_created_again_begins_anew(store: TargetStore, path: Path) -> None:
    store.add(answer(1), None, None, 1)
    store.commit({0: 7}, caught_up=True)
    assert store.offsets("topic-2") == {}
    assert store.find(event(1)) is None
    store.add(answer(2), None, None, 1)
    store.commit({0: 1}, caught_up=True)
    store.close()
    again = opened(path)
    assert again.offsets("topic-2") == {0: 1}
    again.close()


def test_other_dimensions_begin_anew(store: TargetStore, path: Path) -> None:
    store.add(answer(1), None, None, 1)
    store.commit({0: 7}, caught_up=True)
    store.close()
    again = opened(path, "application")
    assert (again.offsets("topic-1"), again.find(event(1))) == ({}, None)
    again.close()


@pytest.mark.slow
def test_a_file_is_of_one_process(store: TargetStore, path: Path) -> None:
    with pytest.raises(TransientError, match="locked"):
        opened(path)
    store.add(answer(1), None, None, 1)
    assert store.find(event(1)) == answer(1)


def test_what_is_older_than_the_horizon_is_dropped_by_segments(store: TargetStore, path: Path) -> None:
    """An answer is kept for the horizon at least, and for a quarter more at most."""
    for day in range(20):
        store.add(answer(day), f"t{day}", None, day * DAY_MS + day)
        store.let_drop(caught_up=True)
        store.commit({0: day}, caught_up=True)
    kept = [day for day in range(20) if store.find(event(day)) is not None]
    assert kept == list(range(kept[0], 20))
    assert 19 - 7 * 1.25 - 1 <= kept[0] <= 12
    assert [day for day in range(20) if store.find(FeedbackTarget(trace_id=f"t{day}"))] == kept
    store.close()
    again = opened(path)
    assert [day for day in range(20) if again.find(event(day)) is not None] == kept
    again.close()


@pytest.mark.slow
def test_a_full_segment_is_followed_by_another(store: TargetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of segments is looked in, and the newest first."""
    monkeypatch.setattr(target_store, "_SEGMENT_ROWS", 10)
    for number in range(1_500):
        store.add(answer(number), f"t{number}", None, number)
    store.commit({0: 1}, caught_up=True)
    assert [number for number in range(1_500) if store.find(event(number)) != answer(number)] == []


def test_a_watched_answer_is_seen_once(store: TargetStore) -> None:
    watched = {target_hash(event(1)), target_hash(FeedbackTarget(trace_id="t2"))}
    store.add(answer(1), "t1", None, 1)
    store.watch(watched)
    assert store.find(event(9)) is None  # Answers that were added before are inserted only now.
    assert store.take_seen() == {target_hash(event(1))}
    store.add(answer(2), "t2", None, 1)
    store.commit({}, caught_up=True)
    assert store.take_seen() == {target_hash(FeedbackTarget(trace_id="t2"))}
    assert store.take_seen() == set()
    store.unwatch(watched)
    store.add(answer(1), "t1", None, 1)
    store.commit({}, caught_up=True)
    assert store.take_seen() == set()


def test_it_is_read_through_once_all_was_read(store: TargetStore) -> None:
    """Nothing is given up before: the answer may be among what was not read."""
    store.add(answer(1), None, None, 5)
    store.commit({}, caught_up=False)
    assert store.read_through_ms == 0
    store.commit({}, caught_up=True)
    assert store.read_through_ms == 5
    store.close()
    assert store.read_through_ms == 0
    with pytest.raises(TransientError):
        store.find(event(1))
