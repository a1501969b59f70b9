"""The console's projection: what is in the store after kills, damage, other topics and retention."""

import random
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from typing_extensions import override

from ragweir.errors import PermanentError, RestartRequired
from ragweir.metrics.criterion import Criterion
from ragweir.metrics.people.shares import Limits
from ragweir.schemas.codec.json import encode
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.label import Label
from ragweir.streams.analysis.labels.drawing import draw
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.report import report
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.layout import SEGMENT_ROWS
from ragweir.streams.console.store.topic_projection import FILE, ConsoleProjection
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import Question

START = datetime(2026, 11, 20, tzinfo=UTC)
NOW_S = START.timestamp() + 86_400
TOPIC = "rag.evaluations"


def settings(folder: Path, **console: Any) -> Settings:
    return Settings(console={"folder": folder, **console})


def evaluation(number: int, *, judged: bool = False, **fields: Any) -> bytes:
    own = {
        "event_id": f"e{number}",
        "event_time": START + timedelta(seconds=number),
        "application": f"a{number % 3}",
        "stage": "judged" if judged else "scored",
        "scores": {"context_support": number % 10 / 10, **({"judge_faithfulness": 1.0} if judged else {})},
        "source": {"topic": "rag.interactions", "partition": 0, "offset": number},
        "catalogue_version": "3",
        **fields,
    }
    return orjson.dumps(own, option=orjson.OPT_UTC_Z)


def records(number: int) -> list[Record]:
    """Evaluations of two partitions; every tenth event is judged some records later."""
    values = [evaluation(each) for each in range(number)]
    for each in range(0, number, 10):
        values.insert(min(len(values), each + 13), evaluation(each, judged=True))
    found, offsets = [], [0, 0]
    for place, value in enumerate(values):
        partition = place % 2
        found.append(Record(TOPIC, partition, offsets[partition], None, value, round(NOW_S * 1000) - 1000))
        offsets[partition] += 2  # As with the markers of transactions.
    return found


def take(projection: ConsoleProjection, found: Sequence[Record], topic_id: str = "id", batch: int = 100) -> None:
    """Do what the runtime does with all records from where the projection resumes."""
    projection.open()
    try:
        starts = projection.resume(TOPIC, topic_id)
        left = [each for each in found if each.offset >= starts.get(each.partition, 0)]
        for place in range(0, len(left), batch):
            for record in left[place : place + batch]:
                projection.take(record)
            projection.flush(NOW_S, caught_up=place + batch >= len(left))
            projection.drain_metrics()
        projection.flush(NOW_S, caught_up=True)
    finally:
        projection.close()


def content(folder: Path) -> list[tuple[str, bool, tuple[int, int]]]:
    store = AnswerStore(folder / FILE)
    found, query = [], AnswerQuery(limit=1_000, ascending=True)
    while True:
        page = store.search(query)
        found += [(each.event_id, each.judged, each.at) for each in page.answers]
        if page.next is None:
            store.close()
            assert len(found) == page.total
            return found
        query = query.page(after=page.next)


@pytest.mark.slow
def test_interrupted_at_any_time_the_store_is_that_of_one_run(tmp_path: Path) -> None:
    """Each run is ended at another place within SQLite, and the next one goes on."""
    found, chance, ended = records(SEGMENT_ROWS + 600), random.Random(5), 0
    take(ConsoleProjection(settings(tmp_path / "whole")), found, batch=1_000)
    is_whole = False
    while not is_whole:
        projection = Interrupted(settings(tmp_path / "ended"), chance.randrange(20_000))
        try:
            take(projection, found, batch=137)
            is_whole = True
        except (RestartRequired, sqlite3.OperationalError):  # The latter where the store is only measured.
            ended += 1
    assert ended > 10
    assert content(tmp_path / "ended") == content(tmp_path / "whole")


class Interrupted(ConsoleProjection):
    """Ends within a statement of SQLite, after so many steps of all statements."""

    def __init__(self, own: Settings, steps: int) -> None:
        super().__init__(own)
        self._steps = steps

    @override
    def open(self) -> None:
        super().open()
        self._own._db.set_progress_handler(self._end, 1)

    def _end(self) -> int:
        self._steps -= 1
        return self._steps <= 0


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    found = records(300)
    take(ConsoleProjection(settings(tmp_path)), found[:200])
    projection = ConsoleProjection(settings(tmp_path))
    projection.open()
    assert projection.resume(TOPIC, "id") == {0: 199, 1: 199}
    for record in found[200:]:
        projection.take(record)
    projection.close()  # What was not flushed is read again.
    take(ConsoleProjection(settings(tmp_path)), found)
    take(ConsoleProjection(settings(tmp_path / "other")), found)
    assert content(tmp_path) == content(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["another topic", "shorter", "another version", "no store", "damaged"])
def test_a_store_that_cannot_go_on_is_made_anew(tmp_path: Path, how: str) -> None:
    found = records(400)
    take(ConsoleProjection(settings(tmp_path)), found)
    file, topic_id = tmp_path / FILE, "id"
    if how == "another topic":
        topic_id, found = "other", found[:100]
    elif how == "shorter":
        found = found[:100]
    elif how == "another version":
        with sqlite3.connect(file) as db:
            db.execute("pragma user_version = 99")
        db.close()
    elif how == "no store":
        file.write_bytes(b"something else" * 1_000)
    else:
        size = file.stat().st_size
        with file.open("r+b") as stream:
            stream.seek(8192)
            stream.write(b"\xff" * (size - 8192))
    restarts = 0
    while True:
        store = AnswerStore(file)
        projection = ConsoleProjection(settings(tmp_path), lambda store=store: store.is_damaged)
        try:
            if how == "shorter" and not restarts:
                projection.open()
                projection.resume(TOPIC, topic_id)
                projection.take(found[0])
            take(projection, found, topic_id)
            break
        except RestartRequired:
            restarts += 1
            assert restarts < 3
        finally:
            projection.close()
            store.close()
    take(ConsoleProjection(settings(tmp_path / "other")), found)
    assert content(tmp_path) == content(tmp_path / "other")


@pytest.mark.slow
def test_a_reader_says_that_the_store_is_damaged(tmp_path: Path) -> None:
    """A segment that cannot be read: the page fails, and the projection makes the store anew."""
    take(ConsoleProjection(settings(tmp_path)), records(SEGMENT_ROWS))
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("update col set data = zeroblob(9) where name = -1")
    db.close()
    store = AnswerStore(tmp_path / FILE)
    with pytest.raises(sqlite3.DatabaseError):
        store.search(AnswerQuery())
    projection = ConsoleProjection(settings(tmp_path), lambda: store.is_damaged)
    projection.open()
    projection.resume(TOPIC, "id")
    with pytest.raises(RestartRequired, match="damaged"):
        projection.flush(NOW_S, caught_up=True)
    store.close()
    assert not (tmp_path / FILE).exists()


@pytest.mark.slow
def test_old_segments_go_first(tmp_path: Path) -> None:
    found = records(3 * SEGMENT_ROWS)
    day = 86_400_000
    aged = [
        each._replace(timestamp_ms=round(NOW_S * 1000) - (10 - place * 10 // len(found)) * day)
        for place, each in enumerate(found)
    ]
    take(ConsoleProjection(settings(tmp_path, retention_h=24 * 6)), aged, batch=1_000)
    kept = content(tmp_path)
    assert 0 < len(kept) < len(found)
    newest = {each[0] for each in kept}
    assert newest >= {f"e{number}" for number in range(2 * SEGMENT_ROWS + 500, 3 * SEGMENT_ROWS) if number % 10}
    store = AnswerStore(tmp_path / FILE)
    assert store.found("e1") is None
    store.close()


@pytest.mark.slow
def test_the_size_is_bounded(tmp_path: Path) -> None:
    limit, own = 4 * 1024 * 1024, settings(tmp_path)
    bounded = own.model_copy(update={"console": own.console.model_copy(update={"max_bytes": limit})})
    projection = ConsoleProjection(bounded)
    projection.open()
    projection.resume(TOPIC, "id")
    found, sizes, dropped = records(3 * SEGMENT_ROWS), [], 0
    for place in range(0, len(found), 1_000):
        for record in found[place : place + 1_000]:
            projection.take(record)
        projection.flush(NOW_S, caught_up=True)
        measured = projection.drain_metrics()
        sizes.append(measured.levels["ragweir_console_store_bytes",] or 0)
        dropped += measured.counts["ragweir_console_segments_dropped_total",]
    projection.close()
    assert dropped
    assert max(sizes) < 3 * limit  # With the tail and the file of changes.
    assert content(tmp_path)[-1][0] == f"e{3 * SEGMENT_ROWS - 1}"


def test_labels_and_dead_letters_are_kept(tmp_path: Path) -> None:
    projection = ConsoleProjection(settings(tmp_path))
    projection.open()
    for name in projection.topics:
        projection.resume(f"rag.{name}", "id")
    own = {"question": "supported", "rater": "r", "kind": "expert", "blind": True}
    late = Label(event_id="e1", value=True, time=START + timedelta(hours=1), **own)
    early = Label(event_id="e1", value=False, time=START, **own)
    for offset, label in enumerate((late, early)):  # As from two partitions.
        projection.take(Record("rag.labels", offset, 0, b"k", encode(label), 1))
    projection.take(Record("rag.labels", 0, 1, b"k", b"{}", 1))
    projection.take(Record("rag.labels", 0, 2, b"k", None, 1))
    details = DeadLetter(error_class="invalid", message="m", source_topic="in", source_partition=1, source_offset=7)
    headers = (*details.headers(), ("ce_source", b"ragweir/evaluate"))
    projection.take(Record("rag.dead-letter", 0, 0, b"k", b"said by a person", round(NOW_S * 1000), headers))
    projection.take(Record("rag.evaluations", 0, 0, b"k", b"no evaluation", 1))
    projection.flush(NOW_S, caught_up=True)
    counts = projection.drain_metrics().counts
    unreadable = {name: counts["ragweir_console_records_total", name, "unreadable"] for name in projection.topics}
    assert unreadable == {"evaluations": 1, "labels": 1, "labels.draws": 0, "dead-letter": 0}
    assert "feedback.joined" not in projection.topics  # It is off.
    projection.close()
    store = AnswerStore(tmp_path / FILE)
    assert [label.value for label in store.labels_of("e1")] == [True]
    (letter,) = store.letters()
    assert (letter.details, letter.service, letter.at) == (details, "evaluate", (0, 0))
    store.close()
    assert b"said by a person" not in (tmp_path / FILE).read_bytes()


def test_the_series_of_people_are_those_of_the_report(tmp_path: Path) -> None:
    """Half of the flagged answers are bad by people, and of the others a tenth; later a label is withdrawn."""
    risk = Criterion("unsupported_risk", 0.8, higher_is_better=False, suite=None)
    evaluated = Evaluated([risk], ())
    for number in range(400):
        evaluated.add(evaluation(number, application="shop", scores={"unsupported_risk": 0.9 if number < 80 else 0.1}))
    queue = draw(evaluated, 0, "supported", 100, None, 0.0, random.Random(7), START)
    own = {"question": "supported", "rater": "r", "kind": "expert", "blind": True, "time": START}
    labels = PeopleLabels({queue.draw.id: queue.draw})
    for place, each in enumerate(queue.answers):
        value = place % 2 == 0 if each.judged.bad else place % 10 != 0
        labels.add(Label(event_id=each.event_id, value=value, draw=each.draw, judged=each.judged, **own))
    projection = ConsoleProjection(settings(tmp_path))
    projection.open()
    for name in projection.topics:
        projection.resume(f"rag.{name}", "id")
    projection.take(Record("rag.labels.draws", 0, 0, b"k", encode(queue.draw), 1))
    given = list(labels.current())
    for offset, label in enumerate(given):
        projection.take(Record("rag.labels", 0, offset, b"k", encode(label), 1))

    def shown(now_s: float) -> dict[tuple[str, ...], float | None]:
        projection.flush(now_s, caught_up=True)
        levels = projection.drain_metrics().levels
        return {name: value for name, value in levels.items() if "console" not in name[0]}

    question = Question(name="supported", text="?", metric="unsupported_risk", threshold=0.8)
    (table,) = report(labels, [(question, [risk])]).tables
    rate = table.agreement.people_rate
    assert isinstance(rate, Limits)
    of = ("supported", "unsupported_risk", "", "")
    expected = dict(zip(("", "_low", "_high"), rate[:3], strict=True))
    found = shown(NOW_S)
    assert {name: found[f"ragweir_people_estimate{name}", *of] for name in expected} == expected
    assert found["ragweir_labels", "supported", "expert"] == len(given)
    assert shown(NOW_S + 100) == {}, "nothing is new"
    for offset, label in enumerate(given):
        gone = label.model_copy(update={"value": "withdrawn"})
        projection.take(Record("rag.labels", 0, len(given) + offset, b"k", encode(gone), 1))
    assert set(shown(NOW_S + 200).values()) == {None}
    projection.close()


def test_how_much_was_read_is_known(tmp_path: Path) -> None:
    projection = ConsoleProjection(settings(tmp_path))
    projection.open()
    projection.resume(TOPIC, "id")
    seen = []
    for offset, age_s in enumerate((100_000, 50_000, 38_000)):
        projection.take(Record(TOPIC, 0, offset, None, evaluation(offset), round((NOW_S - age_s) * 1000)))
        projection.flush(NOW_S, caught_up=False)
        store = AnswerStore(tmp_path / FILE)
        seen.append(round(store.state().read, 2))
        store.close()
    assert seen == [0, 0.5, 0.62]
    projection.flush(NOW_S, caught_up=True)
    store = AnswerStore(tmp_path / FILE)
    assert store.state().read == 1
    store.close()
    projection.close()


def test_a_folder_that_cannot_be_written_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PermanentError, match=r"console\.folder"):
        ConsoleProjection(settings(tmp_path / "file" / "folder")).open()


def test_two_consoles_do_not_share_a_folder(tmp_path: Path) -> None:
    first, second = (ConsoleProjection(settings(tmp_path)) for _ in range(2))
    first.open()
    with pytest.raises(PermanentError, match="another console"):
        second.open()
    first.close()
    second.open()
    second.close()
