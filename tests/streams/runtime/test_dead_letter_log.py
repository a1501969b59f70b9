"""The log of dead letters: the first of each class with its place and reason, then a count per minute, no content."""

from structlog.testing import capture_logs

from ragweir.errors import ErrorClass
from ragweir.streams.runtime.emissions import add_dead_letter
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.runtime.serving.dead_letter_log import INTERVAL_SECONDS, DeadLetterLog

SECRET = b"what a user said"


def outcome(*letters: tuple[ErrorClass, int]) -> Outcome:
    """What a batch with these dead letters comes to: their classes and offsets."""
    made = Outcome()
    made.counts["ragweir_events_in_total",] += 1
    for error_class, offset in letters:
        record = Record("rag.interactions", 2, offset, b"key", SECRET, 1)
        add_dead_letter(made, "evaluate", record, error_class, f"why {offset}", 1_000)
    return made


def first(error_class: str, offset: int) -> dict[str, object]:
    return {
        "event": "first dead letter of its class",
        "log_level": "warning",
        "error_class": error_class,
        "topic": "rag.interactions",
        "partition": 2,
        "offset": offset,
        "message": f"why {offset}",
    }


def counted(error_class: str, count: int) -> dict[str, object]:
    return {"event": "dead letters", "log_level": "warning", "error_class": error_class, "count": count}


def test_the_first_of_each_class_is_told_and_then_counts_per_minute() -> None:
    """Each class has one line of its own in a worker's life; the counts of all minutes add up to all there were."""
    now = 0.0
    letters = DeadLetterLog(lambda: now)
    with capture_logs() as logged:
        letters.on_commit(outcome())
        letters.tick()
        assert not logged
        letters.on_commit(outcome(("not_json", 5), ("not_json", 6), ("invalid", 7)))
        assert logged == [first("not_json", 5), first("invalid", 7)]
        logged.clear()
        now = INTERVAL_SECONDS / 2
        letters.on_commit(outcome(("not_json", 8), ("too_large", 9)))
        letters.tick()
        assert logged == [first("too_large", 9)]
        logged.clear()
        now = INTERVAL_SECONDS
        letters.tick()
        assert logged == [counted("invalid", 1), counted("not_json", 3), counted("too_large", 1)]
        logged.clear()
        now = 5 * INTERVAL_SECONDS
        letters.tick()
        assert not logged, "minutes without any are not told of"
        letters.on_commit(outcome(("invalid", 10)))
        now = 6 * INTERVAL_SECONDS - 1
        letters.tick()
        assert not logged
        now = 6 * INTERVAL_SECONDS
        letters.tick()
        letters.tick()
        assert logged == [counted("invalid", 1)]


def test_what_is_not_yet_counted_is_told_at_the_end() -> None:
    """A worker that stops within a minute leaves nothing out, and says nothing twice."""
    letters = DeadLetterLog(lambda: 0.0)
    letters.on_commit(outcome(("not_json", 5)))
    with capture_logs() as logged:
        letters.flush()
        letters.flush()
    assert logged == [counted("not_json", 1)]


def test_no_content_is_logged() -> None:
    """Neither the value nor the key of a record."""
    letters = DeadLetterLog()
    with capture_logs() as logged:
        letters.on_commit(outcome(("not_json", 5)))
    assert logged
    assert SECRET.decode() not in str(logged)
    assert "key" not in str(logged)
