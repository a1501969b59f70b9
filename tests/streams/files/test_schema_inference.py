"""Proposals of maps: what is recognised of the shapes that are common, and that no sample gives a broken map."""

import json
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.json import interaction
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.ready_maps import SIGNATURES
from ragweir.schemas.interaction import Interaction
from ragweir.streams.files.map_choice import OWN, choose, named_map, unread
from ragweir.streams.files.schema_inference import (
    FIELDS,
    LIST_FIELDS,
    REQUIRED,
    columns,
    innermost,
    path_text,
    propose,
    written,
)

DATA = Path(__file__).parents[4] / "shared" / "data"
TIME = "2026-11-21T10:00:00Z"


def several(event: dict[str, Any], *ids: str) -> list[dict[str, Any]]:
    """Four events of this shape, whose ids at these top-level names differ."""
    return [event | {name: f"{event[name]}-{number}" for name in ids} for number in range(4)]


RAGAS = {
    "user_input": "Who?",
    "response": "Ada.",
    "retrieved_contexts": ["Ada wrote it.", "It was in 1843."],
    "reference_contexts": ["Ada wrote it."],
    "reference": "Ada Lovelace.",
}
LANGSMITH = {
    "id": "run",
    "trace_id": "trace",
    "name": "RetrievalQA",
    "run_type": "chain",
    "start_time": TIME,
    "end_time": TIME,
    "inputs": {"question": "Who?"},
    "outputs": {
        "answer": "Ada.",
        "context": [{"page_content": "Ada wrote it.", "metadata": {"source": "notes.txt", "page": 3}}],
    },
    "total_cost": 0.01,
    "prompt_tokens": 10,
    "completion_tokens": 2,
}
LANGFUSE = {
    "id": "trace",
    "timestamp": TIME,
    "name": "rag",
    "userId": "u",
    "sessionId": "s",
    "release": "v1",
    "environment": "prod",
    "input": "Who?",
    "output": "Ada.",
    "metadata": {"model": "m", "contexts": ["Ada wrote it."]},
}
OPENINFERENCE = {
    "name": "RetrievalQA",
    "context": {"trace_id": "t"},
    "span_id": "span",
    "start_time": TIME,
    "end_time": TIME,
    "attributes": {
        "openinference.span.kind": "CHAIN",
        "input.value": "Who?",
        "output.value": "Ada.",
        "llm.model_name": "m",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 2,
        "session.id": "s",
        "retrieval.documents": [{"document.id": "d1", "document.content": "Ada wrote it.", "document.score": 0.8}],
    },
}
PHOENIX = {
    "span_id": "span",
    "attributes": {
        "input": {"value": "Who?"},
        "output": {"value": "Ada."},
        "session": {"id": "s"},
        "retrieval": {"documents": [{"document": {"id": "d1", "content": "Ada wrote it.", "score": 0.8}}]},
    },
}
OTEL_GENAI = {
    "traceId": "t",
    "spanId": "span",
    "attributes": {
        "gen_ai.prompt": "Who?",
        "gen_ai.completion": "Ada.",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.conversation.id": "c",
    },
}
DEEPEVAL = {
    "id": 7,
    "input": "Who?",
    "actual_output": "Ada.",
    "expected_output": "Ada Lovelace.",
    "context": ["Ada."],
    "retrieval_context": ["Ada wrote it."],
}
OPENAI = {
    "id": "chatcmpl",
    "created": 1_764_000_000,
    "request": {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}]},
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Ada."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
}
CAMEL_CASE = {
    "requestId": "r",
    "userQuery": "Who?",
    "generation": {"actualOutput": "Ada.", "modelName": "m"},
    "retrievedContexts": [{"chunkId": "c1", "docId": 3, "text": "Ada wrote it.", "score": 1, "distance": 0.1}],
    "createdAt": 1_764_000_000_000,
    "groundTruth": ["Ada.", "Lovelace"],
    "customerId": 5,
}
ENVELOPE = {
    "specversion": "1.0",
    "id": "e",
    "time": TIME,
    "data": {"question": "Who?", "answer": "Ada.", "documents": [{"id": 1, "body": "Ada wrote it."}]},
}
NOTHING_KNOWN = {"a": 1, "b": {"c": "text"}, "d": [1, 2]}

SHAPES: dict[str, tuple[list[Any], dict[str, object]]] = {
    "ragas": (
        several(RAGAS),
        {
            "event_id": {"hash": ["user_input", "response"]},
            "query": "user_input",
            "response": "response",
            "expected": "reference",
            "contexts[].text": "retrieved_contexts[]",
        },
    ),
    "LangSmith": (
        several(LANGSMITH, "id", "trace_id"),
        {
            "event_id": "id",
            "query": "inputs.question",
            "response": "outputs.answer",
            "started_at": "start_time",
            "ended_at": "end_time",
            "trace_id": "trace_id",
            "usage.input_tokens": "prompt_tokens",
            "usage.output_tokens": "completion_tokens",
            "usage.cost_usd": "total_cost",
            "contexts[].text": "outputs.context[].page_content",
            "contexts[].document_id": "outputs.context[].metadata.source",
            "contexts[].page": "outputs.context[].metadata.page",
        },
    ),
    "Langfuse": (
        several(LANGFUSE, "id"),
        {
            "event_id": "id",
            "query": "input",
            "response": "output",
            "ended_at": "timestamp",
            "environment": "environment",
            "pipeline_version": "release",
            "model": "metadata.model",
            "session_id": "sessionId",
            "contexts[].text": "metadata.contexts[]",
        },
    ),
    "OpenInference": (
        several(OPENINFERENCE, "span_id"),
        {
            "event_id": "span_id",
            "query": 'attributes."input.value"',
            "response": 'attributes."output.value"',
            "started_at": "start_time",
            "ended_at": "end_time",
            "model": 'attributes."llm.model_name"',
            "session_id": 'attributes."session.id"',
            "trace_id": "context.trace_id",
            "span_id": "span_id",
            "usage.input_tokens": 'attributes."llm.token_count.prompt"',
            "usage.output_tokens": 'attributes."llm.token_count.completion"',
            "contexts[].text": 'attributes."retrieval.documents"[]."document.content"',
            "contexts[].document_id": 'attributes."retrieval.documents"[]."document.id"',
            "contexts[].score": 'attributes."retrieval.documents"[]."document.score"',
        },
    ),
    "Phoenix, nested": (
        several(PHOENIX, "span_id"),
        {
            "event_id": "span_id",
            "query": "attributes.input.value",
            "response": "attributes.output.value",
            "session_id": "attributes.session.id",
            "span_id": "span_id",
            "contexts[].text": "attributes.retrieval.documents[].document.content",
            "contexts[].document_id": "attributes.retrieval.documents[].document.id",
            "contexts[].score": "attributes.retrieval.documents[].document.score",
        },
    ),
    "OpenTelemetry GenAI": (
        several(OTEL_GENAI, "spanId"),
        {
            "event_id": "spanId",
            "query": 'attributes."gen_ai.prompt"',
            "response": 'attributes."gen_ai.completion"',
            "model": 'attributes."gen_ai.request.model"',
            "session_id": 'attributes."gen_ai.conversation.id"',
            "trace_id": "traceId",
            "span_id": "spanId",
            "usage.input_tokens": 'attributes."gen_ai.usage.input_tokens"',
            "usage.output_tokens": 'attributes."gen_ai.usage.output_tokens"',
        },
    ),
    "DeepEval": (
        [DEEPEVAL | {"id": number} for number in range(4)],
        {
            "event_id": "id",
            "query": "input",
            "response": "actual_output",
            "expected": "expected_output",
            "contexts[].text": "retrieval_context[]",
        },
    ),
    "OpenAI": (
        several(OPENAI, "id"),
        {
            "event_id": "id",
            "query": "request.messages[-1].content",
            "response": "choices[0].message.content",
            "model": "model",
            "finish_reason": "choices[0].finish_reason",
            "usage.input_tokens": "usage.prompt_tokens",
            "usage.output_tokens": "usage.completion_tokens",
        },
    ),
    "camel case": (
        several(CAMEL_CASE, "requestId"),
        {
            "event_id": "requestId",
            "query": "userQuery",
            "response": "generation.actualOutput",
            "expected": "groundTruth",
            "started_at": "createdAt",
            "tenant": "customerId",
            "model": "generation.modelName",
            "contexts[].text": "retrievedContexts[].text",
            "contexts[].chunk_id": "retrievedContexts[].chunkId",
            "contexts[].document_id": "retrievedContexts[].docId",
            "contexts[].score": "retrievedContexts[].score",
        },
    ),
    "an envelope": (
        several(ENVELOPE, "id"),
        {
            "event_id": "id",
            "query": "data.question",
            "response": "data.answer",
            "ended_at": "time",
            "contexts[].text": "data.documents[].body",
            "contexts[].chunk_id": "data.documents[].id",
        },
    ),
    "nothing known": (several(NOTHING_KNOWN), {}),
    "no objects": ([1, None, "question", [], [{"question": "Who?"}], True], {}),
    "no events": ([], {}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_known_shape_gives_its_map(name: str) -> None:
    """Of the shapes that are common, the proposal has exactly these rules, and what it reads is an interaction."""
    events, expected = SHAPES[name]
    rules = propose(events)
    assert rules == expected
    if set(REQUIRED) <= rules.keys():
        for event in events:
            read = interaction(FieldMap(rules)(event))
            assert (read.query, read.response) == ("Who?", "Ada.")
            assert read.contexts is None or read.contexts[0].text.startswith("Ada wrote")


def rows(name: str) -> list[Any]:
    file = DATA / name
    if not file.exists():
        pytest.skip(f"{name} is not here")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_mtrag_rows_are_told_apart_by_two_fields() -> None:
    """Several models answered each task, so that the id is the task's and the model's, and every row is read."""
    events = rows("mtrag.jsonl")
    rules = propose(events)
    assert rules == {
        "event_id": ["task_id", "model"],
        "query": "question",
        "response": "response",
        "model": "model",
        "contexts[].text": "contexts[].text",
        "contexts[].document_id": "contexts[].document_id",
    }
    read = [interaction(FieldMap(rules)(event)) for event in events]
    assert len({each.event_id for each in read}) == len(events)


def test_begin_rows_lack_an_id() -> None:
    """Rows without any id get a hash of their texts: no text stands in for one, and one text is no list of contexts."""
    rules = propose(rows("begin.jsonl"))
    assert rules == {
        "event_id": {"hash": ["message", "response"]},
        "query": "message",
        "response": "response",
        "model": "model_name",
    }
    assert written(rules).startswith('event_id = { hash = ["message", "response"] }\n')


IDENTITIES: dict[str, tuple[list[dict[str, Any]], object]] = {
    "usual before others": ([{"user_id": f"u{n}", "id": n} for n in range(10)], "id"),
    "any id that differs": ([{"id": "same", "call_uuid": f"u{n}"} for n in range(10)], "call_uuid"),
    "redelivered events": ([{"id": n // 2 if n < 2 else n, "run": n} for n in range(20)], "id"),
    "lacking in some": ([{"id": n} if n % 3 else {} for n in range(30)], "id"),
    "id with a turn": ([{"chat_id": n // 2, "turn": n % 2} for n in range(10)], ["chat_id", "turn"]),
    "id with a time": (
        [{"chat_id": n // 3, "turn": 0, "ts": f"2026-11-21T10:00:0{n}Z"} for n in range(10)],
        ["chat_id", "ts"],
    ),
    "a turn rather than a time": (
        [{"ts": f"2026-11-21T10:00:0{n}Z", "chat_id": n // 2, "turn": n % 2} for n in range(10)],
        ["chat_id", "turn"],
    ),
    "a stranger among them": (
        [{"chat_id": n // 2, "turn": n % 2} if n else {"a": 1} for n in range(20)],
        ["chat_id", "turn"],
    ),
    "no better one": ([{"id": "same", "n": 1} for n in range(10)], "id"),
    "no texts": ([{"doc_id": "same", "q": f"Who is {n}?"} for n in range(10)], None),
    "no ids by chance": ([{"paid": n, "valid": n, "grid": n} for n in range(10)], None),
    "booleans and fractions": ([{"id": n / 7, "request_id": True} for n in range(10)], None),
    "too long": ([{"id": f"{n}" * 201} for n in range(10)], None),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_event_id_differs_from_event_to_event(name: str) -> None:
    """The identity is an id that hardly repeats, or one with something short that tells its events apart."""
    events, expected = IDENTITIES[name]
    assert propose(events).get("event_id") == expected


TYPES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "query is no text": ({"query": {"text": "Who?"}}, set()),
    "query is another": ({"query": 5, "question": "Who?"}, {"question"}),
    "seconds are a time": ({"timestamp": 1_764_000_000.5}, {"timestamp"}),
    "milliseconds are": ({"timestamp": 1_764_000_000_500}, {"timestamp"}),
    "nanoseconds as text are": ({"timestamp": "1764000000500000000"}, {"timestamp"}),
    "a duration is no time": ({"timestamp": 4_230}, set()),
    "nor is what lies beyond 2099": ({"timestamp": 1_764_000_000_50}, set()),
    "below a key that is an id": ({"raters": {"46542882": {"timestamp": 1_764_000_000}}}, set()),
    "contexts are one text": ({"context": "Ada wrote it."}, set()),
    "contexts without texts": ({"contexts": [{"chunk_id": "c1"}]}, set()),
    "a distance is no score": ({"docs": [{"text": "Ada.", "distance": 0.2}]}, {"docs[].text"}),
    "a boolean is no number": ({"rating": True, "cost": False}, set()),
    "an id below another name": ({"user": {"id": "u"}}, {"user.id"}),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_name_needs_the_right_type(name: str) -> None:
    """A path is proposed only where what it leads to can be read as our field."""
    event, expected = TYPES[name]
    assert {str(path) for path in propose([event]).values()} == expected


def test_what_few_events_have_is_left_out() -> None:
    """A field is proposed when half of the events have it, null being absent; what is no event does not count."""
    events: list[Any] = [{"model": "m"} if n < 4 else {"tenant": "t", "model": None} for n in range(10)]
    assert propose([*events, *range(50)]) == {"tenant": "tenant"}


def test_texts_in_several_places_are_alternatives() -> None:
    """Where some events lack the best path to a question, the next ones follow it; rare ones are left out."""
    events: list[Any] = [{"question": "Who?"} if n < 40 else {"prompt": "Who?", "question": None} for n in range(100)]
    assert propose(events) == {"query": {"first": ["prompt", "question"]}}
    assert propose([*events[40:], {"question": "Who?"}]) == {"query": "prompt"}
    both = [{"question": "Who?", "prompt": "Answer: Who?"}] * 10
    assert propose(both) == {"query": "question"}


TIMES_TOO = {"question": "Who?", "answer": "Ada.", "ts": TIME}


def test_a_hash_tells_the_same_question_at_other_times_apart() -> None:
    """Events without an id but with a time are identified with it, since users ask the same again."""
    rules = propose([TIMES_TOO, TIMES_TOO])
    assert rules["event_id"] == {"hash": ["question", "answer", "ts"]}
    ids = [FieldMap(rules)(TIMES_TOO | {"ts": time}) for time in (1, 2, 1)]
    assert len({each["event_id"] for each in ids if each}) == 2


CELLS: dict[str, tuple[list[str], str | None]] = {
    "JSON": (['[{"text": "x"}]', "[]"], "json"),
    "pandas": (["[{'text': 'it\\'s', 'a': None}]", "[]"], "python"),
    "both": (['[{"text": "x", "a": true}]', "[{'text': None}]"], "any"),
    "text": (["[1] says so.", "[roughly]", "text"], None),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_of_tables_are_parsed(name: str) -> None:
    """Columns that hold lists as text are proposed with the parser that reads them."""
    cells, kind = CELLS[name]
    rules = propose(
        [{"id": f"{n}", "question": "Who?", "answer": "Ada.", "docs": cell} for n, cell in enumerate(cells)]
    )
    rule = {"path": "docs", "parse": kind, "then": "[].text"}
    assert rules.get("contexts[].text") == (rule if kind else None)
    assert tomllib.loads(written(rules)) == rules
    FieldMap(rules)


def test_numbers_of_tables_are_proposed_as_text() -> None:
    """A table's numbers are text, and count as the numbers that they are."""
    rules = propose([{"prompt_tokens": "12", "cost": "1.5e-3", "completion_tokens": "many"}])
    assert rules == {"usage.input_tokens": "prompt_tokens", "usage.cost_usd": "cost"}


def test_contexts_of_one_event_are_enough() -> None:
    """Contexts are proposed even when only one event has any, since others may have found nothing."""
    events: list[Any] = [{"docs": []}] * 20 + [{"docs": [{"text": "Ada."}]}]
    assert propose(events) == {"contexts[].text": "docs[].text"}


@pytest.mark.slow
def test_keys_that_are_data_do_not_hide_the_shape() -> None:
    """Thousands of distinct keys, beside the fields or below them, leave the fields to be found."""
    events = [
        {"scores": {f"k{event}-{key}": key for key in range(10_000)}, "id": event, "question": "Who?", "answer": "Ada."}
        for event in range(30)
    ]
    assert propose(events) == {"event_id": "id", "query": "question", "response": "answer"}
    assert len(columns(events)) <= 1_000
    assert innermost(events) == ['"id"', '"question"', '"answer"']


def test_depth_is_bounded() -> None:
    """What lies very deep is not found, and does no harm."""
    deep: dict[str, Any] = {"question": "Who?"}
    for _ in range(900):
        deep = {"a": deep}
    lists: Any = "x"
    for _ in range(900):
        lists = [lists]
    assert propose([deep | {"docs": lists}]) == {}


HOSTILE = (
    "a.b",
    "a[0]",
    "[]",
    "[",
    'q"x',
    "'",
    "a'b.c",
    "\n",
    "\r\n",
    "\t",
    "\x7f",
    "\x1b[31m",
    "\\",
    "\\u0041",
    " ",
    "",
)
"""Names that a map has to quote, TOML has to escape, or neither can write."""


@pytest.mark.parametrize(
    "name", [*HOSTILE, "\u202e", "\x9b", "\ufeff", "\u2028", "größe", "質問", "\U0001f309", "#", "="]
)
def test_hostile_names_are_written_or_left_out(name: str) -> None:
    """A path through any name reads from TOML as it was, leads a map to the value, and holds nothing unprintable."""
    event = {name: {"uuid": 7, "question": "Who?", "answer": "Ada."}, "docs": [{name: {"text": "Ada."}}]}
    rules = propose([event, event])
    toml = written(rules)
    assert tomllib.loads(toml) == rules
    assert toml.replace("\n", "").isprintable()
    assert all(path.isprintable() for path in innermost([event]))
    if name and '"' not in name and name != "[]":
        assert set(rules) == {*REQUIRED, "contexts[].text"}
        read = FieldMap(rules)(event)
        assert (read["query"], read["response"]) == ("Who?", "Ada.")
        assert read["contexts"] == [{"text": "Ada."}]
    else:
        assert rules == {}


USUAL = [name for _, _, names in (*FIELDS, *LIST_FIELDS) for name in names.split()]
NAMES = st.one_of(
    st.sampled_from(USUAL), st.sampled_from([*HOSTILE, "contexts", "docs", "choices"]), st.text(max_size=4)
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["Who?", TIME, 1_764_000_000_000]),
)
JSON = st.recursive(
    VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=6)),
    max_leaves=12,
)
EVENTS = st.lists(st.one_of(JSON, st.dictionaries(NAMES, JSON, max_size=8)), max_size=5)


@pytest.mark.heavy
@given(EVENTS)
@example([{"id": 2**64 - 1, "query": "Who?", "response": "", "contexts": [[{"text": "x"}]], "docs": "no list"}])
def test_a_proposal_is_never_broken(events: list[Any]) -> None:
    """For any events the proposal is TOML of the same rules; a complete one is a map, and only ever rejects events."""
    rules = propose(events)
    assert tomllib.loads(written(rules)) == rules
    if not set(REQUIRED) <= rules.keys():
        with pytest.raises(MapError, match="the map must name"):
            FieldMap(rules)
        return
    field_map = FieldMap(rules)
    for event in events:
        with suppress(Rejected):
            interaction(field_map(event))


SIGNED = st.sampled_from([dict.fromkeys(names) for every in SIGNATURES.values() for names in every])


@pytest.mark.heavy
@given(st.lists(st.builds(lambda names, event: names | event, SIGNED, st.dictionaries(NAMES, JSON)), max_size=5))
def test_the_choice_of_a_map_raises_nothing(events: list[Any]) -> None:
    """Events that look like a product's exports but hold anything get a map, or a proposal, and their unread paths."""
    chosen = choose(events)
    unread(chosen, events)
    if chosen.is_complete and chosen is not OWN:
        FieldMap.parse(chosen.toml)


@given(
    st.lists(st.one_of(NAMES.filter(lambda name: name and '"' not in name and name != "[]"), st.just(0)), min_size=1)
)
def test_a_path_leads_where_it_was_found(steps: Sequence[str | int]) -> None:
    """Any path is spelled as the map's grammar reads it."""
    event: Any = "found"
    for step in reversed(steps):
        event = [event] if isinstance(step, int) else {step: event}
    rules = {"event_id": "x", "query": "y", "response": "z", "tenant": path_text(tuple(steps))}
    assert FieldMap(rules)({"root": event} if steps[0] == 0 else event).get("tenant") == ("found" if steps[0] else None)


def test_an_incomplete_map_says_what_it_lacks() -> None:
    """Each required field that was not found stands as a comment, before the rules."""
    assert written({"query": "q"}).splitlines() == [
        '# event_id = ""  # required; none was found as event_id, id, uuid, ...',
        '# response = ""  # required; none was found as response, answer, output, ...',
        'query = "q"',
    ]


def test_the_tables_name_fields_that_exist() -> None:
    """Our fields exist, each row's first name is the field's own, and no name stands in two rows but an id's."""
    for field, _, names in FIELDS:
        assert field.partition(".")[0] in Interaction.model_fields
        assert names.split()[0] in (field, field.rpartition(".")[2], field.replace(".", "_"))
    every = [name for field, _, names in FIELDS if field != "event_id" for name in names.split()]
    assert len(every) == len(set(every))


def test_innermost_paths_are_ready_to_be_pasted() -> None:
    """The paths to values are shown as a map takes them, without what they lead to."""
    event = {"secret": "content", "a.b": {"c": ["content"]}, "empty": {}, "none": None}
    assert innermost([event, 5]) == ['"secret"', '"empty"', "'\"a.b\".c[]'"]
    assert len(innermost([{f"k{number}": 1 for number in range(100)}])) == 40


UNREAD_MAP = """
event_id = { hash = ["q", { first = ["a", "b.c"] }] }
query = "q"
response = { path = "out", parse = "any", then = { first = ["text", "said"] } }
ended_at = { path = "seconds", unit = "s", after = "begin" }
expected = "says[0]"
"contexts[].text" = { path = "docs[].text", where = { path = "kind", in = ["doc"] } }
"""


def test_what_no_rule_reads_is_unread() -> None:
    """Paths in any rule count as read, with what lies below them or in the cell that they parse; others are unread."""
    events: list[Any] = [
        {"q": "Who?", "a": 1, "b": {"c": 2, "d": 3}, "out": {"text": "x", "n": 5}, "begin": 1, "seconds": 2},
        {"out": "{'said': 1}", "says": ["x"], "docs": [{"text": "x", "kind": "doc", "id": 7}], "n": None, "e": []},
        {"b": {"d": 4}, "more": {}},
    ]
    found = unread(named_map(UNREAD_MAP), events)
    assert found == [("b.d", 2), ("e", 1), ("more", 1), ("out.n", 1), ("docs[].id", 1)]
    entries = named_map(
        'event_id = "id"\n"contexts[].text" = { path = "docs", entries = true, then = "[].value.text" }'
    )
    assert unread(entries, [{"id": 1, "docs": {"x": {"text": "y"}}, "z": 1}]) == [("z", 1)]
    assert unread(OWN, [{"event_id": "1", "query": "", "contexts": [{"x": 1}], "more": {"a": 1}}]) == [("more.a", 1)]
    many = [{f"k{n}": n for n in range(5_000)}]
    assert len(unread(named_map(UNREAD_MAP), many)) <= 1_000
