"""Retrieval from the metadata of the contexts, against the retrieval, extraction and aggregation framework."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Flagged, Null
from ragweir.metrics.scores.retrieval import (
    METRICS,
    avg_rank,
    context_recall_heuristic,
    context_relevance,
    contributing_chunks,
    high_filtering_warning,
    hit_limit_warning,
    precision_at_10,
    recall_warning,
)
from ragweir.metrics.view import View, example

CATALOGUE = Catalogue(METRICS)


def chunk(chunk_id: str | None = None, method: str | None = "bm25", score: float | None = None, **rest: Any) -> Any:
    return {"chunk_id": chunk_id, "retrieval_method": method, "score": score} | rest


def used(*numbers: int | None) -> list[dict[str, int | None]]:
    return [{"chunk_number": number} for number in numbers]


# Relevance


def relevance_of_the_document(contexts: list[dict[str, Any]]) -> float:
    bm25 = {c["chunk_id"] for c in contexts if c["retrieval_method"] == "bm25"}
    knn = {c["chunk_id"] for c in contexts if c["retrieval_method"] == "knn"}
    scores = [c["score"] for c in contexts if c["score"]]
    pages = {c["page"] for c in contexts if c["page"]}
    agreement = len(bm25 & knn) / max(len(bm25 | knn), 1)
    score: float = agreement * 0.4 + sum(scores) / max(len(scores), 1) * 0.5 + min(len(pages) / 5, 1.0) * 0.1
    return score


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "chunk_id": st.sampled_from("abcdefgh"),
                "retrieval_method": st.sampled_from(["bm25", "knn", "sparse"]),
                "score": st.floats(0, 1, allow_subnormal=False),
                "page": st.none() | st.integers(0, 8),
            }
        ),
        unique_by=lambda c: (c["chunk_id"], c["retrieval_method"]),
        max_size=20,
    )
)
def test_relevance_is_the_documents_where_a_method_finds_a_chunk_once(contexts: list[dict[str, Any]]) -> None:
    """On complete input with scores from 0 to 1 the value is that of the document's own code."""
    assert context_relevance(example(contexts=contexts)) == pytest.approx(relevance_of_the_document(contexts), abs=1e-9)


def test_hybrid_is_a_chunk_that_stands_twice() -> None:
    """A chunk that both methods found may be sent as one or as two."""
    twice = [chunk("a", "bm25", 0.6), chunk("a", "knn", 0.6), chunk("b", "knn", 0.6)]
    once = [chunk("a", "hybrid", 0.6), chunk("b", "knn", 0.6)]
    assert context_relevance(example(contexts=twice)) == context_relevance(example(contexts=once)) == 0.4 * 0.5 + 0.3


def test_a_repeated_context_changes_nothing() -> None:
    """A chunk that one method sent twice counts once, with its higher score."""
    contexts = [chunk("a", "bm25", 0.9, page=1), chunk("a", "knn", 0.5, page=1), chunk("b", "bm25", 0.2, page=2)]
    repeated = [*contexts, chunk("a", "bm25", 0.4, page=1)]
    assert context_relevance(example(contexts=repeated)) == context_relevance(example(contexts=contexts))


def test_contexts_without_an_id_are_chunks_of_their_own() -> None:
    """Neither an absent nor an empty id makes two contexts one."""
    contexts = [chunk(None, "bm25"), chunk(None, "knn"), chunk("", "bm25"), chunk("", "knn", 0.5)]
    assert context_relevance(example(contexts=contexts)) == 0.25
    assert hit_limit_warning(example(contexts=contexts, retrieval={"bm25_limit": 2})) is True
    assert hit_limit_warning(example(contexts=contexts, retrieval={"bm25_limit": 3})) is False


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([12.0, 6.0], 0.75),  # by the method's largest
        ([1.0, 0.5], None),  # inside the range
        ([1.5, -4.0], 1.0),  # a negative one counts as 0, and zeros are left out of the mean
        ([0.5, -0.5], 0.5),  # and does not make the others be scaled
        ([-1.0, -2.0], 0.0),
        ([1e308, 1e308], 1.0),
    ],
)
def test_scores_outside_the_range_are_scaled_and_flagged(scores: list[float], mean: float | None) -> None:
    """Scores beyond 0 to 1 are brought there, and the reader is told."""
    value = context_relevance(example(contexts=[chunk(str(i), "bm25", score) for i, score in enumerate(scores)]))
    assert value == (0.375 if mean is None else Flagged(0.5 * mean, "scores_outside_0_1"))


def test_each_method_is_scaled_by_its_own_largest() -> None:
    """BM25's open-ended scores do not press down the cosines beside them."""
    contexts = [chunk("a", "bm25", 20.0), chunk("b", "bm25", 10.0), chunk("c", "knn", 0.6), chunk("d", None, 4.0)]
    assert context_relevance(example(contexts=contexts)) == Flagged(0.5 * (1 + 0.5 + 0.6 + 1) / 4, "scores_outside_0_1")


def test_without_any_method_the_other_terms_carry_the_weight() -> None:
    """A retriever that does not name its method is judged on scores and pages, and flagged."""
    contexts = [{"score": 0.8, "page": page} for page in range(1, 6)]
    assert context_relevance(example(contexts=contexts)) == Flagged((0.5 * 0.8 + 0.1) / 0.6, "no_retrieval_method")
    scaled = context_relevance(example(contexts=[{"score": 8.0}]))
    assert scaled == Flagged(0.5 / 0.6, "no_retrieval_method+scores_outside_0_1")


def test_relevance_is_null_without_scores_and_0_without_contexts() -> None:
    """Scores that nobody sent are unknown; contexts that nobody found are none."""
    assert context_relevance(example(contexts=[chunk("a", page=3)])) == Null("no context has a score")
    assert context_relevance(example(contexts=[])) == 0.0
    assert context_relevance(example(contexts=[chunk("a", score=0.0)])) == 0.0


def test_pages_count_by_name_up_to_five() -> None:
    """12 and "12" are one page, 0 and none are no page, and five pages are enough."""
    pages = [12, "12", 0, None, "iv"]
    contexts = [chunk(str(i), score=0.5, page=page) for i, page in enumerate(pages)]
    assert context_relevance(example(contexts=contexts)) == pytest.approx(0.25 + 0.1 * 2 / 5)
    many = [chunk(str(i), score=0.5, page=i) for i in range(1, 9)]
    assert context_relevance(example(contexts=many)) == pytest.approx(0.35)


# Contributing chunks


@given(st.lists(st.none() | st.integers(0, 30), max_size=40).filter(lambda numbers: any(numbers) or not numbers))
def test_contributions_are_the_documents(numbers: list[int | None]) -> None:
    """Precision, average rank and count are those of the document's own code."""
    ranks = [number for number in numbers if number]
    contributing = set(ranks)
    top = len({number for number in contributing if number <= 10})
    view = example(extractions=used(*numbers))
    assert precision_at_10(view) == (round(top / min(10, len(contributing)), 3) if contributing else 0)
    assert avg_rank(view) == (round(sum(ranks) / len(ranks), 1) if ranks else 0)
    assert contributing_chunks(view) == len(contributing)


@pytest.mark.parametrize(("number", "precision"), [(10, 1.0), (11, 0.0)])
def test_the_tenth_chunk_is_in_the_first_ten(number: int, precision: float) -> None:
    """Ranks count from 1, and 10 is the last that counts."""
    assert precision_at_10(example(extractions=used(number))) == precision


def test_chunk_numbers_below_1_are_left_out() -> None:
    """A place before the first is none."""
    view = example(extractions=used(-3, 0, 2))
    assert (precision_at_10(view), avg_rank(view), contributing_chunks(view)) == (1.0, 2.0, 1)


def test_extractions_that_name_no_chunk_are_no_evidence_of_bad_ranking() -> None:
    """Null, not 0, when the application does not say which chunks contributed; 0 when there were no extractions."""
    silent = CATALOGUE.score(example(contexts=[{}], extractions=[{"value": "tile"}]))
    names = "precision_at_10", "avg_rank", "contributing_chunks", "context_recall_heuristic"
    assert {silent.scores[name] for name in names} == {None}
    assert {silent.reasons[name] for name in names} == {"no extraction names its chunk"}
    empty = CATALOGUE.score(example(contexts=[{}], extractions=[]))
    assert {empty.scores[name] for name in names} == {0.0}


# Recall and its warnings


def recall_of_the_document(contributing: int, contexts: list[dict[str, Any]], limits: dict[str, int]) -> Any:
    recall = contributing / max(len(contexts), 1)
    hit = any(
        len([c for c in contexts if c["retrieval_method"] == method]) >= limits[f"{method}_limit"]
        for method in ("bm25", "knn")
    )
    filtered = len(contexts) / max(limits["retrieved_before_filter"], 1) < 0.5
    if hit:
        recall *= 0.7
    elif filtered:
        recall *= 0.85
    return round(recall, 3), hit, filtered


@given(st.data())
def test_recall_is_the_documents(data: st.DataObject) -> None:
    """Recall and both warnings are those of the document's own code when each chunk was found once."""
    methods = data.draw(st.lists(st.sampled_from(["bm25", "knn"]), max_size=12))
    contexts = [chunk(str(i), method) for i, method in enumerate(methods)]
    contributing = data.draw(st.integers(0, len(contexts)))
    names = "bm25_limit", "knn_limit", "retrieved_before_filter"
    limits = {name: data.draw(st.integers(0, 30)) for name in names}
    view = example(contexts=contexts, retrieval=limits, extractions=used(*range(1, contributing + 1)))
    found = context_recall_heuristic(view), hit_limit_warning(view), high_filtering_warning(view)
    assert found == recall_of_the_document(contributing, contexts, limits)


RECALL_CASES = [
    # contexts, retrieval, score of two contributing chunks, warnings: limit, filtering, label
    (4, {}, 0.5, (None, None, None)),
    (4, {"bm25_limit": 5, "retrieved_before_filter": 8}, 0.5, (0, 0, None)),
    (4, {"bm25_limit": 5, "retrieved_before_filter": 9}, 0.425, (0, 1, "HIGH_THRESHOLD_FILTERING")),
    (4, {"bm25_limit": 4, "retrieved_before_filter": 8}, 0.35, (1, 0, "HIT_RETRIEVAL_LIMIT")),
    (4, {"bm25_limit": 4, "retrieved_before_filter": 9}, 0.35, (1, 1, "HIT_RETRIEVAL_LIMIT")),
    (4, {"knn_limit": 1}, 0.5, (0, None, None)),
    (4, {"retrieved_before_filter": 9}, 0.425, (None, 1, "HIGH_THRESHOLD_FILTERING")),
    (4, {"retrieved_before_filter": 8}, 0.5, (None, 0, None)),
    (1, {"bm25_limit": 1}, 0.7, (1, None, "HIT_RETRIEVAL_LIMIT")),  # at most 1, before the penalty
    (0, {"knn_limit": 9, "retrieved_before_filter": 0}, 0.85, (0, 1, "HIGH_THRESHOLD_FILTERING")),
]


@pytest.mark.parametrize(("count", "retrieval", "recall", "warnings"), RECALL_CASES)
def test_penalties_and_warnings(count: int, retrieval: dict[str, int], recall: float, warnings: Any) -> None:
    """A check fires at its edge, the limit goes before the filtering, and a limit that is not named cannot fire."""
    contexts = [chunk(str(i)) for i in range(count)]
    scored = CATALOGUE.score(example(contexts=contexts, retrieval=retrieval, extractions=used(1, 2)))
    assert scored.scores["context_recall_heuristic"] == recall
    flags = scored.scores["hit_limit_warning"], scored.scores["high_filtering_warning"]
    assert (*flags, scored.categories["recall_warning"]) == warnings


@pytest.mark.parametrize(
    ("retrieval", "reason"),
    [
        ({"bm25_limit": 2}, "nothing to warn of"),
        ({"retrieved_before_filter": 1}, "nothing to warn of"),
        ({}, "the event gives neither limits nor a count before the filter"),
    ],
)
def test_no_warning_says_whether_there_was_anything_to_judge(retrieval: dict[str, int], reason: str) -> None:
    """All is well is told apart from nothing was checked."""
    assert recall_warning(example(contexts=[chunk("a")], retrieval=retrieval)) == Null(reason)


def test_a_repeated_chunk_neither_reaches_a_limit_nor_lowers_recall() -> None:
    """Limits and recall count distinct chunks, and a hybrid one for both methods."""
    contexts = [chunk("a", "bm25"), chunk("a", "bm25"), chunk("a", "knn"), chunk("b", "hybrid")]
    view = example(contexts=contexts, extractions=used(1), retrieval={"bm25_limit": 3, "knn_limit": 3})
    assert context_recall_heuristic(view) == 0.5
    assert hit_limit_warning(view) is False
    assert hit_limit_warning(example(contexts=contexts, retrieval={"knn_limit": 2})) is True


def test_limits_cannot_be_judged_when_no_context_names_its_method() -> None:
    """Null, and no penalty, where the chunks of a method cannot be counted."""
    view = example(contexts=[chunk("a", None)], extractions=used(1), retrieval={"bm25_limit": 1})
    assert hit_limit_warning(view) == Null("no context names its retrieval method")
    assert context_recall_heuristic(view) == 1.0
    assert isinstance(recall_warning(view), Null)


def test_limits_are_judged_over_all_contexts() -> None:
    """Contexts beyond those whose text is read still count here."""
    contexts = [chunk(str(i)) for i in range(200)]
    assert hit_limit_warning(example(contexts=contexts, retrieval={"bm25_limit": 200})) is True


# All of them


def test_ordinary_traffic_without_these_fields_is_null() -> None:
    """An event with neither contexts nor extractions has no value here, and a reason for each."""
    scored = CATALOGUE.score(example())
    assert set(scored.scores.values()) | set(scored.categories.values()) == {None}
    assert scored.reasons.keys() == CATALOGUE.metrics.keys()


CONTEXTS = st.lists(
    st.fixed_dictionaries(
        {"text": st.just("")},
        optional={
            "chunk_id": st.text(max_size=2),
            "retrieval_method": st.sampled_from(["bm25", "knn", "hybrid", "", "BM25"]),
            "score": st.floats(allow_nan=False, allow_infinity=False),
            "rank": st.integers(),
            "page": st.integers() | st.text(max_size=2),
        },
    ),
    max_size=12,
)


def anything(data: st.DataObject) -> View:
    count = st.none() | st.integers(0, 2**63)
    names = "bm25_limit", "knn_limit", "retrieved_before_filter"
    numbers = data.draw(st.lists(st.none() | st.integers(-(2**63), 2**63), max_size=5))
    return example(
        contexts=data.draw(CONTEXTS), retrieval={name: data.draw(count) for name in names}, extractions=used(*numbers)
    )


@pytest.mark.slow
@given(st.data())
def test_laws_hold_on_any_event(data: st.DataObject) -> None:
    """Nothing raises, every value lies within its bounds, every null has a reason, and order means nothing."""
    view = anything(data)
    scored = CATALOGUE.score(view)
    assert not scored.raised
    for name, value in scored.scores.items():
        if value is None:
            assert scored.reasons[name]
            continue
        least, greatest = CATALOGUE.metrics[name].bounds
        assert math.isfinite(value)
        assert least is None or value >= least
        assert greatest is None or value <= greatest
    contexts = data.draw(st.permutations(view.interaction.contexts or ()))
    permuted = View(view.interaction.model_copy(update={"contexts": tuple(contexts)}))
    assert CATALOGUE.score(permuted) == scored
