"""`import ragweir`: what it loads, and that its functions give what the commands give, whatever Python holds."""

import ast
import gzip
import inspect
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_overloads, get_type_hints

import numpy as np
import orjson
import pandas as pd
import polars as pl
import pytest
from commands import ROOT, program
from commands import ragweir as command
from hypothesis import given
from hypothesis import strategies as st

import ragweir
from ragweir import ConfigurationError, Evaluation, PermanentError, Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Interaction
from ragweir.streams.library import scoring

Event = dict[str, Any]

EVENT: Event = {
    "event_id": "e1",
    "started_at": "2026-11-21T10:00:00Z",
    "ended_at": "2026-11-21T10:00:02Z",
    "application": "almanac",
    "query": "When was the Eiffel Tower opened?",
    "response": "The Eiffel Tower was opened in 1889, in Paris.",
    "expected": "1889",
    "contexts": [
        {
            "chunk_id": "c1",
            "text": "The Eiffel Tower opened on 31 March 1889.",
            "score": 0.9,
            "retrieval_method": "knn",
        },
        {"chunk_id": "c2", "text": "Paris is the capital of France.", "score": 0.4, "retrieval_method": "knn"},
    ],
    "labels": {"region": "eu"},
    "usage": {"input_tokens": 120, "output_tokens": 12},
    "finish_reason": "stop",
}
FOREIGN: Event = {"id": 7, "q": EVENT["query"], "a": EVENT["response"], "docs": ["1889", "Paris"], "at": 1764000000}
RULES = {"event_id": "id", "query": "q", "response": "a", "contexts[].text": "docs[]", "ended_at": "at"}
UNREADABLE: Event = {"event_id": "e9", "response": "There is no question."}


def isolated(code: str, *arguments: str, folder: Path = ROOT) -> str:
    """What a program prints that runs in a process of its own."""
    ran = program(sys.executable, "-c", code, *arguments, folder=folder, env=os.environ)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def scored(result: Evaluation | Rejected) -> Evaluation:
    assert isinstance(result, Evaluation), result
    return result


def variants() -> list[Event]:
    """Events of many kinds: whole, repaired, odd and empty."""
    return [
        EVENT,
        {**EVENT, "event_id": "e2", "response": "I don't know."},
        {**EVENT, "event_id": "e3", "contexts": ["only text", 7, None], "expected": ["a", "b"] * 40},
        {**EVENT, "event_id": 4, "query": "", "response": "", "contexts": [], "ended_at": 1764000000250},
        {**EVENT, "event_id": "e5", "spans": [{"kind": "chain"}, {"kind": "llm"}], "unknown": {"deep": [1, 2]}},
        {**EVENT, "event_id": "e6", "response": "x\x1b[2J\u202e 1889 " * 50, "usage": "none"},
        {**EVENT, "event_id": "e7", "query": "Kapan dibuka? 何時?", "labels": {"n": 1, "b": True}},
    ]


# What is loaded.

HEAVY = "numpy typer confluent_kafka duckdb pydantic orjson rich pandas polars typing".split()


@pytest.mark.slow
def test_importing_it_loads_nothing_heavy() -> None:
    """Nor any other module of ragweir: an application that only publishes pays for nothing else."""
    loaded = isolated("import sys, ragweir; print(*sys.modules)").split()
    assert "ragweir" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith("ragweir.")] == []


@pytest.mark.slow
def test_scoring_loads_neither_kafka_nor_the_command_line() -> None:
    code = f"import sys, ragweir; ragweir.score({UNREADABLE | {'query': ''}!r}); print(*sys.modules)"
    assert set(isolated(code).split()) & {"typer", "confluent_kafka", "duckdb", "pandas", "polars", "aiohttp"} == set()


@pytest.mark.heavy
@pytest.mark.parametrize(("used", "other"), [("pandas", "polars"), ("polars", "pandas")])
def test_a_frame_loads_its_own_library_alone(used: str, other: str) -> None:
    code = f"import sys, ragweir, {used}; print(len(ragweir.score_frame({used}.DataFrame({{'event_id': ['1']}}))));"
    assert isolated(f"{code} print({other!r} in sys.modules)").split() == ["1", "False"]


def test_every_public_name_is_there_typed_and_documented() -> None:
    """The table of modules, `__all__`, and the imports that type checkers see name the same things."""
    tree = ast.parse((ROOT / "ragweir/__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ragweir.")
        for alias in node.names
    }
    assert seen == dict(ragweir._MODULES)
    assert sorted(seen) == ragweir.__all__
    assert (ROOT / "ragweir/py.typed").exists()
    for name in ragweir.__all__:
        assert getattr(ragweir, name).__doc__, name
        assert name in dir(ragweir)
    assert not {*ragweir.__all__} & {"metrics", "schemas", "streams", "errors"}
    assert inspect.ismodule(ragweir.metrics)
    with pytest.raises(AttributeError, match="no attribute 'metric'"):
        _ = ragweir.metric  # type: ignore[attr-defined]


def test_type_checkers_know_what_one_and_many_events_give() -> None:
    one, many = (get_type_hints(each, vars(scoring))["return"] for each in get_overloads(ragweir.score))
    assert one is Evaluation
    assert many == Iterator[Evaluation | Rejected]


# Scores.


@pytest.mark.slow
def test_scores_are_those_of_the_command(tmp_path: Path) -> None:
    """Byte for byte, but for the place in the file; both reject the same events with the same words."""
    events = [*variants(), UNREADABLE]
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    done = command("score", file, "--explain", folder=tmp_path)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    for each in theirs:
        assert each.pop("source")["topic"] == "events.jsonl"
        each["source"] = None
    *ours, rejected = ragweir.score(events, explain=True)
    assert [encode(scored(each)) for each in ours] == [encode(Evaluation.model_validate(each)) for each in theirs]
    assert isinstance(rejected, Rejected)
    assert rejected.message.split(";")[0] in done.stderr.decode()
    assert any(scored(each).flags for each in ours)
    assert any(scored(each).evidence for each in ours)


@pytest.mark.slow
def test_scores_through_a_map_are_those_of_the_command(tmp_path: Path) -> None:
    """The map is a file or a mapping of rules."""
    (tmp_path / "map.toml").write_text("".join(f'"{field}" = "{path}"\n' for field, path in RULES.items()))
    done = command("score", "-", "--map", "map.toml", text=orjson.dumps(FOREIGN), folder=tmp_path)
    theirs = Evaluation.model_validate(json.loads(done.stdout)).model_copy(update={"source": None})
    for rules in (RULES, tmp_path / "map.toml", str(tmp_path / "map.toml")):
        assert encode(ragweir.score(FOREIGN, map=rules)) == encode(theirs)


def test_many_events_are_scored_in_order_when_they_are_asked_for() -> None:
    """One that cannot be scored does not end the iterator, and nothing is read ahead."""
    read: list[int] = []

    def events() -> Iterator[Event]:
        for number in range(10):
            read.append(number)
            yield {**EVENT, "event_id": str(number)} if number != 1 else UNREADABLE

    results = ragweir.score(events())
    assert read == []
    found = list(itertools.islice(results, 3))
    assert [type(each) for each in found] == [Evaluation, Rejected, Evaluation]
    assert [scored(each).event_id for each in found if isinstance(each, Evaluation)] == ["0", "2"]
    assert read == [0, 1, 2]


def test_one_event_that_cannot_be_scored_raises() -> None:
    with pytest.raises(Rejected, match="query: missing") as rejected:
        ragweir.score(UNREADABLE)
    assert rejected.value.error_class == "invalid"
    assert isinstance(rejected.value, ragweir.RagweirError)


def test_an_event_without_a_time_has_the_present_one_and_a_flag() -> None:
    event = {name: value for name, value in EVENT.items() if name not in {"started_at", "ended_at"}}
    before = datetime.now(UTC)
    evaluation = ragweir.score(event)
    assert before <= evaluation.event_time <= datetime.now(UTC)
    assert evaluation.flags == ("time_defaulted",)
    assert ragweir.score(EVENT).flags == ()


@pytest.mark.parametrize(
    ("event", "hint"),
    [
        (json.dumps(EVENT), "json.loads"),
        (json.dumps(EVENT).encode(), "json.loads"),
        (pd.DataFrame([EVENT]), "score_frame"),
        (pl.DataFrame({"event_id": ["1"]}), "score_frame"),
        (Interaction.model_validate(EVENT), "model_dump"),
        (7, "not iterable"),
    ],
)
def test_what_is_no_event_is_a_type_error(event: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        list(ragweir.score(event))


def test_an_open_file_is_a_type_error(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_bytes(orjson.dumps(EVENT))
    with (tmp_path / "e.jsonl").open() as file, pytest.raises(TypeError, match="mapping"):
        ragweir.score(file)  # type: ignore[call-overload]


HOSTILE = [
    {**EVENT, "contexts": [object()]},
    {**EVENT, "query": "\ud800"},
    {**EVENT, "labels": {"n": 2**70}},
    "text",
    None,
    {**EVENT, "response": b"bytes"},
    {**EVENT, "response": "x" * 2_000_000},
]


def nested() -> Event:
    event: Any = EVENT
    for _ in range(2_000):
        event = {"x": [event]}
    return {**EVENT, "extra": event}


@pytest.mark.parametrize("event", [*HOSTILE, nested()], ids=range(len(HOSTILE) + 1))
def test_hostile_values_are_rejected_and_the_next_event_is_scored(event: Any) -> None:
    """In one sentence that quotes none of the event's texts."""
    first, second = ragweir.score([event, EVENT])
    assert isinstance(first, Rejected)
    assert first.error_class in {"invalid", "too_large"}
    assert len(first.message) < 300
    assert first.message.isprintable()
    assert "Eiffel" not in first.message
    assert encode(scored(second)) == encode(ragweir.score(EVENT))


def test_an_event_is_not_changed_and_any_mapping_is_one() -> None:
    event = json.loads(json.dumps(EVENT))
    frozen = MappingProxyType({**event, "labels": MappingProxyType({"region": "eu"})})
    assert encode(ragweir.score(frozen)) == encode(ragweir.score(event))
    assert event == EVENT


PYTHON_VALUES = {
    "event_id": np.str_("e1"),
    "started_at": datetime(2026, 11, 21, 12, tzinfo=timezone(timedelta(hours=2))),
    "ended_at": pd.Timestamp("2026-11-21T10:00:02.000000001Z"),
    "first_token_at": pd.NaT,
    "contexts": tuple(EVENT["contexts"]),
    "expected": np.array(["1889"], dtype=object),
    "tenant": pd.NA,
    "session_id": float("nan"),
    "usage": {"input_tokens": np.int64(120), "output_tokens": Decimal(12)},
    "labels": {"region": "eu"},
}


def test_values_of_python_and_numpy_are_read_as_their_json() -> None:
    plain = ragweir.score(EVENT)
    assert encode(ragweir.score({**EVENT, **PYTHON_VALUES})) == encode(plain)
    assert plain.scores["total_latency_ms"] == 2_000


def test_a_map_may_be_a_ready_one_and_may_number_and_select_events() -> None:
    """An event that is not selected keeps its place, as rejected, so that results and events are pairs."""
    events = [{"user_input": "Who?", "response": "Ada.", "retrieved_contexts": ["Ada wrote it."]}] * 2
    assert [scored(each).scores["context_support"] for each in ragweir.score(events, map="ragas")] == [1, 1]
    rules = {**RULES, "event_id": {"row": True}, "where": {"path": "kind", "in": ["chain"]}}
    one, other, third = ragweir.score([{**FOREIGN, "kind": kind} for kind in ("chain", "llm", "chain")], map=rules)
    assert (scored(one).event_id, scored(third).event_id) == ("1", "3")
    assert isinstance(other, Rejected)
    assert other.error_class == "unmapped"


# Settings.


@pytest.mark.slow
def test_no_file_and_no_variable_is_read_unless_asked(tmp_path: Path) -> None:
    """With the defaults and with a mapping; a path reads both, as commands do."""
    (tmp_path / "ragweir.toml").write_text("[limits]\nmax_contexts = 1\n")
    code = f"""
import os, ragweir
os.environ["RAGWEIR_METRICS__OFF"] = '["grounding"]'
found = [ragweir.score({EVENT!r}, settings=each) for each in (None, {{}}, "ragweir.toml")]
print(*["context_support" in each.scores for each in found], *[each.flags for each in found], sep="; ")
"""
    assert isolated(code, folder=tmp_path) == "True; True; False; (); (); ('contexts_dropped',)"


def test_settings_are_groups_or_settings() -> None:
    groups = {"metrics": {"off": ["grounding"]}}
    for settings in (groups, ragweir.Settings(**groups)):
        assert "context_support" not in ragweir.score(EVENT, settings=settings).scores
        assert "context_support" not in ragweir.catalogue(settings)
        assert "context_support" not in ragweir.explain(EVENT, settings=settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limits": {"max_context": 1}}, "setting limits.max_context: there is no such setting"),
        ({"limits": 1}, "setting limits: must be a table"),
        ({"limit": {}}, "setting limit: there is no such setting"),
        ({"metrics": {"off": ["no_metric"]}}, "no metric or group is called no_metric"),
        ("no/such.toml", "there is no settings file"),
    ],
)
def test_wrong_settings_are_one_sentence(settings: Any, message: str) -> None:
    for function in (ragweir.score, ragweir.explain):
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            function(EVENT, settings=settings)


@pytest.mark.parametrize(
    ("map", "message"),
    [
        ({"query": "q"}, "the map must name"),
        ({**RULES, "colour": "c"}, "no field 'colour'"),
        ("no/such/map.toml", "there is no map"),
    ],
)
def test_wrong_maps_are_one_sentence(map: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ragweir.score(FOREIGN, map=map)


# Frames.

Make = Any
BOTH = pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def table(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame with None for missing values."""
    rows = frame.to_dict("records") if isinstance(frame, pd.DataFrame) else frame.to_dicts()
    return [{name: None if pd.isna(value) else value for name, value in row.items()} for row in rows]


def rows() -> list[Event]:
    """Events whose fields have one type each, as columns need."""
    first = {**EVENT, "expected": ["1889"]}
    return [
        first,
        {**first, "event_id": ""},
        {**first, "event_id": "e2", "response": None},
        {**first, "event_id": "e3", "contexts": None, "finish_reason": None},
        {**first, "event_id": "e4", "contexts": [], "question_id": "q"},
        {**first, "event_id": "e5", "query": "Who?", "contexts": [{"text": "x" * 9, "score": float("nan")}]},
    ]


@BOTH
def test_a_frame_has_the_scores_of_its_rows(make: Make) -> None:
    """One row each, in order: numbers as floats, labels and reasons as text, and null for no value."""
    frame = make([{name: each.get(name) for name in {**EVENT, "question_id": ""}} for each in rows()])
    found = ragweir.score_frame(frame)
    assert type(found) is type(frame)
    free = [name for name, metric in ragweir.catalogue().items() if metric.cost == "free"]
    assert list(found.columns) == ["event_id", *free, "flags", "rejected"]
    for row, result in zip(table(found), ragweir.score(rows()), strict=True):
        if isinstance(result, Rejected):
            assert (row.pop("rejected"), {*row.values()}) == (result.message, {None})
            continue
        expected = dict.fromkeys(free) | result.scores | result.categories
        assert row == {
            "event_id": result.event_id,
            **expected,
            "flags": " ".join(result.flags) or None,
            "rejected": None,
        }
    kinds = {name: str(kind) for name, kind in zip(found.columns, found.dtypes, strict=True)}
    assert {kinds[name].lower() for name, metric in ragweir.catalogue().items() if name in kinds} == {
        "float64",
        "string",
    }
    assert kinds["answer_class" if "answer_class" in kinds else "recall_warning"].lower() == "string"


def test_no_value_of_polars_is_null_and_not_nan() -> None:
    latency = ragweir.score_frame(pl.DataFrame({"event_id": ["1"], "query": [""], "response": [""]}))[
        "total_latency_ms"
    ]
    assert latency.to_list() == [None]


def test_a_pandas_frame_keeps_its_index() -> None:
    """Whatever it is, also with repeated labels; the frame is not changed."""
    frame = pd.DataFrame([EVENT, {**EVENT, "event_id": "e2"}], index=["b", "b"])
    before = frame.copy(deep=True)
    assert list(ragweir.score_frame(frame).index) == ["b", "b"]
    pd.testing.assert_frame_equal(frame, before)


@BOTH
def test_an_empty_frame_has_all_columns(make: Make) -> None:
    found = ragweir.score_frame(make({"event_id": []}))
    assert len(found) == 0
    assert {"event_id", "context_support", "rejected"} < set(found.columns)


@BOTH
def test_a_frame_of_a_foreign_schema_is_read_through_a_map(make: Make) -> None:
    frame = make([FOREIGN, {**FOREIGN, "id": 8, "a": None}])
    first, second = table(ragweir.score_frame(frame, map=RULES))
    assert first["event_id"] == "7"
    assert first["context_support"] == ragweir.score(FOREIGN, map=RULES).scores["context_support"]
    assert (second["event_id"], second["flags"], second["rejected"]) == ("8", "content_absent:response", None)


@BOTH
def test_a_frame_of_ragas_is_read_through_its_ready_map(make: Make) -> None:
    """Without ids, with lists as arrays, and without the columns that are optional."""
    contexts = [np.array(["Ada wrote it."], dtype=object) if make is pd.DataFrame else ["Ada wrote it."]] * 2
    frame = make({"user_input": ["Who?", "Who?"], "response": ["Ada.", "Bob."], "retrieved_contexts": contexts})
    first, second = table(ragweir.score_frame(frame, map="ragas"))
    assert (first["context_support"], second["context_support"]) == (1, 0)
    assert len({first["event_id"], second["event_id"], None}) == 3


@BOTH
def test_a_path_that_leads_to_nothing_is_a_warning_with_the_nearest_one(make: Make) -> None:
    frame = make([FOREIGN] * 2)
    with pytest.warns(UserWarning, match="nothing is at dcos.*the nearest path that exists is docs") as warned:
        ragweir.score_frame(frame, map=RULES | {"contexts[].text": "dcos[]"})
    assert [each.filename for each in warned] == [__file__]


def test_cells_of_any_kind_are_read() -> None:
    """Arrays, categories, timestamps of three kinds and missing values of four; other columns may hold anything."""
    count = 3
    frame = pd.DataFrame(
        {
            "event_id": pd.array([1, 2, 3], dtype="Int64"),
            "query": pd.Categorical([EVENT["query"]] * count),
            "response": pd.array([EVENT["response"]] * count, dtype="string"),
            "expected": pd.Series([np.array(["1889"], dtype=object), None, float("nan")], dtype=object),
            "contexts": [np.array(EVENT["contexts"], dtype=object), EVENT["contexts"], []],
            "started_at": pd.to_datetime([EVENT["started_at"]] * 2 + [None], utc=True),
            "ended_at": [pd.Timestamp("2026-11-21T12:00:02+02:00"), np.datetime64("2026-11-21T10:00:02"), pd.NaT],
            "tenant": pd.array([None, "a", "b"], dtype="string"),
            "answerable": [True, None, np.nan],
            "something": [object(), timedelta(1), {1, 2}],
        }
    )
    first, second, third = table(ragweir.score_frame(frame))
    assert [row["rejected"] for row in (first, second, third)] == [None] * 3
    assert first["event_id"] == "1"
    assert first["total_latency_ms"] == second["total_latency_ms"] == 2_000
    assert (first["exact_match"], second["exact_match"]) == (ragweir.score(EVENT).scores["exact_match"], None)
    assert first["context_support"] == second["context_support"] == ragweir.score(EVENT).scores["context_support"]
    assert (first["flags"], third["flags"]) == (None, "time_defaulted")


def test_cells_of_polars_are_read() -> None:
    frame = pl.DataFrame(
        {
            "event_id": ["1", "2"],
            "query": pl.Series([EVENT["query"]] * 2, dtype=pl.Categorical),
            "response": [EVENT["response"]] * 2,
            "contexts": [["The Eiffel Tower opened in 1889."], None],
            "started_at": pl.Series([datetime(2026, 11, 21, 10, tzinfo=UTC), None]),
            "ended_at": pl.Series([datetime(2026, 11, 21, 10, 0, 2, tzinfo=UTC), None]),
            "wait": [timedelta(1), None],
        }
    )
    first, second = table(ragweir.score_frame(frame))
    assert (first["total_latency_ms"], second["total_latency_ms"]) == (2_000, None)
    assert (first["flags"], second["flags"]) == ("contexts_as_text", "time_defaulted")


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        ([EVENT], TypeError, "not a list"),
        (pd.Series([1]), TypeError, "not a Series"),
        (pl.DataFrame({"event_id": ["1"]}).lazy(), TypeError, "collect"),
        (pd.DataFrame([["1", "2"]], columns=["query", "query"]), ValueError, "query"),
        (pd.DataFrame([["1"]], columns=pd.MultiIndex.from_tuples([("query", "a")])), ValueError, "query"),
    ],
)
def test_what_is_no_frame_is_an_error(frame: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ragweir.score_frame(frame)


def test_a_column_that_json_cannot_hold_is_named() -> None:
    """Through a map any column may be read, so that none is left out in silence."""
    frame = pd.DataFrame([{**FOREIGN, "waited": timedelta(1)}])
    rejected = ragweir.score_frame(frame, map=RULES).loc[0, "rejected"]
    assert rejected.startswith("waited: it cannot be written as JSON")


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:no row could be scored")
@BOTH
@given(values=st.lists(st.one_of(st.none(), st.text(), st.floats(), st.booleans()), min_size=1, max_size=3))
def test_no_cell_ends_the_frame(make: Make, values: list[Any]) -> None:
    """A row whose cells are anything is scored or rejected."""
    frame = make({"event_id": pl.Series(values, dtype=pl.Object).to_list()}) if make is pd.DataFrame else None
    frame = frame if frame is not None else make({"event_id": [str(value) for value in values]})
    found = table(ragweir.score_frame(frame.assign(query="", response="") if make is pd.DataFrame else frame))
    assert len(found) == len(values)
    assert all((row["event_id"] is None) != (row["rejected"] is None) for row in found)


MEMORY = """
import sys, {library} as library
from pathlib import Path
import ragweir
def peak():
    # Not getrusage's, which begins with that of the parent.
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024
def made(rows):
    texts = {{"query": [""] * rows, "response": [""] * rows}}
    return library.DataFrame({{"event_id": [str(number) for number in range(rows)], **texts}})
frame = made(int(sys.argv[1]))
ragweir.score_frame(made(600))
before = peak()
scores = ragweir.score_frame(frame)
size = scores.memory_usage(deep=True).sum() if "{library}" == "pandas" else scores.estimated_size()
print(len(scores), peak() - before, int(size))
"""


@pytest.mark.heavy
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_takes_less_than_twice_the_memory_of_its_scores(library: str) -> None:
    """In a process of its own, whose peak is that of no other test."""
    rows, grown, size = map(int, isolated(MEMORY.format(library=library), "10000").split())
    assert rows == 10_000
    assert size > 4_000_000
    assert grown < 2 * size


# The catalogue and explanations.


def test_the_catalogue_is_a_mapping_that_describes_each_metric() -> None:
    catalogue = ragweir.catalogue()
    assert isinstance(catalogue, Mapping)
    assert isinstance(catalogue["context_support"], ragweir.Metric)
    assert {metric.cost for metric in catalogue.values()} == {"free", "local", "llm"}
    assert set(ragweir.score(EVENT).scores) <= set(catalogue)
    with pytest.raises(TypeError):
        catalogue["mine"] = catalogue["refusal"]  # type: ignore[index]


def test_an_explanation_has_the_values_reasons_and_evidence() -> None:
    explanation = ragweir.explain({**EVENT, "response": "It was opened in 1890."})
    evaluation = explanation.evaluation
    assert {name: each.value for name, each in explanation.items()} == evaluation.scores | evaluation.categories
    assert {name: each.reason for name, each in explanation.items() if each.reason} == evaluation.reasons
    assert {name: each.evidence for name, each in explanation.items() if each.evidence} == evaluation.evidence
    assert "1890" in explanation["context_support"].evidence
    assert list(explanation) == [name for name in ragweir.catalogue() if name in explanation]


@pytest.mark.slow
def test_an_explanation_reads_well_and_controls_nothing() -> None:
    """As text, and as HTML of a notebook, whatever the event holds."""
    explanation = ragweir.explain(
        {
            **EVENT,
            "event_id": "<b>\x1b[2J\u202e",
            "response": "Ada <b>Byron</b> \x1b[2J\u202e opened it in <i>1890</i>.",
        }
    )
    text, html = str(explanation), explanation._repr_html_()
    assert re.search(r"context_support  0(\.\d+)?  ratio, higher is better\n +Share of", text)
    assert "the event has no spans:" in text
    assert all(line.isprintable() and line == line.rstrip() for line in text.split("\n"))
    assert "<td>context_support</td>" in html
    assert any("<" in line for each in explanation.values() for line in each.evidence)
    assert "<b>" not in html
    assert "<i>" not in html
    assert [each for each in html if not each.isprintable() and each != "\n"] == []
    assert r"\x1b[2J\u202e" in html


def test_explaining_takes_one_event() -> None:
    with pytest.raises(TypeError, match="not a list"):
        ragweir.explain([EVENT])  # type: ignore[arg-type]
    with pytest.raises(Rejected):
        ragweir.explain(UNREADABLE)


# Comparisons.


def answers(shift: int) -> list[Event]:
    """Forty events of two tenants; the first `shift` answers are made up."""
    made_up = "Nobody remembers."
    return [
        {**EVENT, "event_id": str(number), "tenant": "ab"[number % 2]}
        | ({"response": made_up} if number < shift else {})
        for number in range(40)
    ]


def sides(shift: int, folder: Path) -> dict[str, Any]:
    """The same evaluations as a file, as an iterator and as frames of both libraries."""
    events = answers(shift)
    file = folder / f"{shift}.jsonl"
    file.write_bytes(b"".join(encode(scored(each)) + b"\n" for each in ragweir.score(events)))
    packed = folder / f"{shift}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    tenants = [each["tenant"] for each in events]
    return {
        "path": file,
        "text": str(packed),
        "iterator": ragweir.score([*events, UNREADABLE]),
        "pandas": ragweir.score_frame(pd.DataFrame([*events, {**UNREADABLE, "event_id": None}])).assign(
            tenant=[*tenants, None]
        ),
        "polars": ragweir.score_frame(pl.DataFrame(events)).with_columns(tenant=pl.Series(tenants)),
    }


@pytest.mark.heavy
def test_the_sides_may_be_files_evaluations_or_frames(tmp_path: Path) -> None:
    """Each gives the changes that `ragweir compare` finds."""
    a, b = sides(0, tmp_path), sides(20, tmp_path)
    report = tmp_path / "report.json"
    command("compare", a["path"], b["path"], "--by", "tenant", "--json", report)
    theirs = json.loads(report.read_bytes())["metrics"]
    for kind in a:
        found = ragweir.compare(a[kind], b[kind], by=["tenant"])
        ours = json.loads(orjson.dumps(found))["metrics"]
        assert found.pairs == 40
        assert [each for each in ours if each["whole"]["difference"]["pairs"]] == [
            each for each in theirs if each["whole"]["difference"]["pairs"]
        ], kind


@pytest.mark.slow
def test_a_comparison_reads_well_and_has_gates(tmp_path: Path) -> None:
    a, b = sides(0, tmp_path), sides(20, tmp_path)
    found = ragweir.compare(a["path"], b["iterator"])
    assert isinstance(found, ragweir.Comparison)
    lines = str(found).split("\n")
    assert lines[0] == f"40 events on both sides; 0 only in A ({a['path']}), 0 only in B (b)."
    assert re.search(r"^unsupported_sentences: 0 -> 0.5, .* on 40 events, worse$", str(found), re.MULTILINE)
    assert repr(found) == str(found)
    assert len(lines) < 20
    assert found.failures() == ()
    [failure] = found.failures("context_support -0.02", "total_latency_ms 200")
    assert failure.startswith("context_support changed by -")
    for wrong in ("context_support", "context_support 0.02", "no_metric -1"):
        with pytest.raises(ConfigurationError):
            found.failures(wrong)


def test_a_comparison_prints_no_control_characters(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[2J.jsonl"
    file.write_bytes(sides(0, tmp_path)["path"].read_bytes())
    assert "\x1b" not in str(ragweir.compare(file, file))


@pytest.mark.parametrize(
    ("a", "error"),
    [
        ("no/such/file", PermanentError),
        ("live", PermanentError),
        ([EVENT], TypeError),
        (7, TypeError),
        ([], PermanentError),
        (pd.DataFrame({"x": [1]}), ValueError),
    ],
)
def test_what_is_no_side_is_an_error(a: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ragweir.compare(a, a)
    with pytest.raises(ConfigurationError, match="colour"):
        ragweir.compare(a, a, by=["colour"])


@BOTH
def test_a_frame_of_which_no_row_is_scored_is_told_of_a_map(make: Any) -> None:
    frame = make({"question": ["Who?"], "answer": ["Ada."]})
    with pytest.warns(UserWarning, match="no row could be scored; try map=.*'query': 'question'") as warned:
        ragweir.score_frame(frame)
    rules = ast.literal_eval(str(warned[0].message).partition("map=")[2])
    assert ragweir.score_frame(frame, map=rules)["response_words"][0] == 1


@BOTH
@pytest.mark.filterwarnings("ignore:no row could be scored")
def test_a_row_without_any_of_our_fields_is_rejected(make: Any) -> None:
    scores = ragweir.score_frame(make({"a": [1, 2]}))
    assert [each.partition(":")[0] for each in scores["rejected"]] == ["event_id"] * 2


def test_a_foreign_event_names_the_argument_that_reads_it() -> None:
    """A program has no setting input.map: it is told of `map=`."""
    with pytest.raises(ragweir.Rejected, match=r'say where in a map \(map=\): event_id = "PATH"'):
        ragweir.score({"id": 1, "question": "Who?", "answer": "Ada."})
