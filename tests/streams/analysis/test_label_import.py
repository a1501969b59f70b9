"""The import of labels: rows of every kind, good and bad, matched with events and compared with what is there."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.schemas.codec.json import encode
from ragweir.schemas.codec.label_maps import LABEL_MAPS, label_map
from ragweir.schemas.codec.mapping.label_map import LabelMap
from ragweir.schemas.label import WITHDRAWN, Draw, Label, LabelDraw, LabelledScore
from ragweir.streams.analysis.labels.bad_rows import BadRows
from ragweir.streams.analysis.labels.flat import columns, flat
from ragweir.streams.analysis.labels.importing import LabelImport
from ragweir.streams.analysis.labels.label_rows import LONGEST_COMMENT, LabelReader
from ragweir.streams.analysis.labels.store import Key, LabelFile
from ragweir.streams.analysis.labels.targets import Targets
from ragweir.streams.files.events import read_events
from ragweir.streams.files.parquet import as_parquet
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import LabelSettings
from ragweir.streams.settings.labels import SHIPPED, Question

KEY = "k"
NOW = datetime(2026, 11, 26, tzinfo=UTC)
STEPS = Question(name="tone", text="?", scale="ordinal", values=("1", "2", "3"), bad=("1",), metric="unsupported_risk")
OWN = Label(
    event_id="e1",
    question="supported",
    value=False,
    rater="0123456789abcdef",
    kind="expert",
    blind=True,
    time=NOW,
    seconds=2.5,
    draw=LabelDraw(id="d", probability=0.25),
    judged=LabelledScore(metric="unsupported_risk", value=0.9, bad=True, probability=0.5, model="m"),
    event_time=NOW - timedelta(days=1),
    dimensions={"application": "shop"},
)


def imported(rows: Sequence[object], *, comments: bool = False) -> LabelImport:
    """Read rows, each JSON data or the bytes of a line, without a map."""
    settings = LabelSettings(key=KEY, comments=comments, questions=(*SHIPPED, STEPS))
    made = LabelImport(LabelReader(settings, None, "supported", "import", NOW, BadRows()))
    lines = (each if isinstance(each, bytes) else orjson.dumps(each) for each in rows)
    made.read(enumerate(lines, 1))
    return made


def labels(made: LabelImport) -> list[Label]:
    return [row.label for row in made.rows]


def test_the_short_form_is_a_label_of_the_first_question() -> None:
    assert labels(imported([{"event_id": 7, "value": "No"}])) == [
        Label(
            event_id="7",
            question="supported",
            value=False,
            rater=hashed_rater("import", KEY),
            kind="import",
            blind=False,
            time=NOW,
        )
    ]
    row = {"trace_id": "t", "question": "tone", "value": 2, "rater": "Ada", "time": 1764000000, "seconds": "1.5"}
    (found,) = imported([row | {"comment": "fine"}], comments=True).rows
    label = found.label
    assert (found.ids, found.has_time) == ({"trace_id": "t"}, True)
    assert (label.value, label.rater, label.seconds, label.comment) == ("2", hashed_rater("Ada", KEY), 1.5, "fine")
    assert label.time == datetime(2025, 11, 24, 16, tzinfo=UTC)
    assert labels(imported([row | {"comment": "fine"}]))[0].comment is None


def test_our_own_labels_are_kept_with_their_draw_and_a_name_is_hashed() -> None:
    """A rater that is no hash, as a program of the user's may write it, does not get into the file."""
    made = imported([encode(OWN), {**orjson.loads(encode(OWN)), "event_id": "e2", "rater": "Ada"}])
    assert labels(made) == [OWN, OWN.model_copy(update={"event_id": "e2", "rater": hashed_rater("Ada", KEY)})]
    draw = {"id": "d", "question": "supported", "metric": "unsupported_risk", "threshold": 0.8, "made_at": NOW}
    made = imported([{**draw, "start": NOW, "end": NOW, "events": 3, "selected": 3}])
    assert [each.id for each in made.draws if isinstance(each, Draw)] == ["d"]
    assert made.bad.parts == []


DEEP = b"[" * 1_000 + b"]" * 1_000
BAD: list[tuple[object, str]] = [
    ({"event_id": "e", "value": "yes", "question": "nope"}, "of unknown questions (nope)"),
    ({"event_id": "e", "value": "yes", "question": {"a": 1}}, "of unknown questions (a list or an object)"),
    (b'{"event_id": "e", "question": ' + DEEP + b"}", "of unknown questions (a list or an object)"),
    ({"event_id": "e", "value": "maybe\x1b[2J"}, "with values that are no answer (maybe�[2J)"),
    ({"event_id": "e", "value": 0.5}, "with values that are no answer (0.5)"),
    ({"event_id": "e", "value": None}, "with values that are no answer (no value)"),
    ({"event_id": "e"}, "with values that are no answer (no value)"),
    ({"event_id": "e", "value": ["yes"]}, "with values that are no answer (a list or an object)"),
    (b'{"event_id": "e", "value": ' + DEEP + b"}", "with values that are no answer (a list or an object)"),
    ({"event_id": "e", "value": "yes" * 400_000}, f"with values that are no answer ({('yes' * 20)[:59]}…)"),
    ({"event_id": "e", "question": "tone", "value": True}, "with values that are no answer (True)"),
    ({"value": "yes"}, "without the id of an event (row 1)"),
    ({"event_id": "", "value": "yes"}, "without the id of an event (row 1)"),
    ({"event_id": 1.5, "value": "yes"}, "without the id of an event (row 1)"),
    ({"event_id": ["e"], "value": "yes"}, "without the id of an event (row 1)"),
    ({"event_id": "x" * 1_000_000, "value": "yes"}, f"with an id of more than 200 characters ({'x' * 20}...)"),
    ({"event_id": "e", "value": "yes", "rater": ["Ada"]}, "with raters that are no text (row 1)"),
    ({"event_id": "e", "value": "yes", "rater": True}, "with raters that are no text (row 1)"),
    ({"event_id": "e", "value": "yes", "time": "soon"}, "with times that are none (soon)"),
    ({"event_id": "e", "value": "yes", "time": {}}, "with times that are none (a list or an object)"),
    ({"event_id": "e", "value": "yes", "time": 1e300}, "with times that are none (1e+300)"),
    ({"event_id": "e", "value": "yes", "seconds": -1}, "with seconds that are no number of 0 or more (-1)"),
    ({"event_id": "e", "value": "yes", "seconds": "nan"}, "with seconds that are no number of 0 or more (nan)"),
    (
        {"event_id": "e", "value": "yes", "seconds": []},
        "with seconds that are no number of 0 or more (a list or an object)",
    ),
    (b'{"event_id": "e", "value": NaN}', "that cannot be read (row 1: not JSON)"),
    (b"\xff\xfe", "that cannot be read (row 1: not JSON)"),
    (b"[" * 100_000, "that cannot be read (row 1: not JSON)"),
    ([1], "that cannot be read (row 1: no object)"),
    ("yes", "that cannot be read (row 1: no object)"),
    ({**orjson.loads(encode(OWN)), "kind": "robot"}, "that cannot be read (row 1: kind: Input should be"),
    ({**orjson.loads(encode(OWN)), "dimensions": "{"}, "that cannot be read (row 1: dimensions: Input should be"),
    ({**orjson.loads(encode(OWN)), "draw": {"id": "d", "probability": 0}}, "(row 1: draw.probability: Input should"),
]


@pytest.mark.parametrize(("row", "words"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_a_bad_row_is_counted_with_an_example_and_the_good_ones_are_read(row: object, words: str) -> None:
    made = imported([row, {"event_id": "good", "value": "yes"}])
    assert [label.event_id for label in labels(made)] == ["good"]
    (part,) = made.bad.parts
    assert part.startswith("1 ")
    assert words in part
    assert len(part) < 200
    assert part.isprintable()


NAMES = st.sampled_from(
    "event_id trace_id question value rater time seconds comment kind blind draw dimensions draw_id judged_bad data "
    "annotations result type from_name completed_by was_cancelled choices source subject name feedback_source".split()
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["supported", "yes", "choices", "ANNOTATION", "app", "expert", '{"a": 1}', "2026-11-21"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
MAPPINGS = [None, *(LabelMap.parse(label_map(name)) for name in LABEL_MAPS)]


CHANGES = st.dictionaries(NAMES, VALUES, max_size=6)
ROWS = st.builds(lambda changes: {**orjson.loads(encode(OWN)), **changes}, CHANGES) | CHANGES | VALUES


@given(ROWS, st.sampled_from(MAPPINGS))
def test_any_row_is_a_label_or_counted(row: object, mapping: LabelMap | None) -> None:
    """A label of any row can be written, read again, and exported."""
    settings = LabelSettings(key=KEY, comments=True)
    made = LabelImport(LabelReader(settings, mapping, "supported", "import", NOW, BadRows()))
    made.read([(1, orjson.dumps(row))])
    assert str(made.bad).isprintable()
    for label in labels(made):
        assert Label.model_validate(orjson.loads(encode(label))) == label
        assert labels(imported([flat(label)], comments=True)) == [label]


@pytest.mark.slow
def test_ten_thousand_wrong_rows_are_one_sentence() -> None:
    made = imported([{"event_id": "e", "value": f"maybe {number}"} for number in range(10_000)])
    assert made.failure() == (
        "no label was imported: 10,000 with values that are no answer (maybe 0, maybe 1, maybe 2)"
    )
    assert imported([]).failure() == "no label was imported, since the file has none"


def test_a_long_comment_is_cut_and_a_rater_with_control_characters_is_hashed() -> None:
    row = {"event_id": "e", "value": "yes", "rater": "a\x1b]0;b\x07\n", "comment": "x" * 1024 * 1024}
    made = imported([row], comments=True)
    assert labels(made)[0].comment == "x" * LONGEST_COMMENT
    assert labels(made)[0].rater == hashed_rater("a\x1b]0;b\x07\n", KEY)
    assert made.new({}) == labels(made)
    assert made.summary() == "1 label imported, 1 comments cut to 2,000 characters"
    assert labels(imported([row]))[0].comment is None


def event(number: int, **more: object) -> bytes:
    return orjson.dumps({"event_id": f"e{number}", "event_time": f"2026-11-2{number}T00:00:00Z", **more})


def test_an_event_is_found_by_its_id_else_its_span_else_as_the_last_of_its_trace() -> None:
    """Three labels of unknown events are shown; a known one has its event's time and dimensions."""
    rows = [
        {"event_id": "e1", "trace_id": "t", "value": "yes"},
        {"event_id": "s2", "span_id": "s2", "trace_id": "t", "value": "yes"},
        {"trace_id": "t", "span_id": "of the retriever", "value": "no"},
        *({"trace_id": f"u{number}", "value": "yes"} for number in range(5)),
    ]
    made = imported(rows)
    targets = Targets((row.ids for row in made.rows), ("application", "labels.region"))
    shared = {"application": "shop", "labels": {"region": "eu"}, "scores": {"a": 1}}
    targets.add(event(1, trace_id="t", span_id="s1", **shared))
    targets.add(event(3, trace_id="t", span_id="s3", **shared))
    targets.add(event(2, trace_id="t", span_id="s2", application="shop"))
    made.match(targets)
    assert [label.event_id for label in labels(made)] == ["e1", "e2", "e3"]
    last = labels(made)[-1]
    assert last.event_time == datetime(2026, 11, 23, tzinfo=UTC)
    assert last.dimensions == {"application": "shop", "labels.region": "eu"}
    assert str(made.bad) == "5 of unknown events (u0, u1, u2)"
    assert len(made.unknown) == 5
    assert targets.examples == "event_id e1, e3, e2; span_id s1, s3, s2; trace_id t, t, t"


def added(rows: Sequence[object], there: dict[Key, Label]) -> tuple[list[bool | str], LabelImport]:
    """Import rows into labels, and return the values that were added."""
    made = imported(rows)
    new = made.new(there)
    there.update({(each.event_id, each.question, each.rater): each for each in new})
    return [each.value for each in new], made


def test_a_file_that_is_imported_again_adds_nothing() -> None:
    """Also with two verdicts of one person, of which the newest counts, and without times."""
    rows = [
        {"event_id": "e1", "value": "no", "time": "2026-11-02"},
        {"event_id": "e1", "value": "yes", "time": "2026-11-01"},
        {"event_id": "e2", "value": "yes"},
        {"event_id": "e2", "value": "no"},
    ]
    there: dict[Key, Label] = {}
    values, made = added(rows, there)
    assert values == [False, False]
    assert made.summary() == "2 labels imported, 2 repeated, of which the newest counts"
    values, made = added(rows, there)
    assert values == []
    assert made.summary() == "0 labels imported, 2 there already, 2 repeated, of which the newest counts"
    assert made.good == 4


def test_a_newer_verdict_replaces_an_older_one_and_not_the_other_way_round() -> None:
    def row(value: str, day: int) -> dict[str, Any]:
        return {"event_id": "e1", "value": value, "time": f"2026-11-0{day}"}

    there: dict[Key, Label] = {}
    assert added([row("yes", 2)], there)[0] == [True]
    values, made = added([row("no", 1)], there)
    assert (values, made.older) == ([], 1)
    assert added([row("no", 3)], there)[0] == [False]
    assert added([row("no", 4)], there)[0] == [False]
    assert added([{"event_id": "e1", "value": "no"}], there)[0] == []
    assert added([{"event_id": "e1", "value": "yes"}], there)[0] == [True]


def test_a_withdrawn_label_is_not_brought_back_by_what_is_older_or_has_no_time() -> None:
    timeless, older = {"event_id": "e1", "value": "yes"}, {"event_id": "e1", "value": "yes", "time": "2026-11-01"}
    there: dict[Key, Label] = {}
    added([timeless], there)
    (key,) = there
    there[key] = there[key].model_copy(update={"value": WITHDRAWN})
    for row in (timeless, older):
        values, made = added([row], there)
        assert (values, made.older) == ([], 1)
    assert added([{**older, "time": "2026-11-27"}], there)[0] == [True]


def test_flat_rows_are_read_as_the_labels_that_they_were_made_of(tmp_path: Path) -> None:
    """In JSON lines and in Parquet, with the draw and the score, and without."""
    plain = Label(
        event_id="e2", question="tone", value="3", rater="0" * 16, kind="import", blind=False, time=NOW, why="gone"
    )
    rows = [flat(OWN), flat(plain)]
    assert all(list(row) == list(columns()) for row in rows)
    assert not any(isinstance(value, dict | list) for row in rows for value in row.values())
    assert labels(imported(rows)) == [OWN, plain]
    file = tmp_path / "labels.parquet"
    file.write_bytes(as_parquet(rows, columns()))
    assert labels(imported([row for _, row in read_events(file, 10_000)])) == [OWN, plain]


def test_labels_that_are_added_together_are_all_in_the_file(tmp_path: Path) -> None:
    others = [OWN.model_copy(update={"event_id": f"e{number}"}) for number in range(5)]
    with LabelFile(tmp_path / "labels.jsonl") as store:
        store.add(*others)
        store.add(OWN)
    with LabelFile(tmp_path / "labels.jsonl") as store:
        assert {label.event_id for label in store.content.current()} == {label.event_id for label in others}
    assert len((tmp_path / "labels.jsonl").read_bytes().splitlines()) == 6
