"""Which spans of a trace are an interaction, and what belongs to it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import pytest

from ragweir.streams.traces.interactions import Assembled, Made, assemble
from ragweir.streams.traces.span import TraceSpan
from tests.streams.traces.made_up import (
    ANSWER,
    BEGINNING,
    QUESTION,
    chain,
    documents,
    id_of,
    llm,
    retrieval,
    span,
)

_CHUNK, _OTHER = {"1": "Ada wrote it."}, {"2": "Grace read it."}


def _assembled(*spans: TraceSpan, most: int = 100) -> Assembled:
    """Return the result, which all orders of the spans give."""
    found = assemble(spans, max_interactions=most)
    for order in itertools.islice(itertools.permutations(spans), 30):
        assert assemble(order, max_interactions=most) == found
    return found


def _only(*spans: TraceSpan) -> Made:
    (made,) = _assembled(*spans).made
    return made


def _roots(found: Assembled) -> list[str]:
    return [bytes.fromhex(made.root_id).rstrip(b"\0").decode() for made in found.made]


def _chunks(made: Made) -> Sequence[str | None]:
    return [each.chunk_id for each in made.interaction.contexts or ()]


def _flags(made: Made) -> tuple[str, ...]:
    assert made.interaction.assembly
    return made.interaction.assembly.flags


def test_the_topmost_genai_span_is_the_root() -> None:
    spans = span("POST", at=(0, 9), kind=None), chain("rag", "POST"), chain("part", "rag"), llm("llm", "part")
    found = _assembled(*spans)
    assert _roots(found) == ["rag"]
    assert found.fates == {id_of("POST"): "ignored", id_of("rag"): "root", id_of("part"): "step", id_of("llm"): "llm"}


def test_the_parent_that_loose_calls_share_is_the_root() -> None:
    made = _only(span("POST", at=(0, 3)), retrieval("find", _CHUNK, "POST"), llm("llm", "POST", (1, 2)))
    assert made.root_id == id_of("POST")
    event = made.interaction
    assert (event.query, event.response) == (QUESTION, ANSWER)
    assert event.started_at
    assert event.ended_at
    assert (event.ended_at - event.started_at).total_seconds() == 3
    assert _chunks(made) == ["1"]


def test_a_loose_call_alone_is_its_own_root() -> None:
    assert _only(span("POST"), llm("llm", "POST")).root_id == id_of("llm")


def test_several_chains_below_one_span_are_several_interactions() -> None:
    spans = [span("batch", at=(0, 9))]
    for number in range(2):
        spans += [chain(f"rag{number}", "batch", (number, number + 1)), llm(f"llm{number}", f"rag{number}")]
    assert _roots(_assembled(*spans)) == ["rag0", "rag1"]


def test_a_chain_of_a_batch_that_failed_before_its_model_is_an_interaction_of_its_own() -> None:
    spans = span("batch"), chain("rag", "batch"), llm("llm", "rag"), chain("rag2", "batch", (1, 2), error="broken")
    assert _roots(_assembled(*spans)) == ["rag", "rag2"]


def test_a_retrieval_beside_one_chain_belongs_to_it() -> None:
    made = _only(span("POST"), retrieval("find", _CHUNK, "POST"), chain("rag", "POST", (1, 2)), llm("llm", "rag"))
    assert (made.root_id, _chunks(made)) == (id_of("POST"), ["1"])


def test_a_retrieval_beside_several_chains_belongs_to_the_one_that_begins_next() -> None:
    spans = [span("batch", at=(0, 9))]
    for number, chunk in enumerate((_CHUNK, _OTHER)):
        beginning = 2 * number
        spans += [
            retrieval(f"find{number}", chunk, "batch", (beginning, beginning + 0.5)),
            chain(f"rag{number}", "batch", (beginning + 1, beginning + 2)),
            llm(f"llm{number}", f"rag{number}", (beginning + 1, beginning + 2)),
        ]
    found = assemble(spans)
    assert [(made.root_id, _chunks(made)) for made in found.made] == [(id_of("rag0"), ["1"]), (id_of("rag1"), ["2"])]


def test_calls_in_spans_of_their_own_belong_together() -> None:
    spans = (
        span("POST", at=(0, 5)),
        span("retrieve", "POST"),
        retrieval("find", _CHUNK, "retrieve"),
        span("generate", "POST", at=(1, 2)),
        llm("llm", "generate", (1, 2)),
    )
    made = _only(*spans)
    assert (made.root_id, _chunks(made)) == (id_of("POST"), ["1"])


def test_a_missing_parent_of_several_chains_is_no_interaction() -> None:
    """A session that is one trace is emitted turn by turn while its own span is still open."""
    found = _assembled(chain("a", "session"), llm("llm", "a"), chain("b", "session", (2, 3)), llm("llm2", "b", (2, 3)))
    assert _roots(found) == ["a", "b"]
    assert [_flags(made) for made in found.made] == [("spans_missing",)] * 2
    assert all("spans_missing" in made.gaps for made in found.made)


def test_a_missing_root_is_the_root_of_its_parts() -> None:
    made = _only(
        chain("retrieve", "rag", (0, 1)), retrieval("find", _CHUNK, "retrieve", (0, 1)), llm("llm", "rag", (1, 2))
    )
    event = made.interaction
    assert (made.root_id, _chunks(made), _flags(made)) == (id_of("rag"), ["1"], ("spans_missing",))
    assert (event.query, event.response) == (QUESTION, ANSWER)
    assert event.started_at
    assert event.ended_at
    assert (event.ended_at - event.started_at).total_seconds() == 2


def test_a_remote_parent_that_never_comes_is_not_missed() -> None:
    made = _only(span("POST", "client", remote_parent=True), chain("rag", "POST"), llm("llm", "rag"))
    assert (made.root_id, _flags(made)) == (id_of("rag"), ())


def test_the_span_of_a_remote_parent_is_the_root_of_its_process() -> None:
    server = span("POST", "client", remote_parent=True, at=(0, 3))
    lost = retrieval("find", _CHUNK, "lost", (0, 0.5))
    made = _only(server, llm("llm", "POST", (1, 2)), lost)
    assert (made.root_id, _chunks(made), _flags(made)) == (id_of("POST"), ["1"], ("spans_missing",))
    sibling = retrieval("other", _OTHER, "client", (0, 0.5))
    made = _only(server, llm("llm", "POST", (1, 2)), lost, sibling)
    assert sorted(str(chunk) for chunk in _chunks(made)) == ["1", "2"]


def test_a_span_without_a_parent_that_has_no_interaction_below_it_is_no_root() -> None:
    spans = span("batch", at=(0, 9)), chain("a", "batch"), llm("x", "a"), chain("b", "batch", (1, 2)), llm("y", "b")
    found = _assembled(*spans, span("noise"))
    assert _roots(found) == ["a", "b"]
    assert [_flags(made) for made in found.made] == [(), ()]


def test_spans_below_a_missing_one_belong_to_the_root_of_the_trace() -> None:
    made = _only(chain("rag"), llm("llm", "rag"), retrieval("find", _CHUNK, "lost", (0, 0.5)))
    assert (made.root_id, _chunks(made), _flags(made)) == (id_of("rag"), ["1"], ("spans_missing",))
    made = _only(span("POST"), llm("llm", "POST", (0.5, 1)), retrieval("find", _CHUNK, "lost", (0, 0.5)))
    assert (made.root_id, _chunks(made), _flags(made)) == (id_of("POST"), ["1"], ("spans_missing",))


def test_of_several_spans_without_a_parent_the_one_with_question_and_answer_is_the_interaction() -> None:
    other = llm("other", said=None, messages=())
    made = _only(chain("rag"), llm("llm", "rag"), other)
    assert (made.root_id, _flags(made)) == (id_of("rag"), ("several_roots",))


def test_several_spans_without_a_parent_and_with_answers_are_ambiguous() -> None:
    found = _assembled(chain("a"), llm("llm", "a"), chain("b"), llm("llm2", "b"))
    assert (found.made, found.gaps) == ((), ("no_root",))
    assert set(found.fates.values()) == {"ignored"}


def test_a_cycle_of_parents_begins_with_the_span_that_began_first() -> None:
    assert _only(chain("a", "b", (0, 3)), chain("b", "a", (1, 2)), llm("llm", "b", (1, 2))).root_id == id_of("a")
    assert _only(llm("llm", "llm")).root_id == id_of("llm")


def test_a_trace_without_genai_spans_gives_nothing() -> None:
    found = _assembled(span("POST"), span("SELECT", "POST"))
    assert (found.made, found.gaps) == ((), ("no_genai",))
    assert assemble([]).gaps == ("no_genai",)


@pytest.mark.parametrize("kind", ["EMBEDDING", "TOOL", "EVALUATOR", "GUARDRAIL"])
def test_a_call_that_answers_nothing_is_no_interaction(kind: str) -> None:
    assert _assembled(span("call", kind=kind)).gaps == ("no_genai",)


def test_an_evaluator_beside_an_interaction_changes_nothing() -> None:
    alone = _only(span("POST"), chain("rag", "POST"), llm("llm", "rag"))
    judge = span("judge", "POST", "EVALUATOR", (2, 3)), llm("judging", "judge", (2, 3), said="5 of 5")
    assert _only(span("POST"), chain("rag", "POST"), llm("llm", "rag"), *judge) == alone
    assert _only(span("POST"), chain("rag", "POST"), llm("llm", "rag"), judge[0]) == alone


def test_pending_spans_are_no_spans() -> None:
    pending = span("pending", "rag", "CHAIN", attributes={"logfire.span_type": "pending_span"})
    found = _assembled(chain("rag"), llm("llm", "rag"), pending)
    assert found.fates[id_of("pending")] == "pending"
    assert found.made == _assembled(chain("rag"), llm("llm", "rag")).made


def test_of_repeated_ids_the_span_that_ended_last_counts() -> None:
    first = llm("llm", "rag", (0, 1), said="I think")
    last = llm("llm", "rag", (0, 2))
    made = _only(span("rag", kind="CHAIN", at=(0, 2)), first, last, last)
    assert (made.interaction.response, made.interaction.usage and made.interaction.usage.output_tokens) == (ANSWER, 2)


def test_repetitions_that_differ_in_content_alone_give_one_result_in_any_order() -> None:
    spans = [llm("llm", said=text) for text in ("a", "b", "c")]
    _assembled(*spans)


def test_of_more_interactions_than_the_limit_the_first_are_made_and_the_last_says_so() -> None:
    spans = [span("batch", at=(0, 9))]
    for number in range(3):
        spans += [chain(f"rag{number}", "batch", (number, number + 1)), llm(f"llm{number}", f"rag{number}")]
    found = assemble(spans, max_interactions=2)
    assert _roots(found) == ["rag0", "rag1"]
    assert [_flags(made) for made in found.made] == [(), ("spans_missing",)]
    assert "spans_missing" in found.made[1].gaps
    assert found.fates[id_of("rag2")] == "ignored"


# Calls.


def test_nested_spans_of_one_call_count_once_and_complete_each_other() -> None:
    inner = llm("inner", "outer", (0.2, 0.8))
    bare = {key: value for key, value in inner.attributes.items() if "token_count" not in key}
    found = _assembled(chain("rag"), llm("outer", "rag"), dataclasses.replace(inner, attributes=bare))
    (made,) = found.made
    assert [each.id for each in made.interaction.spans or ()] == [id_of("inner")]
    assert made.interaction.usage
    assert made.interaction.usage.input_tokens == 10
    assert found.fates[id_of("outer")] == "duplicate"


def test_the_sum_of_the_tokens_of_all_calls_is_the_usage() -> None:
    made = _only(
        chain("rag", at=(0, 5)),
        llm("a", "rag", (0, 1)),
        llm("b", "rag", (1, 2)),
        llm("c", "tool", (3, 4)),
        span("tool", "rag", "TOOL", (2, 4)),
    )
    assert made.interaction.usage
    assert made.interaction.usage.input_tokens == 30


def test_the_answer_is_that_of_the_last_call_outside_of_tools() -> None:
    made = _only(
        span("agent", kind="AGENT", at=(0, 9)),
        llm("first", "agent", (0, 1), said="I will search."),
        span("tool", "agent", "TOOL", (1, 9)),
        llm("within", "tool", (1, 8), said="A summary."),
        llm("last", "agent", (2, 3)),
    )
    assert made.interaction.response == ANSWER


def test_the_outermost_retrieval_with_documents_counts() -> None:
    both = _only(
        chain("rag"),
        retrieval("outer", _CHUNK, "rag"),
        retrieval("inner", {**_CHUNK, **_OTHER}, "outer"),
        llm("m", "rag"),
    )
    assert _chunks(both) == ["1"]
    inner = _only(chain("rag"), retrieval("outer", {}, "rag"), retrieval("inner", _OTHER, "outer"), llm("m", "rag"))
    assert _chunks(inner) == ["2"]
    assert [each.kind for each in inner.interaction.spans or ()] == ["retrieval", "llm"]


def test_several_retrievals_are_merged_in_the_order_of_their_beginnings_without_repetitions() -> None:
    made = _only(
        chain("rag", at=(0, 3)),
        retrieval("second", {**_CHUNK, "3": "c"}, "rag", (1, 2)),
        retrieval("first", {**_OTHER, **_CHUNK}, "rag", (0, 2)),
    )
    assert _chunks(made) == ["2", "1", "3"]
    assert [each.rank for each in made.interaction.contexts or ()] == [1, 2, 3]


def test_a_repeated_chunk_is_as_the_first_retrieval_gave_it() -> None:
    made = _only(
        chain("rag", at=(0, 3)),
        retrieval("first", {"1": "a"}, "rag", (0, 1)),
        retrieval("second", {"1": "a, shortened"}, "rag", (1, 2)),
    )
    assert [each.text for each in made.interaction.contexts or ()] == ["a"]


def test_results_of_tools_in_earlier_turns_are_no_contexts() -> None:
    thread = [("user", "a"), ("tool", "earlier"), ("assistant", "b"), ("user", QUESTION), ("tool", "Ada wrote it.")]
    made = _only(chain("rag"), llm("llm", "rag", messages=thread))
    assert [each.text for each in made.interaction.contexts or ()] == ["Ada wrote it."]


def test_a_rerank_replaces_what_it_reranked() -> None:
    given, kept = documents({"1": "a", "2": "b"}, "reranker.input_documents"), {"2": ""}
    rerank = span("rerank", "rag", "RERANKER", (1, 2), {**given, **documents(kept, "reranker.output_documents")})
    before = retrieval("before", {"1": "a", "2": "b"}, "rag"), retrieval("other", {"9": "z"}, "rag", (0.5, 1))
    after = retrieval("after", {"3": "c"}, "rag", (3, 4))
    made = _only(chain("rag", at=(0, 5)), *before, rerank, after)
    assert [(each.chunk_id, each.text) for each in made.interaction.contexts or ()] == [
        ("2", "b"),
        ("9", "z"),
        ("3", "c"),
    ]


def test_a_retrieval_whose_attributes_were_cut_leaves_the_contexts_unknown() -> None:
    spans = chain("rag"), llm("llm", "rag")
    made = _only(*spans, retrieval("find", _CHUNK, "rag"), retrieval("cut", _OTHER, "rag", dropped_attributes=1))
    assert (made.interaction.contexts, _flags(made)) == (None, ("attributes_cut",))
    assert "attributes_cut" in made.gaps
    assert not made.is_full
    uncut = _only(*spans[:1], dataclasses.replace(spans[1], dropped_attributes=1), retrieval("find", _CHUNK, "rag"))
    assert (_chunks(uncut), _flags(uncut)) == (["1"], ())


# Conversation.


def test_the_question_within_a_prompt_is_the_query_of_its_retrieval() -> None:
    prompt = f"Use these.\nAda wrote it.\nQuestion: {QUESTION}"
    made = _only(
        span("POST"), retrieval("find", _CHUNK, "POST"), llm("llm", "POST", (1, 2), messages=[("user", prompt)])
    )
    assert made.interaction.query == QUESTION


def test_the_words_of_the_user_stand_before_a_rewritten_query() -> None:
    made = _only(span("POST"), retrieval("find", _CHUNK, "POST", query="author book"), llm("llm", "POST", (1, 2)))
    assert made.interaction.query == QUESTION


def test_examples_and_turns_before_the_question_are_the_history() -> None:
    thread = [("system", "s"), ("user", "a"), ("assistant", "b"), ("tool", "c"), ("user", QUESTION)]
    made = _only(chain("rag"), llm("llm", "rag", messages=thread))
    assert [(each.role, each.text) for each in made.interaction.history or ()] == [("user", "a"), ("assistant", "b")]


def test_the_messages_of_a_call_about_something_else_are_no_history() -> None:
    thread = [("user", "a"), ("assistant", "b"), ("user", "Rewrite the question.")]
    made = _only(chain("rag", at=(0, 3)), llm("rewrite", "rag", messages=thread), llm("llm", "rag", (1, 2)))
    assert made.interaction.history is None


def test_an_answer_that_is_streamed_beyond_the_root_ends_the_interaction() -> None:
    made = _only(span("rag", kind="CHAIN", attributes={"input.value": QUESTION}), llm("llm", "rag", (0, 3)))
    assert made.interaction.started_at
    assert made.interaction.ended_at
    assert (made.interaction.ended_at - made.interaction.started_at).total_seconds() == 3


def test_times_are_exact_to_the_microsecond() -> None:
    moment = BEGINNING + 123_456_789
    made = _only(chain("rag", started_ns=moment, ended_ns=moment + 1_000))
    assert made.interaction.started_at
    assert made.interaction.ended_at
    assert made.interaction.started_at.microsecond == 123_456
    assert (made.interaction.ended_at - made.interaction.started_at).microseconds == 1


def test_a_trace_without_content_has_times_tokens_and_models() -> None:
    call = llm("llm", "rag", messages=(), said=None)
    made = _only(span("rag", kind="CHAIN"), call)
    event = made.interaction
    assert (event.query, event.response, event.contexts, event.error) == (None, None, None, None)
    assert "content_off" in made.gaps
    assert event.usage
    assert (event.usage.input_tokens, event.usage.output_tokens) == (10, 2)
    assert (event.model, [each.name for each in event.spans or ()]) == ("m-1", ["m-1"])


def test_a_failed_request_is_told_from_one_without_content() -> None:
    failed = span("rag", kind="CHAIN", attributes={"input.value": QUESTION}, error="broken")
    event = _only(failed).interaction
    assert (event.query, event.response, event.error) == (QUESTION, "", "broken")
    hidden = _only(span("rag", kind="CHAIN", error="broken")).interaction
    assert (hidden.query, hidden.response, hidden.error) == (None, None, "broken")


def test_equal_inputs_have_equal_digests() -> None:
    tool = {"tool.name": "find", "input.value": '{"q": 1}', "output.value": "a"}
    made = _only(
        span("agent", kind="AGENT", at=(0, 9)),
        llm("llm", "agent"),
        span("one", "agent", "TOOL", (1, 2), tool),
        span("two", "agent", "TOOL", (2, 3), {**tool, "output.value": "b"}),
    )
    one, two = [each for each in made.interaction.spans or () if each.kind == "tool"]
    assert one.input_digest == two.input_digest
    assert one.output_digest != two.output_digest
    assert one.input_digest
    assert len(one.input_digest) == 16
    assert one.parent_id == id_of("agent")


def test_unset_times_are_absent() -> None:
    made = _only(chain("rag", started_ns=0, ended_ns=0))
    assert (made.interaction.started_at, made.interaction.ended_at) == (None, None)
