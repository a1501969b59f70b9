"""Maps of labels: lists, objects of people, values, and the ready maps on exports that the products' SDKs wrote."""

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.label_maps import LABEL_MAPS, label_map
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.mapping.label_map import LabelMap
from ragweir.streams.files.events import read_events
from ragweir.streams.settings.labels import Question

ROOT = Path(__file__).parents[2]
EXPORTS = ROOT / "tests" / "exports" / "labels"
MAPS = ROOT / "deploy" / "maps"
DATA = ROOT.parent / "shared" / "data"
ANNOTATIONS = {
    "task": {"id": "t1"},
    "annotations": [
        {"by": {"id": 1}, "results": [{"kind": "choice", "of": "a", "is": ["yes"]}, {"kind": "text", "of": "n"}]},
        {"by": 2, "results": []},
        {"by": 3},
        {"by": 4, "results": [{"kind": "choice", "of": "a", "is": ["x", "y"]}, {"kind": "choice", "of": "b"}]},
    ],
}
NESTED = """
event_id = "task.id"
value = { path = "annotations[]", then = { path = "results[].is", where = { path = "kind", in = ["choice"] } } }
question = { path = "annotations[]", then = { path = "results[].of", where = { path = "kind", in = ["choice"] } } }
rater = { path = "annotations[]", then = { first = ["by.id", "by"] } }
"""


def test_each_element_is_a_label_with_what_its_list_and_its_row_have() -> None:
    """People without a result give none, a list of one answer is that answer, and one of two stays a list."""
    assert LabelMap.parse(NESTED)(ANNOTATIONS) == [
        {"event_id": "t1", "question": "a", "rater": 1, "value": "yes"},
        {"event_id": "t1", "question": "a", "rater": 4, "value": ["x", "y"]},
        {"event_id": "t1", "question": "b", "rater": 4},
    ]


def test_the_entries_of_an_object_are_labels() -> None:
    mapping = LabelMap.parse("""
        event_id = ["id", "model"]
        question = { constant = "supported" }
        value = { path = "human", entries = true, then = "[].value.v" }
        rater = { path = "human", entries = true, then = "[].name" }
        time = { path = "human", entries = true, then = { path = "[].value.t", unit = "s" } }
        values = { "4" = "yes", "1" = "no", true = "yes" }
    """)
    shared = {"event_id": "7:m", "question": "supported"}
    assert mapping(
        {"id": 7, "model": "m", "human": {"ann": {"v": "4", "t": 0}, "bo": {"v": 1.0}, "c": {"v": 2.5}}}
    ) == [
        {**shared, "value": "yes", "rater": "ann", "time": "1970-01-01T00:00:00+00:00"},
        {**shared, "value": "no", "rater": "bo"},
        {**shared, "value": 2.5, "rater": "c"},
    ]
    assert mapping({"id": 7, "model": "m", "human": {}}) == []
    assert mapping({"id": 7, "model": "m"}) == []
    with pytest.raises(Rejected, match="no list"):
        mapping({"id": 7, "model": "m", "human": "yes"})


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("event_id = 'id'", "the map must name value, and one of event_id, span_id, trace_id"),
        ("value = 'v'", "the map must name value, and one of"),
        ("event_id = 'id'\nvalue = 'v'\nquery = 'q'", "query: a label has no such field; it has event_id"),
        ("event_id = 'id'\nvalue = 'a[].v'\nrater = 'b[].r'", "rater: goes through b"),
        (
            "event_id = 'id'\nvalue = 'a[].v'\nrater = { path = 'a[].r', where = { path = 'k', in = [1] } }",
            "same `where`",
        ),
        ("event_id = 'id'\nvalue = 'v'\nvalues = {}", "values: `translate` must be a table"),
        ("event_id = 'id'\nvalue = { path = 'v', unit = 's' }", "value: only a time has a unit, which are time"),
        ("event_id = 'id'\nvalue = { path = 'v', entries = 1 }", "value: `entries` must be true"),
        ("event_id = 'id'\nvalue = 'v'\nvalue = 'w'", "not TOML"),
    ],
)
def test_a_wrong_map_is_an_error_that_names_the_field(rules: str, message: str) -> None:
    with pytest.raises(MapError) as error:
        LabelMap.parse(rules)
    assert message in str(error.value)


def test_a_row_that_is_no_object_is_rejected() -> None:
    for row in ([], None, "x", 3):
        with pytest.raises(Rejected, match="not an object"):
            LabelMap.parse("event_id = 'id'\nvalue = 'v'")(row)


FILES = {
    # file: map, labels that it has besides those of `supported`, rows that `where` skips, kind of id
    "label-studio-sdk-2.1.2.json": ("label-studio", 15, 0, "trace"),
    "langfuse-3.15.0.json": ("langfuse", 3, 2, "trace"),
    "langfuse-5.0.4.json": ("langfuse", 2, 4, "trace"),
    "langsmith-0.15.0.jsonl": ("langsmith", 0, 3, "run"),
    "arize-phoenix-client-3.5.0.json": ("phoenix", 0, 2, "span"),
    "arize-phoenix-client-3.5.0-frame.csv": ("phoenix", 0, 2, "span"),
}
SUPPORTED = Question(name="supported", text="?", metric="unsupported_risk")


def read(name: str, mapping: LabelMap) -> list[list[dict[str, Any]] | None]:
    return [mapping(orjson.loads(row)) for _, row in read_events(EXPORTS / name, 1_000_000)]


def target(kind: str, number: int) -> str:
    """The id of a run, trace or span, as the script that wrote the exports made it."""
    own = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{number}")
    return {"run": str(own), "trace": own.hex, "span": own.hex[:16]}[kind]


def test_every_export_is_tested() -> None:
    assert {file.name for file in EXPORTS.iterdir()} == set(FILES)
    assert {name for name, *_ in FILES.values()} == set(LABEL_MAPS)


@pytest.mark.parametrize("name", FILES)
def test_a_ready_map_reads_the_verdicts_of_people_and_no_others(name: str) -> None:
    """Ten answers, of which Ada finds 0, 4 and 8 unsupported, and of the even ones Bob these and 6."""
    ready, others, skipped, kind = FILES[name]
    rows = read(name, LabelMap.parse(label_map(ready)))
    assert sum(row is None for row in rows) == skipped
    labels = [label for row in rows for label in row or ()]
    # One of Langfuse's is that of a session, which is no event; its API has no such field.
    own = [each for each in labels if (each["question"] == "supported" and "trace_id" in each) or kind == "span"]
    assert len(labels) - len(own) == others
    raters = sorted({str(each["rater"]) for each in own})
    ada, bob = raters
    said = {
        (each[f"{'trace' if kind != 'span' else kind}_id"], each["rater"]): SUPPORTED.read(each["value"])
        for each in own
    }
    expected = {(target(kind, number), ada): number not in {0, 4, 8} for number in range(10)}
    expected |= {(target(kind, number), bob): number not in {0, 4, 6, 8} for number in range(0, 10, 2)}
    assert {(name, str(rater)): value for (name, rater), value in said.items()} == expected
    assert sorted({each["time"][:19] for each in own})[:2] == ["2026-10-02T09:00:00", "2026-10-02T09:00:30"]
    assert len(own) == 15


@pytest.mark.parametrize(
    ("name", "counts"),
    [("mtrag", {True: 491, False: 105}), ("begin", {True: 180, False: 250})],
)
def test_maps_of_benchmarks_give_labels_the_ids_that_their_events_have(name: str, counts: dict[bool, int]) -> None:
    data = DATA / f"{name}.jsonl"
    if not data.exists():
        pytest.skip(f"{data} is not on this machine")
    events = FieldMap.parse((MAPS / f"{name}.toml").read_text())
    labels = LabelMap.parse((MAPS / f"{name}-labels.toml").read_text())
    said: Counter[bool | str | None] = Counter()
    for line in data.read_bytes().splitlines():
        row = orjson.loads(line)
        found, event = labels(row), events(row)
        assert found
        assert event
        assert {each["event_id"] for each in found} == {event["event_id"]}
        said.update(SUPPORTED.read(each["value"]) for each in found)
    assert said == counts
