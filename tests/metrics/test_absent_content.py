"""Content that was not captured: null, and never taken for an empty text."""

from typing import Any

import pytest

from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, Scored, everything
from ragweir.metrics.extension import own_metrics
from ragweir.metrics.laws import corpus
from ragweir.metrics.metric import Metric, Value
from ragweir.metrics.unavailable import CONTENT_ABSENT
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.interaction import Interaction

CATALOGUE = Catalogue(everything(packs.SHIPPED))
QUESTIONS = sorted({metric.question for metric in CATALOGUE.free.values() if metric.question})
WITHOUT_TEXT = [{name: value for name, value in each.items() if name != "text"} for each in corpus.RICH["contexts"]]
OTHER: dict[str, Any] = {
    "query": "Why?",
    "response": "",
    "contexts": [context | {"text": "Other words."} for context in corpus.RICH["contexts"]],
}
ABSENT = {"query": None, "response": None, "contexts": WITHOUT_TEXT}
"""The event's own fields without content, each beside other content in `OTHER`."""
KEPT = {
    "total_latency_ms", "llm_latency_ms", "tool_latency_ms", "tool_call_count", "input_tokens", "cost_usd", "truncated",
    "user_feedback", "time_to_first_token_ms", "mrr", "ndcg_at_10", "hit_at_10", "context_relevance", "avg_rank",
    "multi_source_agreement", "hit_limit_warning",
}  # fmt: skip
"""Metrics of times, tools, tokens, ids, scores and extractions, which have a value without any content."""


def scored(question: str = "other", **fields: Any) -> Scored:
    event = corpus.interaction(corpus.RICH | {"question_id": question} | fields)
    assert event is not None
    return CATALOGUE.score(View(event))


def values(result: Scored) -> dict[str, float | str | None]:
    return result.scores | result.categories


@pytest.mark.parametrize("question", [*QUESTIONS, "other"])
@pytest.mark.parametrize("absent", ["query", "response", "contexts", "query response", " ".join(ABSENT)])
def test_a_value_without_content_does_not_depend_on_the_content(question: str, absent: str) -> None:
    """Over the whole catalogue: what has a value without a text has the same one whatever that text is."""
    without = scored(question, **{name: ABSENT[name] for name in absent.split()})
    others = [scored(question), scored(question, **{name: OTHER[name] for name in absent.split()})]
    for name, value in values(without).items():
        if value is None:
            assert without.reasons[name]
        else:
            assert [values(other)[name] for other in others] == [value, value]
    changed = {name for name in values(others[0]) if values(others[0])[name] != values(others[1])[name]}
    assert {without.reasons[name] for name in changed if values(others[0])[name] is not None} == {CONTENT_ABSENT}
    assert set(without.flags) >= {f"content_absent:{name}" for name in absent.split()}
    assert not without.raised


def test_metrics_without_texts_keep_their_values() -> None:
    """Performance, tools, usage, retrieval by ids and scores, and extractions need no content."""
    assert {name: values(scored(**ABSENT))[name] for name in KEPT} == {name: values(scored())[name] for name in KEPT}
    assert not {name for name in KEPT if values(scored())[name] is None}


def test_an_absent_answer_is_not_an_empty_one() -> None:
    """The metrics of empty texts have a value for an empty answer, and null for an absent one."""
    names = ("empty_response", "dont_know", "response_words", "answered_without_context", "citation_count")
    empty = scored(response="", contexts=[{"text": ""}])
    assert [empty.scores[name] for name in names] == [1, 0, 0, 0, 0]
    absent = scored(response=None, contexts=[{"text": ""}])
    assert [absent.reasons[name] for name in names] == [CONTENT_ABSENT] * 5
    unseen = scored(contexts=WITHOUT_TEXT)
    assert unseen.reasons["answered_without_context"] == unseen.reasons["context_support"] == CONTENT_ABSENT


@pytest.mark.parametrize("place", [0, 1])
def test_one_context_without_text_leaves_out_what_reads_any(place: int) -> None:
    """Support cannot be missing in a part that was not captured, wherever it is in the list."""
    contexts = list(corpus.RICH["contexts"])
    contexts[place] = WITHOUT_TEXT[place]
    result = scored(contexts=contexts)
    assert result.reasons["unsupported_risk"] == result.reasons["answered_without_context"] == CONTENT_ABSENT
    assert result.scores["response_words"] == scored().scores["response_words"]


def test_an_own_metric_need_not_know() -> None:
    """One that declares nothing, or reads the interaction itself, is null; an explanation has no lines."""

    def length(view: View) -> Value:
        """Length of the answer."""
        return len(view.interaction.response or "")

    def shown(view: View) -> tuple[str, ...]:
        return (view.response.text,)

    own = own_metrics(Metric(length, "own", "count", "neither", (), "here", explain=shown), "own", ())
    catalogue = Catalogue(own)
    assert catalogue.score(View(Interaction(event_id="1", query="", response=""))).scores == {"length": 0}
    absent = View(Interaction(event_id="1", query="", response=None))
    assert catalogue.score(absent).reasons == {"length": CONTENT_ABSENT}
    assert catalogue.explain(absent) == {}


def test_absence_is_read_and_written() -> None:
    """Null is absent, and stays so when the event is written and read again; a missing field is a rejection."""
    event = decode(b'{"event_id":"1","query":null,"response":null,"contexts":[{"chunk_id":"c"},{"text":""}]}')
    assert (event.query, event.response) == (None, None)
    assert [context.text for context in event.contexts or ()] == [None, ""]
    assert decode(encode(event)) == event
    assert event.flags == ()
