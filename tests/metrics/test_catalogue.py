"""Laws that every metric of the catalogue keeps, whatever the event holds."""

import math
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from bench import hostile
from ragweir.metrics import packs
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.laws import corpus
from ragweir.metrics.laws.check import Check
from ragweir.metrics.laws.laws import LAWFUL, LAWS, Breach, Subject
from ragweir.metrics.laws.work import calls_growth
from ragweir.metrics.metric import Metric, Null
from ragweir.metrics.view import TextLimits, View, example
from ragweir.schemas.interaction import Context, Interaction

EVERY = everything(packs.SHIPPED)
CATALOGUE = Catalogue(EVERY)
SUBJECT = Subject(CATALOGUE)
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


PATHS = tuple(corpus.paths())
MANY = hostile.LISTS | hostile.PRODUCTS


def breaches(fields: dict[str, Any]) -> list[Breach]:
    """The breaches for an event as it is sent, of the law that holds for anything; none if it is no interaction."""
    event = corpus.interaction(fields)
    return [] if event is None else [*SUBJECT.breaches(event, LAWFUL)]


@pytest.mark.slow
@settings(max_examples=150)
@pytest.mark.parametrize("law", LAWS)
@given(EVENTS)
def test_every_metric_keeps_every_law(law: str, event: dict[str, Any]) -> None:
    """Whatever the event's texts and numbers are."""
    assert [*SUBJECT.breaches(example(**_clean(event)).interaction, {law: LAWS[law]})] == []


@pytest.mark.heavy
@pytest.mark.parametrize("question", [*QUESTIONS, "other"])
def test_every_metric_keeps_every_law_on_the_events_of_the_command(question: str) -> None:
    """`ragweir metrics check` takes the same events; some are as here, the long texts in `make test-long`."""
    events = [*corpus.ordinary(), *corpus.texts(corpus.SIZES[:-1])]
    for fields in events:
        event = corpus.interaction(fields | {"question_id": question})
        assert event is not None
        assert [*SUBJECT.breaches(event)] == []


@pytest.mark.long
def test_the_command_finds_nothing() -> None:
    report = Check(tuple(CATALOGUE.free.values())).run()
    assert report.broken == []
    assert [name for name, computed in report.computed.items() if not computed] == []


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
    rich = corpus.interaction(corpus.RICH)
    assert rich is not None
    ours = {"flags"}  # Written by us, and not read from an event.
    assert {path for path in _paths_of(Interaction) if path[0] not in ours} <= {*PATHS}
    nulls = [name for name, value in CATALOGUE.score(View(rich)).scores.items() if value is None]
    assert len(nulls) < 5, nulls


@pytest.mark.heavy
@pytest.mark.parametrize("question", [*QUESTIONS, "other"])
@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_no_value_of_any_field_makes_a_metric_raise(path: tuple[str, ...], question: str) -> None:
    """Numbers, lists, booleans, texts: in each field, and in that field of all items of a list at once."""
    for fields in corpus.with_values(path, corpus.RICH | {"question_id": question}):
        assert breaches(fields) == []


@pytest.mark.heavy
@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(PATHS), st.sampled_from(corpus.VALUES), max_size=6))
def test_no_values_of_several_fields_make_a_metric_raise(changes: dict[tuple[str, ...], Any]) -> None:
    """As one value of one field."""
    fields = corpus.RICH
    for path, value in changes.items():
        fields = corpus.changed(fields, path, value)
    assert breaches(fields) == []


@pytest.mark.slow
@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_no_list_makes_a_metric_raise(make: Callable[[int], dict[str, Any]]) -> None:
    """Lists of thousands of items, good ones and wrong ones."""
    assert breaches(make(20_000)) == []


@pytest.mark.slow
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


TORTURE = {kind: corpus.text(kind, 100_000) for kind in corpus.TEXTS} | {
    "empty": "",
    "distinct words": " ".join(f"w{n}x" for n in range(20_000)),
    "lone surrogates": "\ud800 \udfff" * 20_000,
}


@pytest.mark.heavy
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


@pytest.mark.slow
def test_work_grows_no_faster_than_the_text() -> None:
    """Ten times the text takes at most thirteen times the calls, from 3 KB on."""
    assert calls_growth(CATALOGUE) == ""


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
