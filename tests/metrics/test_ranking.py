"""Ranking against relevance labels: trec_eval, by way of ir-measures, is the reference."""

import math
from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Flagged, Null
from ragweir.metrics.scores.ranking import METRICS, hit_at_10, mrr, ndcg_at_10, recall_at_10
from ragweir.metrics.view import View, example

CATALOGUE = Catalogue(METRICS)
NAMES = tuple(CATALOGUE.metrics)


def labelled(*grades: bool | float | None, listed: list[str] | None = None) -> View:
    contexts = [{"chunk_id": f"c{rank}", "relevant": grade} for rank, grade in enumerate(grades, 1)]
    return example(contexts=contexts, retrieval=None if listed is None else {"relevant_ids": listed})


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Flagged) else value


@given(st.lists(st.integers(0, 4), max_size=25), st.integers(0, 12))
def test_values_are_trec_evals(grades: list[int], missed: int) -> None:
    """Hit, recall, reciprocal rank and nDCG agree with trec_eval to 1e-9."""
    ids = [f"c{rank}" for rank in range(1, len(grades) + 1)]
    elsewhere = [f"m{number}" for number in range(missed)]
    if not any(grades) and not missed:
        return
    qrels = {"q": dict(zip(ids, grades, strict=True)) | dict.fromkeys(elsewhere, 1)}
    run = {"q": {chunk: -float(rank) for rank, chunk in enumerate(ids)} or {"other": 0.0}}
    measures = [ir_measures.parse_measure(name) for name in ("Success@10", "R@10", "RR", "nDCG@10")]
    reference = ir_measures.calc_aggregate(measures, qrels, run)
    scored = CATALOGUE.score(labelled(*grades, listed=elsewhere))
    for name, measure in zip(("hit_at_10", "recall_at_10", "mrr", "ndcg_at_10"), measures, strict=True):
        assert scored.scores[name] == pytest.approx(reference[measure], abs=5e-7)
    view = labelled(*grades, listed=elsewhere)
    for metric, measure in zip((hit_at_10, recall_at_10, mrr, ndcg_at_10), measures, strict=True):
        assert metric(view) == pytest.approx(reference[measure], abs=1e-9)


@pytest.mark.parametrize(("rank", "hit"), [(10, True), (11, False)])
def test_the_tenth_place_is_the_last_that_counts(rank: int, hit: bool) -> None:
    """A relevant chunk at 10 is found, one at 11 is not; the reciprocal rank has no such edge."""
    view = labelled(*[False] * (rank - 1), True)
    assert hit_at_10(view) is hit
    assert plain(recall_at_10(view)) == float(hit)
    assert plain(ndcg_at_10(view)) == (1 / math.log2(11) if hit else 0.0)
    assert mrr(view) == 1 / rank


def test_ndcg_takes_grades_linearly() -> None:
    """Grades 1, 3 in that order against 3, 1, by hand; fractions are grades too."""
    by_hand = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert plain(ndcg_at_10(labelled(1, 3))) == pytest.approx(by_hand, abs=1e-12)
    assert plain(ndcg_at_10(labelled(0.25, 0.75))) == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize("unlabelled", [None, False, 0, 0.0])
def test_listed_ids_and_labels_complete_each_other(unlabelled: Any) -> None:
    """A label of a chunk decides over the list; where it has none, the list does."""
    view = labelled(unlabelled, True, listed=["c1", "m1"])
    first = unlabelled is None
    assert mrr(view) == (1.0 if first else 0.5)
    assert recall_at_10(view) == (2 / 3 if first else 1 / 2)


def test_a_grade_decides_over_the_lists_1() -> None:
    """A listed chunk keeps its own grade."""
    assert ndcg_at_10(labelled(1, 3, listed=["c1", "c2"])) == plain(ndcg_at_10(labelled(1, 3)))


def test_a_chunk_counts_once_at_its_best_place_with_its_highest_grade() -> None:
    """A chunk that both methods found takes one place and is one relevant chunk."""
    contexts = [
        {"chunk_id": "x"},
        {"chunk_id": "a"},
        {"chunk_id": "x"},
        {"chunk_id": "a", "relevant": 2},
        {"chunk_id": "a", "relevant": 0},
        {"chunk_id": "b", "relevant": 1},
    ]
    view = example(contexts=contexts, retrieval={"relevant_ids": ["a", "a"]})
    assert mrr(view) == 0.5
    assert recall_at_10(view) == 1.0
    assert ndcg_at_10(view) == pytest.approx((2 / math.log2(3) + 1 / 2) / (2 + 1 / math.log2(3)))


def test_contexts_without_an_id_are_chunks_of_their_own() -> None:
    """Each takes a place, and each may be relevant."""
    view = example(contexts=[{"relevant": False}, {"chunk_id": "", "relevant": True}, {"chunk_id": "", "relevant": 1}])
    assert mrr(view) == 0.5
    assert recall_at_10(view) == Flagged(1.0, "only_retrieved_chunks_labelled")


def test_rank_orders_the_contexts() -> None:
    """A stated rank decides over the place in the list; equal ranks keep the order of the list."""
    contexts = [{"rank": 9}, {"rank": 2}, {}, {"rank": 2}, {"rank": -1}]
    assert example(contexts=contexts).texts.ranked == (4, 1, 3, 2, 0)
    assert mrr(example(contexts=[{"rank": 2, "relevant": True}, {"rank": 1}])) == 0.5


def test_recall_without_a_list_of_relevant_ids_is_flagged() -> None:
    """What retrieval missed is unknown then; hit and reciprocal rank do not rest on it."""
    scored = CATALOGUE.score(labelled(True, False))
    without_text = {"content_absent:contexts"}
    labelled_only = {f"{name}:only_retrieved_chunks_labelled" for name in ("recall_at_10", "ndcg_at_10")}
    assert set(scored.flags) == labelled_only | without_text
    assert set(CATALOGUE.score(labelled(True, False, listed=[])).flags) == without_text


NULLS = [
    (labelled(None, None), NAMES, "no relevance labels"),
    (labelled(), NAMES, "no relevance labels"),
    (labelled(None, listed=[]), NAMES, "no chunk is relevant"),
    (labelled(False, listed=["c1"]), NAMES, "no chunk is relevant"),
    (labelled(False, 0), ("recall_at_10", "ndcg_at_10"), "no chunk is labelled relevant"),
    (example(retrieval={"relevant_ids": ["a"]}), NAMES, "the event has no contexts"),
]


@pytest.mark.parametrize(("view", "nulls", "reason"), NULLS)
def test_nothing_to_find_is_null_and_nothing_found_is_0(view: View, nulls: tuple[str, ...], reason: str) -> None:
    """Where nothing is known to be relevant there is no value; where it is and was not retrieved, 0."""
    scored = CATALOGUE.score(view)
    assert {name: scored.reasons.get(name) for name in nulls} == dict.fromkeys(nulls, reason)
    assert {scored.scores[name] for name in NAMES if name not in nulls} <= {0.0}


def test_empty_contexts_find_nothing() -> None:
    """0 throughout when there was something to find and nothing came back."""
    assert set(CATALOGUE.score(labelled(listed=["a"])).scores.values()) == {0.0}


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "chunk_id": st.sampled_from(["", "a", "b", "\ud800"]),
                "rank": st.integers(-3, 3),
                "relevant": st.booleans() | st.floats(0, 1e300),
            },
        ),
        max_size=15,
    ),
    st.none() | st.lists(st.sampled_from("abc"), max_size=3),
)
def test_laws_hold_on_any_labels(contexts: list[dict[str, Any]], listed: list[str] | None) -> None:
    """Nothing raises, and every value lies between 0 and 1."""
    scored = CATALOGUE.score(example(contexts=contexts, retrieval={"relevant_ids": listed}))
    assert not scored.raised
    assert all(value is None or 0 <= value <= 1 for value in scored.scores.values())
    assert all(isinstance(scored.reasons[name], str) for name, value in scored.scores.items() if value is None)


def test_a_null_names_no_content() -> None:
    """The reason is fixed text."""
    assert hit_at_10(labelled(None)) == Null("no relevance labels")


@pytest.mark.parametrize("unit", [1.7e308, 1.0, 5e-324])
def test_grades_of_any_size_compare(unit: float) -> None:
    """No sum of grades overflows, and none vanishes."""
    assert plain(ndcg_at_10(labelled(unit, unit))) == 1
    assert plain(ndcg_at_10(labelled(0, unit))) == pytest.approx(1 / math.log2(3))
