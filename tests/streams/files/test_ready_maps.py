"""The ready maps, on exports that the products' own SDKs wrote (tests/exports/README.md has the calls)."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import orjson
import pytest

from ragweir.errors import ConfigurationError, Rejected
from ragweir.schemas.codec.decoder import JsonDecoder, Skipped
from ragweir.schemas.codec.ready_maps import PRODUCTS, READY_MAPS, ready_map
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.run import ReplayRequest
from ragweir.streams.analysis.replay.runs import result_affecting_settings
from ragweir.streams.files.events import read_events
from ragweir.streams.files.map_choice import OWN, choose
from ragweir.streams.services.shared.from_settings import map_text, read_map
from ragweir.streams.settings import load

EXPORTS = Path(__file__).parents[2] / "exports"
NINE = datetime(2026, 10, 1, 9, tzinfo=UTC)

COUNTS = {
    # file: interactions, skipped rows, those with contexts (if only empty ones), with a start, and with an end
    "ragas-0.4.3/answers.jsonl": (60, 0, 0, 0, 0),
    "ragas-0.4.3/dataset.jsonl": (60, 0, 60, 0, 0),
    "ragas-0.4.3/dataset.csv": (54, 6, 54, 0, 0),  # An empty cell is no response.
    "ragas-0.4.3/results.json": (60, 0, 60, 0, 0),
    "ragas-0.4.3/results.csv": (54, 6, 54, 0, 0),
    "ragas-0.4.3/results.parquet": (60, 0, 60, 0, 0),
    "langfuse-3.15.0/traces.jsonl": (58, 2, 23, 58, 0),
    "langfuse-3.15.0/traces.csv": (58, 2, 23, 58, 0),
    "langfuse-3.15.0/detailed.json.gz": (58, 2, 58, 58, 58),
    "langfuse-3.15.0/listed.jsonl.gz": (58, 2, 23, 58, 58),
    "langfuse-3.15.0/observations.jsonl": (0, 40, 0, 0, 0),
    "langfuse-5.0.4/roots.json.gz": (60, 0, 23, 60, 60),
    "langfuse-5.0.4/observations.jsonl.gz": (60, 120, 23, 60, 60),
    "langsmith-0.15.0/runs.jsonl.gz": (59, 1, 38, 59, 59),
    "langsmith-0.15.0/runs.csv.gz": (59, 1, 38, 59, 59),
    "langsmith-0.15.0/runs.parquet": (59, 1, 38, 59, 59),
    "langsmith-0.15.0/runs_and_children.json.gz": (20, 40, 13, 20, 20),
    "langsmith-0.15.0/traces.jsonl.gz": (10, 0, 10, 10, 10),
    "trulens-2.16.0/records.jsonl.gz": (60, 0, 30, 60, 60),
    "trulens-2.16.0/records.csv.gz": (58, 2, 30, 58, 58),
    "trulens-2.16.0/records.parquet": (60, 0, 0, 60, 60),
    "trulens-2.16.0/record_models.jsonl.gz": (60, 0, 0, 60, 60),
    "trulens-2.16.0/events.json.gz": (60, 210, 0, 60, 60),
    "deepeval-4.3.1/cases.jsonl.gz": (58, 2, 52, 0, 0),
    "deepeval-4.3.1/dataset.json.gz": (58, 2, 52, 0, 0),
    "deepeval-4.3.1/dataset.jsonl.gz": (58, 2, 52, 0, 0),
    "deepeval-4.3.1/dataset.csv": (58, 2, 52, 0, 0),
    "deepeval-4.3.1/results.json": (58, 2, 52, 0, 0),
    "deepeval-4.3.1/test_run.jsonl": (38, 2, 34, 0, 0),
}


def rows(file: Path) -> list[bytes]:
    """The rows of a file as JSON."""
    return [row for _, row in read_events(file, 1_000_000)]


@cache
def results(name: str) -> list[Interaction | Rejected | Skipped]:
    """What the ready map makes of each row of a file."""
    decoder = JsonDecoder(mapping=read_map(Path(name.partition("-")[0])))
    return [each for number, row in enumerate(rows(EXPORTS / name), 1) for each in decoder.decode(row, number)]


def interactions(name: str) -> dict[str, Interaction]:
    """The interactions of a file by what they ask about: a country or an element."""
    found = [each for each in results(name) if isinstance(each, Interaction)]
    return {re.findall(r"\w+", each.query.removesuffix(',"language":"en"}'))[-1]: each for each in found}


def test_every_fixture_is_tested() -> None:
    """The table names each file that an SDK wrote, and each map has one."""
    files = {str(file.relative_to(EXPORTS)) for file in EXPORTS.glob("*-*/*")}
    assert files == COUNTS.keys()
    assert {name.partition("-")[0] for name in COUNTS} == set(READY_MAPS)


@pytest.mark.parametrize("name", COUNTS)
def test_a_whole_export_is_read_or_skipped(name: str) -> None:
    """No row is rejected or repaired, ids differ, and texts are read where they are."""
    every = results(name)
    assert [each for each in every if isinstance(each, Rejected)] == []
    read = [each for each in every if isinstance(each, Interaction)]
    skipped = len(every) - len(read)
    contexts = sum(each.contexts is not None for each in read)
    starts, ends = (sum(each is not None for each in column) for column in _times(read))
    assert (len(read), skipped, contexts, starts, ends) == COUNTS[name]
    assert [each.flags for each in read if each.flags] == []
    assert len({each.event_id for each in read}) == len(read)
    for each in read:
        assert all(context.text and not context.text.startswith(("{", "['")) for context in each.contexts or ())


def _times(read: list[Interaction]) -> tuple[list[datetime | None], list[datetime | None]]:
    return [each.started_at for each in read], [each.ended_at for each in read]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, _, contexts, _, _) in COUNTS.items() if contexts])
def test_contexts_are_those_that_were_retrieved(name: str) -> None:
    """An answered question has its two contexts, in their order, with their quotes and line ends."""
    country = "Austria"
    if name.startswith(
        "langfuse"
    ):  # Its outputs hold contexts only in some forms; the detailed traces have retrievers.
        country = "Chile" if "detailed" in name else "Belgium"
    found = interactions(name)[country]
    assert found.contexts is not None
    texts = [context.text for context in found.contexts]
    assert len(texts) == 2
    assert re.fullmatch(r"\w+ is the capital of \w+\.", texts[0])
    assert re.match(r'\w+ calls its seat of government "\w+"; its people voted there in the last election\.$', texts[1])


QUESTIONS = {
    # file: the question and the answer in each form of inputs and outputs that integrations write
    "langsmith-0.15.0/runs.jsonl.gz": 6,
    "langsmith-0.15.0/runs.csv.gz": 6,
    "langsmith-0.15.0/runs.parquet": 6,
    "langfuse-3.15.0/traces.jsonl": 7,
    "langfuse-3.15.0/traces.csv": 7,
    "langfuse-5.0.4/roots.json.gz": 7,
}
COUNTRIES = "Austria Belgium Bulgaria Chile Croatia Cuba Cyprus Denmark".split()


@pytest.mark.parametrize(("name", "forms"), QUESTIONS.items())
def test_each_form_of_inputs_gives_the_question(name: str, forms: int) -> None:
    """Plain texts, objects, messages of APIs and of LangChain, and arguments are all read as the plain text."""
    of = interactions(name)
    for country in COUNTRIES[:forms]:
        assert of[country].query == f"What is the capital of {country}?"
        assert re.fullmatch(r"The capital is \w+\.", of[country].response)


@pytest.mark.parametrize("name", ["langfuse-3.15.0/traces.jsonl", "langfuse-3.15.0/traces.csv"])
def test_a_form_that_nobody_foresaw_is_kept_as_json(name: str) -> None:
    """Inputs and outputs of an application's own form are not lost: their JSON is the text."""
    (query, response) = next(
        (each.query, each.response) for each in interactions(name).values() if each.query.startswith("{")
    )
    assert orjson.loads(query) == {"city_or_element": "Denmark"}
    assert orjson.loads(response) == {"value": "The capital is Copenhagen.", "certain": True}


def test_failed_runs_are_answers_without_text() -> None:
    """A run that failed has its error and an empty response; one that has not ended is skipped."""
    of = interactions("langsmith-0.15.0/runs.jsonl.gz")
    failed = [each for each in of.values() if each.error]
    assert [(each.response, each.error) for each in failed] == [("", "TimeoutError('the model did not answer')")] * 2
    assert [each.response for each in interactions("langfuse-5.0.4/roots.json.gz").values() if each.error] == ["", ""]


def test_times_and_usage_are_those_of_the_run() -> None:
    """Times, tokens, costs, model, session and trace are where ragweir expects them."""
    read = interactions("langsmith-0.15.0/runs.jsonl.gz")["Belgium"]
    assert read.started_at == NINE + timedelta(minutes=1)
    assert read.ended_at == NINE + timedelta(minutes=1, seconds=0.9)
    assert read.first_token_at == NINE + timedelta(minutes=1, seconds=0.325)
    assert read.usage
    assert (read.usage.input_tokens, read.usage.output_tokens, read.usage.cost_usd) == (121, 9, 0.00042)
    assert (read.model, read.session_id, read.pipeline_version) == ("gpt-4o", "thread-0", "v12")
    assert read.contexts
    assert [context.document_id for context in read.contexts] == ["atlas.txt"] * 2
    table = interactions("langsmith-0.15.0/runs.csv.gz")["Belgium"]
    assert table == read
    assert interactions("langsmith-0.15.0/runs.parquet")["Belgium"] == read
    trace = interactions("langfuse-5.0.4/roots.json.gz")["Belgium"]
    assert (trace.started_at, trace.ended_at) == (read.started_at, read.ended_at)
    assert (trace.environment, trace.session_id, trace.pipeline_version) == ("production", "session-0", "2026.10")
    record = interactions("trulens-2.16.0/records.csv.gz")["Belgium"]
    assert (record.started_at, record.ended_at) == (read.started_at, read.ended_at)


@pytest.mark.parametrize("name", ["langfuse-3.15.0/detailed.json.gz", "langsmith-0.15.0/traces.jsonl.gz"])
def test_steps_within_a_trace_are_its_spans(name: str) -> None:
    """A trace that holds its steps gives them with their kinds and times, and the documents that were retrieved."""
    read = interactions(name)["Croatia"]
    begin, end = NINE + timedelta(minutes=4), NINE + timedelta(minutes=4, seconds=1.2)
    assert (read.started_at, read.ended_at) == (begin, end)
    middle = begin + (end - begin) / 4
    steps = [(span.kind, span.started_at, span.ended_at) for span in read.spans or ()]
    assert steps == [("retrieval", begin, middle), ("llm", middle, end)]
    assert [context.text.partition(" ")[0] for context in read.contexts or ()] == ["Zagreb", "Croatia"]


def test_all_formats_of_an_export_give_the_same() -> None:
    """The same samples as JSONL, CSV, JSON and Parquet are the same interactions, but for what a table cannot tell."""
    for files in (
        ["ragas-0.4.3/dataset.jsonl", "ragas-0.4.3/results.json", "ragas-0.4.3/results.parquet"],
        ["ragas-0.4.3/dataset.csv", "ragas-0.4.3/results.csv"],
        ["langfuse-3.15.0/traces.jsonl", "langfuse-3.15.0/traces.csv"],
    ):
        first, *others = map(interactions, files)
        assert all(other == first for other in others), files
    json, table = (interactions(f"deepeval-4.3.1/dataset.{kind}") for kind in ("json.gz", "csv"))
    assert {key: each.contexts for key, each in json.items()} == {key: each.contexts for key, each in table.items()}


def test_a_source_within_a_context_is_not_its_text() -> None:
    """DeepEval writes the source of a context into its text; the text alone is read."""
    (context, _) = interactions("deepeval-4.3.1/dataset.csv")["Denmark"].contexts or (None, None)
    assert context
    assert context.text == "Copenhagen is the capital of Denmark."


TRACE = {"id": "t", "timestamp": "2026-10-01T09:00:00Z", "sessionId": "s", "input": "Who?", "output": "Ada."}
RUN = {"id": "r", "run_type": "chain", "trace_id": "r", "inputs": {"question": "Who?"}, "outputs": {"answer": "Ada."}}
RECORD = {"record_id": "r", "app_id": "a", "input": "Who?", "output": "Ada."}
ODD: tuple[tuple[str, dict[str, object]], ...] = (
    ("langfuse", TRACE | {"observations": ["a", "b"]}),
    ("langfuse", TRACE | {"observations": []}),
    ("langfuse", TRACE | {"observations": 3}),
    ("langfuse", TRACE | {"observations": "[1]"}),
    ("langfuse", TRACE | {"observations": [{"type": "SPAN", "output": None}]}),
    ("langsmith", RUN | {"child_runs": "[{'id': UUID('x'), 'start_time': datetime.datetime(2026, 1, 1, tzinfo=x)}]"}),
    ("trulens", RECORD | {"Context Relevance_calls": "[{'args': <object>}]"}),
    ("ragas", {"user_input": "Who?", "response": "Ada.", "retrieved_context_ids": "x"}),
    ("deepeval", {"input": "Who?", "actual_output": "Ada.", "retrieval_context": None}),
)


@pytest.mark.parametrize(("name", "event"), ODD)
def test_odd_values_cost_no_event_and_claim_nothing(name: str, event: dict[str, object]) -> None:
    """Where the steps or documents of an export have a form that cannot be read, they are absent, and not empty."""
    (read,) = JsonDecoder(mapping=read_map(Path(name))).decode(orjson.dumps(event))
    assert isinstance(read, Interaction), read
    assert (read.query, read.response, read.contexts) == ("Who?", "Ada.", None)


DOCUMENTED = {
    "id": "o-1",
    "trace_id": "t-1",
    "project_id": "p",
    "parent_observation_id": "",
    "type": "SPAN",
    "start_time": "2026-10-01 09:00:00.000000",
    "end_time": "2026-10-01 09:00:01.500000",
    "status_message": "",
    "session_id": "s",
    "usage_details": {"input": 5, "output": 2},
    "input": '{"question": "Who?"}',
    "output": '{"answer": "Ada.", "contexts": ["Ada wrote it."]}',
}


def test_a_scheduled_export_of_langfuse_is_read_as_documented() -> None:
    """No SDK writes these files: the row has the names and empty texts of their documentation."""
    decoder = JsonDecoder(mapping=read_map(Path("langfuse")))
    others = [{"parent_observation_id": "o-1"}, {"output": ""}, {"input": ""}]
    (read, *skipped) = (each for change in [{}, *others] for each in decoder.decode(orjson.dumps(DOCUMENTED | change)))
    assert isinstance(read, Interaction)
    assert (read.query, read.response, read.error) == ("Who?", "Ada.", None)
    assert [context.text for context in read.contexts or ()] == ["Ada wrote it."]
    assert (read.started_at, read.ended_at) == (NINE, NINE + timedelta(seconds=1.5))
    assert read.usage
    assert (read.usage.input_tokens, read.session_id) == (5, "s")
    assert [type(each) for each in skipped] == [Skipped] * 3
    assert choose([DOCUMENTED]).ready == "langfuse"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, counts in COUNTS.items() if counts[0]])
def test_an_export_is_recognised(name: str) -> None:
    """`tap` names the map of an export."""
    chosen = choose([orjson.loads(row) for row in rows(EXPORTS / name)])
    assert chosen.ready == name.partition("-")[0]
    assert chosen.product == PRODUCTS[chosen.ready]


def test_one_rejected_event_is_enough_to_name_no_ready_map() -> None:
    """A ready map is named only if it rejects nothing: that of a similar export would lose events."""
    good = {"user_input": "Who?", "response": "Ada."}
    assert choose([good] * 3).ready == "ragas"
    assert not choose([good, good, {"user_input": "Who?", "response": ["Ada."]}]).ready


@pytest.mark.parametrize(
    "event",
    [
        {"id": 1, "input": "Who?", "output": "Ada."},
        {"input": "Who?", "actual_output": None},
        {"user_input": "Who?", "response": ["Ada."]},
        {"inputs": "Who?", "run_type": "chain", "trace_id": 1},
    ],
)
def test_what_no_ready_map_reads_wholly_is_not_recognised(event: dict[str, object]) -> None:
    """A few names in common make no export, nor do events that the map rejects or skips."""
    chosen = choose([event])
    assert chosen is not OWN
    assert not chosen.ready


def test_a_ready_map_is_part_of_what_a_replay_depends_on() -> None:
    """A run is resumed only with the same map: of a ready map the text counts, which another release may change."""
    settings = load(None, {"input": {"topic": "theirs", "map": "langfuse"}})
    affecting = result_affecting_settings(settings, ReplayRequest())
    assert affecting["input"]["map"] == ready_map("langfuse")


def test_a_name_is_a_ready_map_and_a_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file hides no ready map; another name is a file, and a wrong one gets the names there are."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o700)
    text = 'event_id = "a"\nquery = "a"\nresponse = "a"\n'
    for name in ("ragas", "ragas.toml", "mine"):
        Path(name).write_text(text, encoding="utf-8")
    assert map_text(Path("ragas")) != text
    assert map_text(Path("ragas.toml")) == map_text(Path("mine")) == text
    with pytest.raises(ConfigurationError, match=r"^there is no map Langfuse; the ready maps are ragas, langfuse, "):
        read_map(Path("Langfuse"))
    with pytest.raises(ConfigurationError, match=r"^there is no map langfuse.toml$"):
        read_map(Path("langfuse.toml"))
