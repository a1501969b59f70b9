"""Laws that every metric of the catalogue keeps, whatever the event holds."""

import math
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from bench import hostile
from ragweir.errors import Rejected
from ragweir.metrics import packs
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, Scored, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Metric, Null
from ragweir.metrics.view import TextLimits, View, example
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Context, Interaction

EVERY = everything(packs.SHIPPED)
CATALOGUE = Catalogue(EVERY)
QUESTIONS = sorted({metric.question for metric in EVERY if metric.question})

_WORDS = """the rate of Territory 118 rose by 0.305% and -0.133% to $604 on Dec 9, 2025 at 14:30 [1] may I don't know
Rule C-1 GPT-4 * source: page yes × multiply • 5-10 1,200 ₹842.50 München naïve 費用は三百円 อัตรา الفيضان e\u0301 👩‍🚒 🏳️
\u202e . ! ? ؟ 。 1. 2) ' ’ - — ** ( ) [99999999999] 1e999"""
WORDS = st.sampled_from([*_WORDS.split(), "\n", "\t", "\x00", "\ud800"])
TEXTS = st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=60)
NUMBERS = st.integers(-3, 60) | st.none()
SCORES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 0.5, 1.0, -1.0, 12.5]) | st.none()
VALUES = TEXTS | SCORES | st.booleans() | st.lists(TEXTS, max_size=2)
TIMES = st.integers(0, 4_000_000_000_000) | st.sampled_from([0, 1000, 1500, 253_402_300_799_000]) | st.none()


def _maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields).map(
        lambda chosen: {name: value for name, value in chosen.items() if value is not None}
    )


CONTEXTS = _maybe(
    text=TEXTS,
    chunk_id=st.sampled_from(["c1", "c2", "c3", "c4"]),
    document_id=st.sampled_from(["d1", "d2"]),
    score=SCORES,
    rank=NUMBERS,
    page=NUMBERS | st.just("xii"),
    retrieval_method=st.sampled_from(["bm25", "knn", "hybrid", "colbert", ""]),
    relevant=st.booleans() | st.floats(0, 4),
)
EXTRACTIONS = _maybe(
    field=st.sampled_from(["roof", "wall"]),
    value=VALUES,
    chunk_number=NUMBERS,
    confidence=st.floats(0, 1) | st.sampled_from(["HIGH", "MEDIUM", "LOW", "SURE"]),
    evidence=TEXTS,
)
SPANS = st.builds(
    dict,
    kind=st.sampled_from(["llm", "tool", "api", "retrieval", "embedding", "rerank", "other"]),
    started_at=TIMES,
    ended_at=TIMES,
    error=TEXTS | st.none(),
)
COUNTS = st.integers(0, 10**12)
EVENTS = _maybe(
    query=TEXTS,
    response=TEXTS,
    expected=TEXTS | st.lists(TEXTS, max_size=3),
    contexts=st.lists(CONTEXTS, max_size=5),
    started_at=TIMES,
    ended_at=TIMES,
    first_token_at=TIMES,
    question_id=st.sampled_from([*QUESTIONS, "other"]),
    answerable=st.booleans(),
    finish_reason=st.sampled_from(["stop", "length", ""]),
    feedback=_maybe(score=SCORES, label=st.just("up")),
    retrieval=_maybe(
        bm25_limit=COUNTS,
        knn_limit=st.integers(0, 3),
        retrieved_before_filter=st.integers(0, 20),
        relevant_ids=st.lists(st.sampled_from(["c1", "c9"]), max_size=3),
    ),
    extractions=st.lists(EXTRACTIONS, max_size=4),
    aggregation=st.lists(_maybe(field=st.just("roof"), value=VALUES, confidence=st.just("HIGH")), max_size=2),
    spans=st.lists(SPANS, max_size=4),
    usage=_maybe(input_tokens=COUNTS, output_tokens=COUNTS, cost_usd=st.floats(0, 1e6)),
)


def _built(model: type, data: dict[str, Any]) -> Any:
    return model.model_construct(**data)


def _clean(value: Any) -> Any:
    """What can travel as JSON: lone surrogates cannot, so that no interaction from the wire holds one."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {name: _clean(item) for name, item in value.items()} if isinstance(value, dict) else value


PATHS = tuple(hostile.paths())
MANY = hostile.LISTS | hostile.PRODUCTS


def assert_lawful(scored: Scored) -> None:
    """No metric raised; a number is finite and within its bounds, a label is one of the listed, a null has a reason."""
    assert scored.raised == []
    for name, value in (scored.scores | scored.categories).items():
        metric = CATALOGUE.metrics[name]
        assert (value is None) == (name in scored.reasons), name
        if isinstance(value, str):
            assert metric.unit == "category"
            assert value in metric.labels, name
        elif value is not None:
            low, high = metric.bounds
            assert math.isfinite(value), name
            assert low is None or value >= low, name
            assert high is None or value <= high, name
            assert metric.unit != "boolean" or value in (0, 1), name


@settings(max_examples=300)
@given(EVENTS)
def test_every_result_is_within_bounds_or_null_with_a_reason(event: dict[str, Any]) -> None:
    """Whatever the event's texts and numbers are."""
    assert_lawful(CATALOGUE.score(example(**_clean(event))))


def _scored(fields: dict[str, Any]) -> Scored | None:
    """What the metrics give for an event as it is sent; None where it is no interaction."""
    try:
        return CATALOGUE.score(View(decode(hostile.event(fields))))
    except Rejected:
        return None


def _paths_of(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every field of a model, and of the models in it."""
    for name, field in model.model_fields.items():
        yield (*above, name)
        inner = [field.annotation, *get_args(field.annotation)]
        for part in [*inner, *(each for one in inner for each in get_args(one))]:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _paths_of(part, (*above, name))


def test_the_rich_event_has_every_field() -> None:
    """So that the law below holds for fields to come."""
    assert _scored(hostile.RICH) is not None
    ours = {"flags"}  # Written by us, and not read from an event.
    assert {path for path in _paths_of(Interaction) if path[0] not in ours} <= {*PATHS}
    scored = CATALOGUE.score(View(decode(hostile.event(hostile.RICH))))
    nulls = [name for name, value in scored.scores.items() if value is None]
    assert len(nulls) < 5, nulls


@pytest.mark.parametrize("question", [*QUESTIONS, "other"])
@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_no_value_of_any_field_makes_a_metric_raise(path: tuple[str, ...], question: str) -> None:
    """Numbers, lists, booleans, texts: in each field, and in that field of all items of a list at once."""
    rich = hostile.RICH | {"question_id": question}
    for value in hostile.VALUES:
        scored = _scored(hostile.changed(rich, path, value))
        if scored is not None:
            assert_lawful(scored)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(PATHS), st.sampled_from(hostile.VALUES), max_size=6))
def test_no_values_of_several_fields_make_a_metric_raise(changes: dict[tuple[str, ...], Any]) -> None:
    """As one value of one field."""
    fields = hostile.RICH
    for path, value in changes.items():
        fields = hostile.changed(fields, path, value)
    scored = _scored(fields)
    if scored is not None:
        assert_lawful(scored)


@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_no_list_makes_a_metric_raise(make: Callable[[int], dict[str, Any]]) -> None:
    """Lists of thousands of items, good ones and wrong ones."""
    scored = _scored(make(20_000))
    if scored is not None:
        assert_lawful(scored)


@settings(max_examples=100)
@given(EVENTS)
def test_the_same_event_gives_the_same_results(event: dict[str, Any]) -> None:
    """Nothing remembered from other events, no hash order and no clock enters a result."""
    clean = _clean(event)
    first = CATALOGUE.score(example(**clean))
    CATALOGUE.score(example(query="something else", response="in between", contexts=[{"text": "entirely"}]))
    assert CATALOGUE.score(example(**clean)) == first


@settings(max_examples=150)
@given(EVENTS, st.randoms(use_true_random=False))
def test_the_order_of_contexts_matters_only_where_the_catalogue_says_so(
    event: dict[str, Any], rng: random.Random
) -> None:
    """An order-free metric gives the same for permuted contexts."""
    clean = _clean(event)
    before = CATALOGUE.score(example(**clean))
    contexts = list(clean.get("contexts", []))
    rng.shuffle(contexts)
    after = CATALOGUE.score(example(**clean | ({"contexts": contexts} if contexts else {})))
    for name, metric in CATALOGUE.metrics.items():
        if metric.order_free and name in before.scores:
            one, other = before.scores[name], after.scores[name]
            assert one == other or (one is not None and other is not None and math.isclose(one, other, abs_tol=2e-6)), (
                name
            )


@settings(max_examples=150)
@given(TEXTS.map(_clean), st.lists(TEXTS.map(_clean), max_size=3))
def test_a_response_copied_from_a_context_is_fully_supported(text: str, others: list[str]) -> None:
    """All support is 1 and nothing is unsupported, wherever it can be told."""
    scored = CATALOGUE.score(example(response=text, contexts=[{"text": other} for other in (*others, text)]))
    for name in CATALOGUE.metrics:
        if name.endswith("_support") and scored.scores[name] is not None:
            assert scored.scores[name] == 1, name
        if name.startswith("unsupported_") and name != "unsupported_risk" and scored.scores[name] is not None:
            assert scored.scores[name] == 0, name


TORTURE: dict[str, str] = {
    "empty": "",
    "spaces": " " * 30_000,
    "one word": "a" * 100_000,
    "words": "word " * 20_000,
    "distinct words": " ".join(f"w{n}x" for n in range(20_000)),
    "CJK": "保険料は三百円です。" * 8_000,
    "right to left": "الفيضان مغطى حتى 2025. " * 4_000,
    "emoji": "👩‍🚒🏳️‍🌈" * 10_000,
    "combining marks": "e" + "\u0301" * 60_000,
    "lone surrogates": "\ud800 \udfff" * 20_000,
    "digits": "9" * 100_000,
    "grouped digits": "1,234," * 16_000,
    "marks": "* " * 50_000,
    "brackets": "[" * 50_000 + "]" * 50_000,
    "citations": "[1]" * 30_000,
    "apostrophes": "a'" * 50_000,
    "hyphens": "a-" * 50_000,
    "dots": "." * 100_000,
    "lines": "\n" * 100_000,
    "capitals": "Aa " * 30_000,
    "nothing to know": "I don't know. " * 20_000,
    "sums": "3 x 4 * " * 40_000,
    "claims": "The insurer covers the roof. " * 10_000,
    "NUL": "\x00" * 100_000,
}


@pytest.mark.parametrize("text", TORTURE.values(), ids=TORTURE.keys())
def test_no_text_is_too_strange_or_too_long(text: str) -> None:
    """Every metric comes to an end on texts of attack size, without raising."""
    contexts = (_built(Context, {"text": text, "chunk_id": "c"}), _built(Context, {"text": text[:1000]}))
    fields = {"event_id": "e", "query": text, "response": text, "expected": (text,), "contexts": contexts}
    view = View(_built(Interaction, fields), TextLimits(max_tokens=2_000))
    assert CATALOGUE.score(view).raised == []
    for question in QUESTIONS:
        event: Interaction = _built(Interaction, {**fields, "question_id": question})
        own = Catalogue(metric for metric in EVERY if metric.question == question)
        assert own.score(View(event, TextLimits(max_tokens=2_000))).raised == []


def _calls(work: Callable[[], object]) -> int:
    """How many functions are called: a measure of work that no other load disturbs."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def _long_event(words: int) -> Interaction:
    rng = random.Random(words)
    vocabulary = [f"{a}{b}" for a in ("roof", "Claim", "rate", "zone", "City") for b in ("", "s", "er", "2024", "-7")]
    text = " ".join(rng.choice([*vocabulary, "covers", "the", "12.5%", "$1,200", "Dec 9, 2025."]) for _ in range(words))
    half = text[: len(text) // 2]
    return example(query=half, response=text, expected=[half], contexts=[{"text": text}, {"text": half}]).interaction


def test_work_grows_no_faster_than_the_text() -> None:
    """Ten times the text takes at most thirteen times the calls, from 3 KB on."""
    sizes = [500, 5_000]
    work = [_calls(lambda n=n: CATALOGUE.score(View(_long_event(n)))) for n in sizes]  # type: ignore[misc]
    made = [_calls(lambda n=n: View(_long_event(n))) for n in sizes]  # type: ignore[misc]
    small, large = (total - only for total, only in zip(work, made, strict=True))
    assert large < 13 * small


def test_a_metric_that_raises_is_null_named_and_counted() -> None:
    """One broken metric costs no other."""

    def broken(_: View) -> float:
        """Breaks."""
        raise ZeroDivisionError("secret content")

    def fine(_: View) -> float:
        """Works."""
        return 1.0

    def nothing(_: View) -> Null:
        """Has none."""
        return Null("for a reason")

    def endless(_: View) -> float:
        """Is not finite."""
        return math.inf

    made = [Metric(each, "test", "score", "neither", (), "here") for each in (broken, fine, nothing, endless)]
    scored = Catalogue(made).score(example())
    assert scored.raised == ["broken"]
    assert scored.scores == {"broken": None, "fine": 1.0, "nothing": None, "endless": None}
    assert scored.reasons == {
        "broken": "the metric raised ZeroDivisionError",
        "nothing": "for a reason",
        "endless": "the result is not a finite number",
    }


def test_what_is_off_is_not_computed() -> None:
    """Groups and single metrics can be switched off by name, and unknown names are an error."""
    called = []

    def watched(_: View) -> float:
        """Tells that it was computed."""
        called.append(1)
        return 1.0

    metric = Metric(watched, "test", "score", "neither", (), "here")
    for off in ("watched", "test"):
        assert Catalogue([metric], [off]).score(example()).scores == {}
    assert called == []
    with pytest.raises(ValueError, match="no metric or group is called wathced"):
        Catalogue([metric], ["wathced"])
    with pytest.raises(ValueError, match="two metrics are called watched"):
        Catalogue([metric, metric])


JUDGED = """judge_relevance judge_faithfulness judge_hallucination judge_contextual_relevance answer_correctness
context_recall_llm ragas_faithfulness ragas_context_precision ragas_context_precision_at_k ragas_context_recall
ragas_answer_relevance ragas_score factual_accuracy_percentage factual_accuracy_grade answer_class
semantic_similarity_percentage bert_score_f1"""


def test_judged_metrics_are_listed_by_suite_and_never_scored() -> None:
    """The documents' names are all there, under their suite's, and cost an event nothing."""
    judged = [metric for metric in EVERY if metric.cost != "free"]
    assert [metric.name for metric in judged] == JUDGED.split()
    assert list(dict.fromkeys(metric.group for metric in judged)) == list(suites())
    assert {metric.group for metric in judged if metric.cost == "local"} == {"semantic"}
    scored = CATALOGUE.score(example(contexts=[{"text": "Heath."}], expected="Heath.", question_id=QUESTIONS[0]))
    assert not {metric.name for metric in judged} & {*scored.scores, *scored.categories, *scored.reasons}
    assert len(scored.scores | scored.categories) > 60
    aliases = CATALOGUE.metrics["answer_class"].aliases
    assert aliases == ("correct_answers_count", "wrong_answers_count", "dont_know_answers_count")


def test_what_costs_more_is_neither_computed_nor_explained() -> None:
    """Whatever function stands in its line: only its suite knows what to call it with."""

    def costly(_: object) -> float:
        """Must not be called."""
        raise AssertionError

    def told(_: object) -> tuple[str, ...]:
        raise AssertionError

    for cost in ("llm", "local"):
        for question in (None, "Q"):
            line = Metric(costly, "test", "ratio", "higher", (), "here", cost, question=question, explain=told)
            catalogue = Catalogue([line])
            view = example(question_id="Q")
            assert catalogue.score(view).scores == {}
            assert catalogue.score(view).raised == []
            assert catalogue.explain(view) == {}
            assert list(catalogue.metrics) == ["costly"]


def test_judged_metrics_can_be_summed_up_and_switched_off() -> None:
    """Windows know their bounds; `off` takes them, and their suites, by name."""
    schemes = Aggregator(CATALOGUE).schemes
    assert {metric.name for metric in EVERY if metric.unit != "category"} == schemes.keys()
    assert schemes["ragas_score"] != schemes["judge_relevance"]
    left = Catalogue(EVERY, ["ragas", "answer_class"]).metrics
    assert not {"ragas_score", "ragas_faithfulness", "answer_class"} & left.keys()
    assert "judge_relevance" in left


def test_every_metric_is_described() -> None:
    """Each line of the catalogue has a meaning of one line, its formula, its undefined cases and its reference."""
    for metric in EVERY:
        assert metric.meaning.endswith((".", "?")), metric.name
        assert len(metric.meaning) <= 120, metric.name
        for part in ("Formula:", "Range:", "Undefined:", "Reference:"):
            assert part in metric.text or metric.question, (metric.name, part)
        for need in metric.needs:
            assert need in Interaction.model_fields, metric.name
        assert (metric.unit == "category") == bool(metric.labels), metric.name
