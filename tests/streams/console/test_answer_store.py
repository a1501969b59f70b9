"""The console's store: each list of answers against the same list made from the evaluations one by one."""

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragweir.errors import BadQuery, PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.evaluation_record import EvaluationRecord, read_evaluation
from ragweir.schemas.label import Label
from ragweir.streams.analysis.slo.counting import SloCounter
from ragweir.streams.analysis.slo.rehearsal import rehearse
from ragweir.streams.console.store import answer_store, layout, row_ranges, writer
from ragweir.streams.console.store.answer_query import AnswerQuery, Cursor, MetricRange
from ragweir.streams.console.store.answer_store import CACHE_BYTES, MAX_READS, AnswerStore, ReadTooLong
from ragweir.streams.console.store.layout import SEGMENT_ROWS, connect_reader
from ragweir.streams.console.store.load import load_evaluations
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.settings import Slo, WindowSettings

START = datetime(2026, 11, 20, tzinfo=UTC)
EVENTS = SEGMENT_ROWS + 700
"""One segment and a tail."""
AGGREGATOR = Aggregator(Catalogue(everything()))
SLOS = (
    Slo(name="relevant", metric="context_support", at_least=0.3, objective=0.9),
    Slo(name="short", metric="response_words", at_most=40, objective=0.9, dimensions={"application": "a1"}),
    Slo(name="faithful", metric="judge_faithfulness", at_least=0.5, objective=0.9),
    Slo(name="eu", metric="context_support", at_least=0.3, objective=0.9, dimensions={"labels.region": "eu"}),
)
Row = dict[str, Any]
BARE: Row = {"event_time": START, "catalogue_version": "3"}


def evaluation(number: int, chance: random.Random) -> Row:
    bad = chance.random() < 0.2
    scores: Row = {"context_support": round(chance.random(), 2), "response_words": float(chance.randrange(60))}
    if chance.random() < 0.1:
        scores["context_support"] = None
    if number % 7 == 0:
        scores = {"rare": float(number % 3), **scores}
    suite = {"suite": "rubric", "status": "selected" if bad else "not_selected", "probability": 0.5 if bad else 0.05}
    return {
        "event_id": f"event-{number:05}-{chance.randrange(999)}\né",
        "event_time": START + timedelta(minutes=chance.randrange(1_440)),
        "application": chance.choice(["a1", "a1", "a1", "a2", None]),
        "tenant": "t" if number % 2 else None,
        "pipeline_version": f"v{number % 3}",
        "model": "m",
        "labels": chance.choice([{}, {"region": "eu"}, {"region": "us", "tier": "1"}]),
        "categories": {"kind": chance.choice(["x", "y", None])},
        "session_id": f"s{number // 5}",
        "question_id": f"q{number % 40}",
        "trace_id": f"{number:032x}",
        "flags": ["contexts_cut"] * (number % 11 == 0) + ["cut:spans"] * (number % 13 == 0),
        "document_ids": [f"d{chance.randrange(300)}" for _ in range(number % 4)],
        "scores": scores,
        "decision": {"suites": [suite]} if number % 3 else {},
        "catalogue_version": "3",
        "source": {"topic": "in", "partition": number % 4, "offset": number},
    }


def judged(row: Row, chance: random.Random) -> Row:
    value = chance.choice([0.0, 0.5, 1.0, None])
    status = "judged" if chance.random() < 0.8 else "expired"
    return {
        **row,
        "stage": "judged",
        "scores": row["scores"] | {"judge_faithfulness": value if status == "judged" else None},
        "decision": {"suites": [row["decision"]["suites"][0] | {"status": status}]},
        "undefined": ["judge_faithfulness"] if value is None and chance.random() < 0.5 else [],
    }


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Evaluations in the order of arrival: judged ones some time after the scored ones, and some events twice."""
    chance, found, waiting = random.Random(7), [], list[tuple[int, Row]]()
    for number in range(EVENTS):
        row = evaluation(number, chance)
        found.append(row)
        if row["decision"] and row["decision"]["suites"][0]["status"] == "selected":
            waiting.append((number + chance.randrange(1, 2_000), judged(row, chance)))
        found += [row for due, row in waiting if due == number]
        if number % 50 == 0:  # The same event again, of another record: it counts in place of the first one.
            source = {"topic": "in", "partition": 9, "offset": number}
            found.append(row | {"source": source, "scores": {"context_support": 0.111}, "decision": {}})
        if number % 90 == 0 and waiting:  # One that comes late does not replace the judged one.
            row = waiting[0][1]
            found.append(row | {"stage": "scored", "scores": {"context_support": 0.222}, "undefined": []})
    return found


@pytest.fixture(scope="module")
def answers(rows: list[Row]) -> dict[str, Row]:
    """The evaluation that counts of each event, with the number of its row in the order of arrival."""
    found: dict[str, Row] = {}
    number = 0
    for row in rows:
        old = found.get(row["event_id"])
        if old and old.get("stage") == "judged" and row.get("stage") != "judged" and old["source"] == row["source"]:
            continue
        found[row["event_id"]] = row | {"row": number}
        number += 1
    return found


def read(row: Row) -> EvaluationRecord:
    own = {name: value for name, value in row.items() if name != "row"}
    found = read_evaluation(orjson.dumps(own, option=orjson.OPT_UTC_Z), 100_000)
    assert isinstance(found, EvaluationRecord)
    return found


@pytest.fixture(scope="module")
def file(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("store") / "answers.sqlite"
    with pytest.MonkeyPatch.context() as patch, StoreWriter(made) as store:
        patch.setattr(writer, "_MAX_RECENT", 3_000)  # So that events are in both tables.
        for place, row in enumerate(rows):
            store.take(read(row), place % 3, place)
            if place % 700 == 0:
                store.flush()
        for row in rows[::40]:
            store.take_label(label(row["event_id"], value=True))
        store.take_label(label(rows[0]["event_id"], value="withdrawn"))
        store.flush()
    with closing(connect_reader(made)) as db:
        assert all(db.execute(f"select count(*) from {table}").fetchone()[0] > 500 for table in ("event", "recent"))
    return made


def label(event_id: str, value: bool | str) -> Label:
    own = {"question": "supported", "rater": "r", "kind": "expert", "blind": True, "time": START}
    return Label(event_id=event_id, value=value, comment="said by a person", **own)


@pytest.fixture(scope="module")
def store(file: Path) -> Iterator[AnswerStore]:
    made = AnswerStore(file, [Objective.of(slo, AGGREGATOR) for slo in SLOS])
    yield made
    made.close()


def is_bad(row: Row, name: str) -> bool:
    """The outcome of one evaluation, as the rehearsal asks for it: as scored for free metrics."""
    objective = Objective.of(next(each for each in SLOS if each.name == name), AGGREGATOR)
    decisions = [(each["suite"], each["status"], each["probability"]) for each in row["decision"].get("suites", [])]
    own = row["scores"].get(objective.slo.metric)
    as_judged = row.get("stage") == "judged" and not objective.free
    found = objective.outcome(own, decisions, judged=as_judged, undefined=row.get("undefined", ()))
    return objective.covers(read(row)) and found is not None and found[0] == "bad"


def score(row: Row, metric: str) -> float:
    value = row["scores"].get(metric)
    return nan if value is None else value


CASES: dict[str, tuple[AnswerQuery, Callable[[Row], bool]]] = {
    "all": (AnswerQuery(), lambda _: True),
    "an application": (AnswerQuery(where=(("application", "a1"),)), lambda row: row["application"] == "a1"),
    "either of two": (
        AnswerQuery(where=(("pipeline_version", "v0"), ("pipeline_version", "v2"))),
        lambda row: row["pipeline_version"] != "v1",
    ),
    "no tenant": (AnswerQuery(where=(("tenant", ""),)), lambda row: row["tenant"] is None),
    "none of these": (AnswerQuery(where=(("model", "other"),)), lambda _: False),
    "a label": (AnswerQuery(where=(("labels.region", "eu"),)), lambda row: row["labels"].get("region") == "eu"),
    "no label": (AnswerQuery(where=(("labels.tier", ""),)), lambda row: "tier" not in row["labels"]),
    "a category": (AnswerQuery(where=(("categories.kind", "x"),)), lambda row: row["categories"]["kind"] == "x"),
    "no category": (AnswerQuery(where=(("categories.kind", ""),)), lambda row: row["categories"]["kind"] is None),
    "a time": (
        AnswerQuery(since=START + timedelta(hours=3), until=START + timedelta(hours=4)),
        lambda row: START + timedelta(hours=3) <= row["event_time"] < START + timedelta(hours=4),
    ),
    "two ranges": (
        AnswerQuery(ranges=(MetricRange("response_words", 20, 30), MetricRange("context_support", None, 0.5))),
        lambda row: 20 <= score(row, "response_words") <= 30 and score(row, "context_support") <= 0.5,
    ),
    "a rare metric": (AnswerQuery(ranges=(MetricRange("rare", 1),)), lambda row: score(row, "rare") >= 1),
    "a flag": (AnswerQuery(flags=("cut:spans",)), lambda row: "cut:spans" in row["flags"]),
    "two flags": (AnswerQuery(flags=("contexts_cut", "cut:spans")), lambda row: len(row["flags"]) == 2),
    **{f"bad for {slo.name}": (AnswerQuery(slo=slo.name), lambda row, slo=slo: is_bad(row, slo.name)) for slo in SLOS},
    "judged": (AnswerQuery(judged=True), lambda row: row.get("stage") == "judged"),
    "not judged": (AnswerQuery(judged=False), lambda row: row.get("stage") != "judged"),
    "a part of the id": (AnswerQuery(id_part="-0012"), lambda row: "-0012" in row["event_id"]),
    "a rare part": (AnswerQuery(id_part="é"), lambda _: True),
    "not over two ids": (AnswerQuery(id_part="éevent"), lambda _: False),
    "a session": (AnswerQuery(session="s12"), lambda row: row["session_id"] == "s12"),
    "a question": (AnswerQuery(question="q7"), lambda row: row["question_id"] == "q7"),
    "a trace": (AnswerQuery(trace=f"{99:032x}"), lambda row: row["trace_id"] == f"{99:032x}"),
    "a document": (AnswerQuery(document="d7"), lambda row: "d7" in row["document_ids"]),
}
ORDERS = (("time", False), ("time", True), ("context_support", False), ("response_words", True), ("rare", True))


def ordered(found: Sequence[Row], sort: str, *, ascending: bool) -> list[Row]:
    def key(row: Row) -> tuple[float, int]:
        own = row["event_time"].timestamp() if sort == "time" else score(row, sort)
        return (own if ascending else -own) if isfinite(own) else inf, -row["row"]

    return sorted(found, key=key)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_list_has_the_answers_of_its_conditions_in_its_order(
    case: str, store: AnswerStore, answers: dict[str, Row]
) -> None:
    query, holds = CASES[case]
    wanted = [row for row in answers.values() if holds(row)]
    for sort, ascending in ORDERS:
        page = store.search(replace(query, sort=sort, ascending=ascending, limit=60))
        assert page.total == len(wanted), f"{len(wanted)} answers by {sort}"
        expected = [row["event_id"] for row in ordered(wanted, sort, ascending=ascending)]
        assert [each.event_id for each in page.answers] == expected[:60]
        assert (page.previous, page.next is None) == (None, len(wanted) <= 60)


@pytest.mark.slow
@pytest.mark.parametrize(("sort", "ascending"), ORDERS)
def test_pages_follow_each_other_forwards_and_backwards(
    store: AnswerStore, answers: dict[str, Row], sort: str, *, ascending: bool
) -> None:
    query = AnswerQuery(where=(("labels.region", "eu"),), sort=sort, ascending=ascending, limit=397)
    wanted = [row for row in answers.values() if row["labels"].get("region") == "eu"]
    expected = [row["event_id"] for row in ordered(wanted, sort, ascending=ascending)]
    forwards, pages, own = [], [], query
    while True:
        page = store.search(AnswerQuery.parse(str(own)))
        pages.append(page)
        forwards += [each.event_id for each in page.answers]
        if page.next is None:
            break
        own = query.page(after=page.next)
    assert forwards == expected
    backwards = [each.event_id for each in page.answers]
    while page.previous is not None:
        page = store.search(query.page(before=page.previous))
        backwards = [each.event_id for each in page.answers] + backwards
    assert backwards == expected


@pytest.mark.slow
def test_an_answer_has_what_its_evaluation_says(store: AnswerStore, answers: dict[str, Row], rows: list[Row]) -> None:
    for event_id in list(answers)[:: EVENTS // 40]:
        row, found = answers[event_id], store.found(event_id)
        assert found is not None
        same = ("event_time", "application", "tenant", "pipeline_version", "model", "labels")
        assert [getattr(found, name) for name in same] == [row[name] for name in same]
        assert found.environment is None
        assert found.categories == {name: text for name, text in row["categories"].items() if text}
        assert (found.flags, found.judged) == (tuple(row["flags"]), row.get("stage") == "judged")
        own = {name: value for name, value in found.scores.items() if value is not None}
        assert own == {name: value for name, value in row["scores"].items() if value is not None}
        suites = row["decision"].get("suites", [])
        assert found.decisions == {each["suite"]: (each["status"], each["probability"]) for each in suites}
        place = max(place for place, each in enumerate(rows) if {**each, "row": row["row"]} == row)
        assert found.at == (place % 3, place)
        assert found.source is not None
        assert found.source.model_dump() == {"index": 0, **row["source"]}
    assert store.found("event-none") is None


def test_neighbours_are_those_of_the_list(store: AnswerStore, answers: dict[str, Row]) -> None:
    query = AnswerQuery(slo="relevant", sort="context_support", ascending=True)
    wanted = [row for row in answers.values() if is_bad(row, "relevant")]
    expected = [row["event_id"] for row in ordered(wanted, "context_support", ascending=True)]
    for place in (0, 1, 70, len(expected) - 1):
        before = expected[place - 1] if place else None
        after = expected[place + 1] if place + 1 < len(expected) else None
        assert store.neighbours(query, expected[place]) == (before, after)


def test_labelled_answers_are_those_with_a_label_that_holds(
    store: AnswerStore, answers: dict[str, Row], rows: list[Row]
) -> None:
    wanted = {row["event_id"] for row in rows[::40]} - {rows[0]["event_id"]}
    found = store.search(AnswerQuery(labelled=True, limit=1_000))
    assert {each.event_id for each in found.answers} == wanted
    assert store.search(AnswerQuery(labelled=False)).total == len(answers) - len(wanted)
    (own,) = store.labels_of(rows[40]["event_id"])
    assert (own.value, own.comment) == (True, None)
    assert len(list(store.people_labels().current())) == len(wanted)


@pytest.mark.slow
def test_counts_are_those_of_a_rehearsal(store: AnswerStore, answers: dict[str, Row]) -> None:
    """For the events that count, in the stage in which the rehearsal counts each SLO."""
    until = START + timedelta(days=1)
    found = store.applications(START, until)
    for application in ("a1", "a2", None):
        own = [row for row in answers.values() if row["application"] == application]
        counts = next(each for each in found if each.application == application)
        assert (counts.events, sum(counts.per_part)) == (len(own), len(own))
        assert counts.judged == sum(row.get("stage") == "judged" for row in own)
        times = [row["event_time"] for row in own]
        assert (counts.first, counts.last) == (min(times), max(times))
        counter = SloCounter(SLOS, (), WindowSettings(), AGGREGATOR)
        for row in own:  # As on the topic, where a judged evaluation follows the scored one that it repeats.
            if row.get("stage") == "judged":
                counter.add(read(row | {"stage": "scored"}))
            counter.add(read(row))
        rehearsed = {each.slo.name: each for each in rehearse(counter, "").slos if each.events}
        assert counts.slos.keys() == rehearsed.keys()
        for name, sums in counts.slos.items():
            if name != "faithful":
                assert sums == (rehearsed[name].events, rehearsed[name].bad, rehearsed[name].share)
            assert sum(counts.bad_per_part[name]) == sums.bad


def test_counts_do_not_depend_on_the_parts_that_are_joined(store: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    span = START + timedelta(hours=2), START + timedelta(hours=20)
    together = store.applications(*span, parts=7)
    monkeypatch.setattr(row_ranges, "_JOINED", 1)
    assert store.applications(*span, parts=7) == together
    assert len(together) == 3


def test_evaluations_of_a_flush_are_one_row_of_the_tail(tmp_path: Path) -> None:
    """A row for each of them took a fifth of the time of ingest."""
    with StoreWriter(tmp_path / "store") as writing:
        for number in range(12):
            writing.take(read({**BARE, "event_id": f"e{number}"}), 0, number)
            if number % 4 == 3:
                writing.flush()
    with closing(connect_reader(tmp_path / "store")) as db:
        assert db.execute("select first, rows from tail").fetchall() == [(0, 4), (4, 4), (8, 4)]
    with StoreWriter(tmp_path / "store") as writing:  # It goes on behind them.
        writing.take(read({**BARE, "event_id": "e12"}), 0, 12)
        writing.flush()
    with closing(AnswerStore(tmp_path / "store")) as own:
        assert {each.event_id for each in own.search(AnswerQuery()).answers} == {f"e{number}" for number in range(13)}


def test_newest_dead_letters_are_found_by_an_index(file: Path) -> None:
    with closing(connect_reader(file)) as db:
        for statement in (answer_store.NEWEST_LETTERS, writer._DROP_LETTERS.replace("delete", "select *")):
            plan = db.execute(f"explain query plan {statement}", (1,) * statement.count("?")).fetchall()
            steps = [step for *_, step in plan]
            assert any("INDEX letter_written" in step for step in steps), steps
            assert not any("TEMP B-TREE" in step for step in steps), steps


@pytest.mark.slow
def test_any_part_of_an_id_is_found(tmp_path: Path) -> None:
    """Parts of one byte, two, three, four and more, at any place; but none that goes from one id into the next."""
    ids = [f"{number:b}" for number in range(SEGMENT_ROWS + 100)] + ["é0", "è0"]
    with StoreWriter(tmp_path / "store") as writing:
        for number, each in enumerate(ids):
            writing.take(read({**BARE, "event_id": each}), 0, number)
        writing.flush()
    with closing(AnswerStore(tmp_path / "store")) as own:
        for part in ("0", "10", "010", "0110", "01011", "1000000000011", "0" * 13, "é", "é0", "0é"):
            assert own.search(AnswerQuery(id_part=part)).total == sum(part in each for each in ids), part


def test_ids_are_kept_of_stores_in_which_they_have_a_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept() -> int:
        with closing(AnswerStore(file)) as own:
            own.search(AnswerQuery(id_part="-0012"))
            return own.kept_bytes

    together = kept()
    monkeypatch.setattr(row_ranges, "_KEPT_IDS", 0)
    assert together - kept() > 4 * SEGMENT_ROWS


def test_an_unknown_name_is_one_sentence(store: AnswerStore) -> None:
    for query in (AnswerQuery(slo="relevnt"), AnswerQuery(sort="rar"), AnswerQuery(ranges=(MetricRange("rar", 1),))):
        with pytest.raises(BadQuery, match=r"relevant|rare"):
            store.search(query)


@pytest.mark.slow
def test_columns_that_are_kept_are_those_of_the_file(tmp_path: Path) -> None:
    """Also once another file is in its place, whose segments have the same numbers."""

    def made(name: str, score: float) -> Path:
        with StoreWriter(tmp_path / name) as writing:
            for number in range(SEGMENT_ROWS):
                writing.take(read(evaluation(number, random.Random(3)) | {"scores": {"m": score}}), 0, number)
            writing.flush()
        return tmp_path / name

    file = made("a", 0.25)
    with closing(AnswerStore(file)) as store:
        query = AnswerQuery(ranges=(MetricRange("m", 0.2, 0.3),), sort="m")
        assert [store.search(query).total for _ in range(2)] == [SEGMENT_ROWS] * 2
        assert 0 < store.kept_bytes <= CACHE_BYTES
        made("b", 0.75).replace(file)
        assert store.search(query).total == 0


def test_reads_at_the_same_time_are_bounded(file: Path) -> None:
    store = AnswerStore(file, read_s=0.05)
    with ExitStack() as reads:
        for _ in range(MAX_READS):
            reads.enter_context(store._reading())
        with pytest.raises(ReadTooLong, match="other pages"):
            store.state()
    assert store.state().answers
    store.close()


def test_no_text_of_an_event_is_on_disk(file: Path) -> None:
    with sqlite3.connect(file) as db:
        assert not db.execute("select count(*) from label where instr(data, 'said by a person')").fetchone()[0]


def test_what_is_not_flushed_is_not_there(tmp_path: Path, rows: list[Row]) -> None:
    file = tmp_path / "store"
    with StoreWriter(file) as writer:
        writer.take(read(rows[0]), 0, 0)
        writer.flush({("evaluations", "id", 0): 1}, read=0.5)
        writer.take(read(rows[1]), 0, 1)
    with StoreWriter(file) as writer:  # It goes on after the last flush.
        writer.take(read(rows[2]), 0, 2)
        writer.flush()
    store = AnswerStore(file)
    assert [each.at[1] for each in store.search(AnswerQuery(ascending=True)).answers] in ([0, 2], [2, 0])
    store.close()


def test_values_over_the_limit_are_one_and_lists_say_that_they_lack_some(
    tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MAX_TERMS", 3)
    monkeypatch.setattr(layout, "MAX_TERM_CHARACTERS", 40)
    with StoreWriter(tmp_path / "store") as writer:
        for number in range(10):
            row = rows[number] | {
                "event_id": f"e{number}",
                "tenant": f"t{number}",
                "labels": {"user": "u" * 20 * number},
            }
            writer.take(read(row), 0, number)
            writer.flush()
    store = AnswerStore(tmp_path / "store")
    page = store.search(AnswerQuery(where=(("tenant", "t1"),)))
    assert ([each.event_id for each in page.answers], page.incomplete) == (["e1"], ("tenant",))
    assert store.search(AnswerQuery(where=(("model", "m"),))).incomplete == ()
    assert store.search(AnswerQuery(where=(("labels.user", "u" * 20),))).incomplete == ("labels.user",)
    late = store.found("e9")
    assert late is not None
    assert (late.tenant, late.labels) == ("(other)", {})
    store.close()


@pytest.mark.slow
def test_an_evaluation_without_scores_is_an_answer(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store") as writer:
        for number in range(SEGMENT_ROWS + 1):
            writer.take(read(BARE | {"event_id": f"e{number}"}), 0, number)
        writer.flush()
    store = AnswerStore(tmp_path / "store")
    page = store.search(AnswerQuery())
    assert page.total == SEGMENT_ROWS + 1
    assert {len(each.scores) for each in page.answers} == {0}
    assert store.found("e1") is not None
    store.close()


def test_files_are_loaded_with_their_lines(tmp_path: Path, rows: list[Row]) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lines = [orjson.dumps(row, option=orjson.OPT_UTC_Z) for row in rows[:30]]
    first.write_bytes(b"\n".join([*lines[:10], b'{"event_id": 7}']))
    second.write_bytes(b"\n".join(lines[10:]))
    with StoreWriter(tmp_path / "store") as writer:
        loaded = load_evaluations([first, second], writer)
    assert (loaded.evaluations, loaded.not_evaluations, loaded.rejected) == (30, 1, 0)
    store = AnswerStore(tmp_path / "store")
    found = store.found(rows[12]["event_id"])
    assert found is not None
    assert found.at == (1, 3)
    assert store.state().read == 1
    store.close()
    (tmp_path / "empty").write_bytes(b"{}\n")
    with StoreWriter(tmp_path / "other") as writer, pytest.raises(PermanentError, match="holds no evaluation"):
        load_evaluations([tmp_path / "empty"], writer)


def fuzzed(chance: random.Random) -> str:
    names = ["application", "labels.region", "min.context_support", "max.rare", "flag", "from", "to", "slo", "judged"]
    names += ["labelled", "id", "session", "document", "sort", "order", "after", "before", "limit", "x", "", "min."]
    values = ["", "a1", "eu", "0.5", "-1e308", "nan", "inf", "1e999", "yes", "no", "desc", "asc", "relevant", "rare"]
    values += ["time", "0.25~7", "inf~0", "-inf~3", "~", "nan~1", "1~-1", "1~99999999999999999999", "50", "0", "٣"]
    values += [
        "2026-11-20T03:00:00Z",
        "1.7636e9",
        "1e99",
        "0001-01-01",
        "9999-12-31T23:59:59-14:00",
        "%ff",
        "%00",
        "\ud800",
    ]
    values += ["a" * 1_001, "é", "%F0%9F%92%A9", "d7", "'; drop table event; --", "20261120", "1e-5~2"]
    pairs = []
    for _ in range(chance.randrange(6)):
        value = chance.choice(values)
        if chance.random() < 0.15:
            value = "".join(chr(chance.randrange(1, 0x2FF)) for _ in range(chance.randrange(9)))
        pairs.append(f"{chance.choice(names)}={value}")
    text = chance.choice("&&&&;")
    return text.join(pairs)


@pytest.mark.slow
def test_no_query_string_gives_another_error(store: AnswerStore) -> None:
    """10,000 query strings: a page or a BadQuery; and each query is printed as it is parsed."""
    chance, searched, read_well = random.Random(34), 0, 0
    for _ in range(10_000):
        text = fuzzed(chance)
        try:
            query = AnswerQuery.parse(text)
            read_well += 1
            assert AnswerQuery.parse(str(query)) == query, text
            if searched < 150:
                searched += 1
                page = store.search(query)
                assert len(page.answers) <= query.limit
        except BadQuery:
            continue
    assert read_well > 1_500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to=1.7636e%2B09", AnswerQuery(until=datetime(2025, 11, 20, 0, 53, 20, tzinfo=UTC))),
        ("after=inf~7&limit=1", AnswerQuery(after=Cursor(inf, 7), limit=1)),
        ("judged=no&labelled=yes", AnswerQuery(judged=False, labelled=True)),
        ("flag=b&flag=a&flag=b", AnswerQuery(flags=("a", "b"))),
    ],
)
def test_query_strings_are_read(text: str, expected: AnswerQuery) -> None:
    assert AnswerQuery.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["x=1", "min.a=1&min.a=2", "slo=a&slo=b", "after=1~1&before=1~1", "limit=1001", "judged=maybe", "slo="]
)
def test_wrong_query_strings_are_said_to_be(text: str) -> None:
    with pytest.raises(BadQuery):
        AnswerQuery.parse(text)
    assert AnswerQuery.parse("x=1", ignored=["x"]) == AnswerQuery()
