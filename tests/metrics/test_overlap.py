import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Metric, Null
from ragweir.metrics.scores import overlap
from ragweir.metrics.scores.overlap import METRICS
from ragweir.metrics.text.words import STOP_WORDS
from ragweir.metrics.view import View, example
from ragweir.schemas.interaction import Context, Interaction

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CATALOGUE = Catalogue(METRICS)
BY_NAME = {metric.name: metric for metric in METRICS}

# Relevance and completeness ------------------------------------------------------------------------------------------


def _relevance(view: View) -> float | None:
    """The lexical evaluators' formula with scikit-learn's own vectoriser on our tokens."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - it takes long, and for this test alone

    query, response = view.query.tokens, view.response.tokens
    if not query and not response:
        return None
    cosine = 0.0
    kept = [[token for token in tokens if token not in STOP_WORDS] for tokens in (query, response)]
    if any(kept):
        vectors = TfidfVectorizer(analyzer=lambda tokens: tokens).fit_transform(kept)
        cosine = float((vectors[0] @ vectors[1].T).toarray()[0, 0])
    return (cosine + len(set(query) & set(response)) / len(set(query) | set(response))) / 2


def _agrees(query: str, response: str) -> None:
    view = example(query=query, response=response)
    value, expected = overlap.lexical_relevance(view), _relevance(view)
    if expected is None:
        assert isinstance(value, Null)
    else:
        assert value == pytest.approx(expected, abs=1e-9)


TEXTS = st.lists(st.sampled_from("the fee Fee is 25 $25.00 late C-1 2025-12-09 东京都 of ? x".split(" ")), max_size=20)


@pytest.mark.slow
@given(TEXTS.map(" ".join), TEXTS.map(" ".join))
def test_relevance_agrees_with_scikit_learn_on_random_text(query: str, response: str) -> None:
    """The cosine is TfidfVectorizer's on our tokens, to 1e-9."""
    _agrees(query, response)


@pytest.mark.slow
def test_relevance_agrees_with_scikit_learn_on_real_text() -> None:
    """On real questions and answers too."""
    path = DATA / "mtrag.jsonl"
    if not path.exists():
        pytest.skip("the labelled answers are not beside the project")
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        _agrees(row["question"], row["response"])


@pytest.mark.parametrize(
    ("query", "response", "value"),
    [
        ("late fee", "late fee", 1.0),
        ("late fee", "bananas ripen", 0.0),
        ("late fee", "", 0.0),
        ("", "late fee", 0.0),
        # Only stop words: no cosine, and they count for Jaccard.
        ("is it", "it is", 0.5),
        ("is it", "it was", (1 / 3) / 2),
    ],
)
def test_relevance(query: str, response: str, value: float) -> None:
    """By hand: equal texts 1, strangers 0, and stop words count in one half of the score only."""
    assert overlap.lexical_relevance(example(query=query, response=response)) == pytest.approx(value, abs=1e-12)


def test_relevance_of_nothing_to_nothing_is_null() -> None:
    """Two texts without tokens have no similarity."""
    assert isinstance(overlap.lexical_relevance(example(query="...", response="!")), Null)


@pytest.mark.parametrize(
    ("query", "response", "value"),
    [
        ("What is the late fee?", "The late fee is due.", 1.0),
        ("What is the late fee?", "The fee is due.", 0.5),
        ("What is the late fee?", "", 0.0),
        ("Is it?", "Yes.", 1.0),
        ("", "Yes.", 1.0),
        ("What is AI?", "AI is a field.", 1.0),
        ("fee fee FEE late", "fee", 0.5),
        ("Is it 604?", "It is $604.00.", 1.0),
    ],
)
def test_completeness(query: str, response: str, value: float) -> None:
    """Query keywords in the response, each once; 1 when the question has none."""
    assert overlap.lexical_completeness(example(query=query, response=response)) == value


# Hallucination -------------------------------------------------------------------------------------------------------

FEES = "The late fee is $25. It covers 3 visits to the office on 2025-12-09 at 14:30. Offices close on Sunday."

ERRORS = [
    # No anchors at all.
    ("Yes.", 0.0),
    ("", 0.0),
    # Numbers and amounts, dates and times by value.
    ("USD 25.00!", 0.0),
    ("30!", 1.0),
    ("25 or 30", 0.5),
    ("9 December 2025, 2:30 pm", 0.0),
    ("10 December 2025, 2:30 pm", 0.5),
    # A hedge excuses the claim, not the number.
    ("The late fee may be $25.", 0.0),
    ("The late fee may be $30.", 1.0),
    # A claim needs its words together in one sentence of a context.
    ("The late fee covers visits.", 1.0),
    ("It covers visits.", 0.0),
    ("The late fee is high.", 1.0),
    # Three anchors, one unsupported: the claim that offices close late; 25 and "the fee is 25" are supported.
    ("The fee is $25. Offices close late.", 1 / 3),
]


@pytest.mark.parametrize(("response", "value"), ERRORS)
def test_claim_error(response: str, value: float) -> None:
    """Unsupported anchors / anchors, by hand."""
    assert overlap.claim_error(example(response=response, contexts=[{"text": FEES}])) == pytest.approx(value)


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("", 0.0),
        ("bananas", 0.0),
        ("bananas ripen", 0.2),
        # Five pairs, one of them found: 0.2 is not under 0.2.
        ("late fee one two three four", 0.0),
        # Six pairs, one of them found.
        ("late fee one two three four five", 0.2),
        # Pairs are distinct: said twice they count once.
        ("late fee late fee one two three four", 0.2),
    ],
)
def test_topic_drift(response: str, value: float) -> None:
    """0.2 when under a fifth of the distinct pairs stand in the contexts, on both sides of the edge."""
    assert overlap.topic_drift(example(response=response, contexts=[{"text": FEES}])) == value


@pytest.mark.parametrize(
    ("response", "value"),
    [("bananas ripen", 0.2), ("The late fee is $25.", 0.0), ("The late fee is $30.", 1.0), ("30 bananas ripen", 1.0)],
)
def test_hallucination_is_the_greater_part(response: str, value: float) -> None:
    """max(claim error, drift)."""
    assert overlap.lexical_hallucination(example(response=response, contexts=[{"text": FEES}])) == value


def test_empty_contexts_support_no_anchor() -> None:
    """Present but empty, they leave every anchor unsupported and every pair adrift."""
    scores = CATALOGUE.score(example(response="The fee is $25.", contexts=[])).scores
    assert (scores["claim_error"], scores["topic_drift"], scores["lexical_hallucination"]) == (1.0, 0.2, 1.0)


def test_absent_contexts_are_null() -> None:
    """Without contexts there is nothing to go beyond; the other two need none."""
    scores = CATALOGUE.score(example(query="fee", response="The fee is $25.")).scores
    nulls = {name for name, value in scores.items() if value is None}
    assert nulls == {"claim_error", "topic_drift", "lexical_hallucination"}


@pytest.mark.parametrize(
    "response", ["東京都は日本の首都です。", "La tarifa es de 30 euros y no se puede cambiar por la ley."]
)
def test_claims_in_other_languages_are_null_and_drift_is_not(response: str) -> None:
    """Where the claim rules do not serve, their score and the greater of both are null with a reason."""
    scored = CATALOGUE.score(example(response=response, contexts=[{"text": FEES}]))
    assert scored.scores["topic_drift"] == 0.2
    assert scored.scores["claim_error"] is scored.scores["lexical_hallucination"] is None
    assert "language" in scored.reasons["lexical_hallucination"]


def test_explanation_names_the_unsupported_anchors() -> None:
    """Numbers, dates, times and claims that no context supports, and no others."""
    response = "The late fee is $25. It covers 4 visits on 1 May 2026 at 9 am."
    view = example(response=response, contexts=[{"text": FEES}])
    assert overlap.explain_hallucination(view) == (
        "number 4",
        "date 2026-05-01",
        "time 09:00",
        "claim It covers 4 visits on 1 May 2026 at 9 am",
    )


def test_explanation_is_bounded() -> None:
    """However many anchors, few and short ones are told."""
    response = ". ".join(f"The plan covers {number} visits" for number in range(100))
    told = overlap.explain_hallucination(example(response=response, contexts=[]))
    assert len(told) == 10
    long = overlap.explain_hallucination(example(response=f"The plan {'of the plan ' * 90}covers care.", contexts=[]))
    assert [len(line) for line in long] == [120]


# Laws ----------------------------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


def _view(query: str, response: str, contexts: list[str]) -> View:
    # Past the model's own validation, which lets no lone surrogate through.
    event = Interaction(event_id="x", query="", response="")
    parts = tuple(Context.model_construct(text=text) for text in contexts)
    return View(event.model_copy(update={"query": query, "response": response, "contexts": parts}))


@given(ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT, max_size=3))
def test_any_text_is_survived_within_bounds(query: str, response: str, contexts: list[str]) -> None:
    """Whatever the text, no metric raises and every value lies in its bounds."""
    view = _view(query, response, contexts)
    scored = CATALOGUE.score(view)
    assert not scored.raised
    assert all(value is None or (0 <= value <= 1 and math.isfinite(value)) for value in scored.scores.values())
    overlap.explain_hallucination(view)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["The fee is $25. " * 20_000, "👩‍👩‍👧 🎉🎉", "\ud800 lone 12", "e\u0301e\u0301 is 2"])
def test_a_copy_of_a_context_makes_no_error(text: str) -> None:
    """What is copied from a context is supported, however long or odd."""
    scores = CATALOGUE.score(_view("", text, ["other words", text])).scores
    assert scores["claim_error"] == scores["topic_drift"] == scores["lexical_hallucination"] == 0


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_each_metric_is_documented(metric: Metric) -> None:
    """Each docstring has its formula, range, undefined cases, source and limits."""
    assert all(f"{part}:" in metric.text for part in ("Formula", "Range", "Undefined", "Reference", "Known limits"))
