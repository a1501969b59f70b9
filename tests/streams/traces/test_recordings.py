"""The recorded exports give the facts that were read from their raw attributes, in both forms of OTLP.

`facts.json` was made without the code under test: by listing the raw attributes of each recording and reading them.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ragweir.schemas.interaction import Context, Interaction
from ragweir.streams.traces.interactions import Made, assemble
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.wire import read

_HERE = Path(__file__).parent
_FACTS = json.loads((_HERE / "facts.json").read_text())
_CHUNKS: dict[str, str] = _FACTS["chunks"]
_RECORDINGS: dict[str, Any] = _FACTS["recordings"]
_CASES = [(name, form) for name in _RECORDINGS for form in ("pb", "json")]
_LEAST_SHARE = 0.95

recordings = pytest.mark.parametrize(("name", "form"), _CASES, ids=[f"{name}.{form}" for name, form in _CASES])


def _requests(name: str, form: str) -> list[Path]:
    folder, case = name.split("/")
    paths = sorted((_HERE / "otlp" / folder).glob(f"{case}.*.{form}"))
    return [path for path in paths if path.name.removeprefix(case).startswith((".otlp", ".logs.otlp"))]


@cache
def _made(name: str, form: str) -> dict[str, Made]:
    spans: dict[str, list[TraceSpan]] = {}
    logs: dict[str, list[TraceLog]] = {}
    for path in _requests(name, form):
        read_spans, read_logs = read(path.read_bytes())
        for span in read_spans:
            spans.setdefault(span.trace_id, []).append(span)
        for log in read_logs:
            logs.setdefault(log.trace_id, []).append(log)
    found = [made for trace, each in spans.items() for made in assemble(each, logs.get(trace, [])).made]
    return {made.interaction.event_id: made for made in found}


def _pairs(name: str, form: str) -> Iterator[tuple[dict[str, Any], Interaction]]:
    for facts in _RECORDINGS[name]["interactions"]:
        yield facts, _made(name, form)[facts["event_id"]].interaction


def _text(chunks: list[str]) -> str:
    return "\n".join(_CHUNKS[chunk] for chunk in chunks)


def _has_all_contexts(facts: dict[str, Any], contexts: tuple[Context, ...] | None) -> bool:
    """Return whether the contexts are exactly those that the trace holds.

    Chunks that the trace holds in one text may be that text, or be divided by the ids that it holds for them; results
    of other tools may follow where nothing in the trace tells them from a retrieval.
    """
    if "chunks" in facts:
        return [(context.chunk_id, context.text) for context in contexts or ()] == [
            (chunk, _CHUNKS[chunk]) for chunk in facts["chunks"]
        ]
    if "blocks" not in facts:
        return not contexts
    found = [(context.chunk_id, context.text) for context in contexts or ()]
    divided = [(chunk, _CHUNKS[chunk]) for chunk in facts.get("ids", ())]
    if divided and found == divided:
        return True
    texts = [text for _, text in found]
    whole = [_text(block) for block in facts["blocks"]]
    return texts[: len(whole)] == whole and set(texts[len(whole) :]) <= set(facts.get("other_results", ()))


def _is_exact(facts: dict[str, Any], interaction: Interaction) -> bool:
    is_answered = interaction.response == facts["answer"] or (facts["answer"] is None and not interaction.response)
    return interaction.query == facts["question"] and is_answered and _has_all_contexts(facts, interaction.contexts)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pb", "json"])
def test_the_share_of_exact_interactions_with_content(form: str) -> None:
    """At least 95 % of the recorded interactions with content have exact question, answer and all contexts."""
    known = [(name, facts) for name, each in _RECORDINGS.items() for facts in each["interactions"]]
    with_content = [(name, facts) for name, facts in known if facts["question"] is not None]
    assert len(with_content) == 83
    wrong = [
        name
        for name, facts in with_content
        if (made := _made(name, form).get(facts["event_id"])) is None or not _is_exact(facts, made.interaction)
    ]
    share = 1 - len(wrong) / len(with_content)
    print(f"{form}: {len(with_content) - len(wrong)} of {len(with_content)} ({share:.1%}) exact; not: {wrong}")
    assert share >= _LEAST_SHARE, wrong


@pytest.mark.slow
@recordings
def test_one_interaction_for_each_question_with_the_id_of_its_root(name: str, form: str) -> None:
    assert sorted(_made(name, form)) == sorted(facts["event_id"] for facts in _RECORDINGS[name]["interactions"])


@pytest.mark.slow
@recordings
def test_question_and_answer(name: str, form: str) -> None:
    for facts, interaction in _pairs(name, form):
        assert interaction.query == facts["question"]
        if facts["answer"] is None:
            assert not interaction.response
        else:
            assert interaction.response == facts["answer"]


@pytest.mark.slow
@recordings
def test_contexts_with_ids(name: str, form: str) -> None:
    for facts, interaction in _pairs(name, form):
        found = [(context.chunk_id, context.text) for context in interaction.contexts or ()]
        assert _has_all_contexts(facts, interaction.contexts), found


@pytest.mark.slow
@recordings
def test_content_that_was_not_captured_is_null(name: str, form: str) -> None:
    for facts, interaction in _pairs(name, form):
        if facts["question"] is None:
            assert interaction.query is None
            assert interaction.response is None
            assert not any(context.text for context in interaction.contexts or ())
            assert {"content_off", "redacted", "attributes_cut"} & set(_made(name, form)[facts["event_id"]].gaps)


@recordings
def test_session_model_tokens_and_error(name: str, form: str) -> None:
    for facts, interaction in _pairs(name, form):
        usage = interaction.usage
        assert interaction.session_id == facts["session"]
        assert (usage and usage.input_tokens, usage and usage.output_tokens) == (
            facts["input_tokens"],
            facts["output_tokens"],
        )
        assert (interaction.error is not None) == facts["error"]
        assert (interaction.first_token_at is not None) == facts["first_token"]
        if "model" in facts:  # Absent where the name stands only within a request's body.
            assert interaction.model == facts["model"]


@recordings
def test_tools_and_retrievals(name: str, form: str) -> None:
    for facts, interaction in _pairs(name, form):
        spans = interaction.spans or ()
        assert sorted(span.name or "" for span in spans if span.kind == "tool") == sorted(facts["tools"])
        retrievals = {span.id for span in spans if span.kind == "retrieval"}
        outer = [span for span in spans if span.kind == "retrieval" and span.parent_id not in retrievals]
        assert len(outer) == facts["retrievals"]


def test_every_recording_has_facts() -> None:
    """A recording without facts would be proven by nothing."""
    stems = {f"{path.parent.name}/{path.name.split('.')[0]}" for path in (_HERE / "otlp").glob("*/*.pb")}
    assert stems == set(_RECORDINGS)


def test_protobuf_and_json_give_the_same_interactions() -> None:
    for name in _RECORDINGS:
        binary, text = ({key: made.interaction for key, made in _made(name, form).items()} for form in ("pb", "json"))
        assert binary == text, name


def test_the_oracle_tells_a_wrong_context() -> None:
    """A missing, repeated, exchanged or foreign chunk is no exact interaction."""
    right = [Context(text=_CHUNKS[chunk], chunk_id=chunk) for chunk in ("d1#0", "d3#0")]
    facts = {"chunks": ["d1#0", "d3#0"]}
    assert _has_all_contexts(facts, tuple(right))
    for wrong in (right[:1], [*right, right[0]], right[::-1], [right[0], right[1].model_copy(update={"text": "x"})]):
        assert not _has_all_contexts(facts, tuple(wrong))
    blocks = {"blocks": [["d1#0", "d3#0"]], "ids": ["d1#0", "d3#0"], "other_results": ["a claim"]}
    whole = Context(text=_text(["d1#0", "d3#0"]))
    assert _has_all_contexts(blocks, tuple(right))
    assert _has_all_contexts(blocks, (whole, Context(text="a claim")))
    assert not _has_all_contexts(blocks, (whole, Context(text="b claim")))
    assert not _has_all_contexts(blocks, ())
    assert not _has_all_contexts({}, tuple(right))
