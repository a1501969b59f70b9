"""The evidence about one answer, which `ragweir explain` prints and the console's page shows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.interaction import Interaction, Span
from ragweir.schemas.label import Label
from ragweir.streams.analysis.evidence.answer_evidence import (
    AnswerEvidence,
    EvidenceRules,
    answer_evidence,
    evidence_data,
)
from ragweir.streams.analysis.evidence.pieces import Mark, pieces
from ragweir.streams.analysis.evidence.waterfall import waterfall
from ragweir.streams.analysis.originals import Original
from ragweir.streams.settings import Settings, Slo

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
CATALOGUE = Catalogue(everything())
CONTEXTS = [
    {"text": "Call us at noon.", "rank": 2},
    {"text": "Return shoes within 30 days. Fees apply.", "rank": 3, "document_id": "d7"},
    {"text": "About us.", "rank": 1},
]
RULES = EvidenceRules.of(Settings(slo=(Slo(name="grounded", metric="unsupported_risk", at_most=0.5, objective=0.9),)))


def found(
    response: str = "Call us. You may return shoes for 90 days and get a voucher [2].",
    contexts: list[dict[str, Any]] | None = CONTEXTS,
    scores: dict[str, float | None] | None = None,
    labels: list[Label] | None = None,
    **fields: Any,
) -> AnswerEvidence:
    event = Interaction.model_validate({"event_id": "1", "query": "Shoes?", "response": response, "contexts": contexts})
    own = CATALOGUE.score(View(event)).scores if scores is None else scores
    evaluation = Evaluation(event_id="1", event_time=NOW, catalogue_version="3", scores=own, **fields)
    return answer_evidence(evaluation, Original(event, "line 1 of a.jsonl"), RULES, labels)


def label(value: bool | str, rater: str = "a", question: str = "supported") -> Label:
    return Label(event_id="1", question=question, value=value, rater=rater, kind="expert", blind=True, time=NOW)


@pytest.mark.parametrize(
    ("evidence", "text", "is_bad"),
    [
        (
            lambda: found("Call us. Vouchers wait in Lyon until 2030."),
            "1 of 2 sentences lacks support; 1 number occurs in no passage; not judged",
            True,
        ),
        (lambda: found(labels=[]), "1 number occurs in no passage; not judged; nobody labelled it", True),
        (lambda: found("Call us."), "every sentence has support; not judged", False),
        (
            lambda: found("Return shoes within days to Lyon. Call Ada."),
            "every sentence has support for at least half of its words; 2 words occur in no passage; not judged",
            False,
        ),
        (lambda: found(contexts=None), "support by passages is not known; not judged", None),
        (lambda: found(" "), "the answer is empty; not judged", True),
        (
            lambda: found("The documents do not mention vouchers."),
            "it declines to answer; 1 of 1 sentence lacks support; not judged",
            None,
        ),
        (
            lambda: found("Call us.", scores={"judge_faithfulness": 0.2}, stage="judged"),
            "every sentence has support; judge_faithfulness 0.2",
            True,
        ),
        (
            lambda: found("Call us.", scores={"judge_faithfulness": 0.2}, labels=[label(True), label(True, "b")]),
            "every sentence has support; judge_faithfulness 0.2; 2 people call it good (supported)",
            False,
        ),
        (
            lambda: found("Call us.", labels=[label(True), label(False, "b"), label("cannot_tell", "c", "helpful")]),
            "every sentence has support; not judged; supported: people disagree; helpful: people cannot tell",
            False,
        ),
        (
            lambda: found(
                "Call us.",
                decision=Decision(suites=(SuiteDecision(suite="rubric", status="failed", probability=1),)),
                labels=[label(False)],
            ),
            "every sentence has support; the judge failed; 1 person calls it bad (supported)",
            True,
        ),
    ],
)
def test_the_verdict_is_said_in_words(evidence: Any, text: str, is_bad: bool | None) -> None:
    """People decide before the judge, and the judge before the passages; nothing unknown counts as good."""
    verdict = evidence().verdict
    assert (verdict.text, verdict.is_bad) == (text, is_bad)


@pytest.mark.parametrize(
    ("support", "text"),
    [(1.0, "every sentence has support"), (0.9, "every sentence has support for at least half of its words")],
)
def test_without_texts_sentences_have_whole_support_only_if_all_words_have(support: float, text: str) -> None:
    scores = {"unsupported_sentences": 0.0, "context_support": support}
    evaluation = Evaluation(event_id="1", event_time=NOW, catalogue_version="3", scores=scores)
    assert answer_evidence(evaluation, None, RULES).verdict.text == f"{text}; not judged"


def test_the_verdict_without_the_texts_rests_on_the_scores() -> None:
    """Of an event that cannot be read again the share of sentences is known."""
    evaluation = Evaluation(
        event_id="1", event_time=NOW, catalogue_version="3", scores={"unsupported_sentences": 0.43, "refusal": 0.0}
    )
    missing = answer_evidence(evaluation, Original(None, "", "Kafka no longer has the text"), RULES)
    assert missing.verdict.text == "43% of its sentences lack support; not judged"
    assert (missing.texts, missing.why) == (None, "Kafka no longer has the text")
    assert evidence_data(missing) == {"verdict": missing.verdict.text, "sentences": None, "why": missing.why}


def test_a_sentence_is_shown_with_what_its_nearest_passage_says() -> None:
    """Its marks, the sentence of the passage that is nearest, the values that differ, and what it cites."""
    texts = found().texts
    assert texts is not None
    first, second = texts.sentences
    assert (first.has_remarks, first.passage, first.excerpt) == (False, 1, "Call us at noon.")
    assert [(each.text, each.kind) for each in second.pieces] == [
        ("You may return shoes for ", ""),
        ("90", "differs"),
        (" days and ", ""),
        ("get", "unsupported"),
        (" a ", ""),
        ("voucher", "unsupported"),
        (" ", ""),
        ("[2]", "citation"),
        (".", ""),
    ]
    assert (second.passage, second.passage_sentence, second.excerpt) == (2, 1, "Return shoes within 30 days.")
    assert (second.in_no_passage, second.differing, second.instead, second.cited) == (
        ("90", "get", "voucher"),
        ("90",),
        ("30",),
        (2,),
    )
    assert [(each.number, each.is_cited, each.nearest_to) for each in texts.passages] == [
        (2, True, (2,)),
        (3, False, ()),
        (1, False, (1,)),
    ]
    marked = [(each.text, each.kind) for each in texts.passages[0].sentences[0].pieces if each.kind]
    assert marked == [("Return", "shared"), ("shoes", "shared"), ("30", "differs"), ("days", "shared")]


def test_passages_are_shown_without_an_answer_to_compare_with() -> None:
    """An answer that was not captured leaves the passages as they are, by rank."""
    event = Interaction.model_validate(
        {"event_id": "1", "query": "?", "response": None, "contexts": [*CONTEXTS, {"chunk_id": "c"}]}
    )
    evaluation = Evaluation(event_id="1", event_time=NOW, catalogue_version="3")
    texts = answer_evidence(evaluation, Original(event, "here"), RULES).texts
    assert texts is not None
    assert texts.support.why == "the content of answer or contexts was not captured"
    assert [(each.number, bool(each.sentences)) for each in texts.passages] == [
        (3, True),
        (1, True),
        (2, True),
        (4, False),
    ]


def test_bad_scores_come_first_with_the_rules_that_call_them_bad() -> None:
    """An SLO and a question's threshold are rules; without one the distance from the best value orders."""
    shown = found(scores={"context_support": 0.5, "unsupported_risk": 0.9, "response_words": 7, "number_support": 0.0})
    first = shown.groups[0]
    assert (first.name, first.bad) == ("grounding", 1)
    assert [each.name for each in first.scores] == ["unsupported_risk", "number_support", "context_support"]
    assert [(rule.name, rule.bound, rule.is_bad) for rule in first.scores[0].rules] == [
        ("SLO grounded", "at most 0.5", True),
        ("question supported", "at most 0.7", True),
    ]
    assert [each.is_bad for each in first.scores] == [True, None, None]
    nulls = found(scores={"a": None, "b": None}, reasons={"a": "no contexts", "b": "no contexts"}).nulls
    assert nulls == {"no contexts": ["a", "b"]}


def test_steps_are_a_waterfall() -> None:
    """Each step stands below its parent, in the order of beginnings; one without times has no bar, a circle no end."""

    def step(name: str, first: float | None, last: float | None, parent: str | None = None) -> Span:
        times = (None if at is None else NOW + timedelta(seconds=at) for at in (first, last))
        started, ended = times
        return Span(kind="tool", name=name, id=name, parent_id=parent, started_at=started, ended_at=ended)

    spans = (
        step("answer", 1, 4),
        step("search", 0, 1),
        step("index", 0.25, 0.5, "search"),
        step("untimed", None, None),
        step("hen", 2, 2, "egg"),
        step("egg", 2, 1, "hen"),
    )
    event = Interaction(event_id="1", query="", response="", started_at=NOW, ended_at=NOW + timedelta(seconds=5))
    shown = waterfall(event.model_copy(update={"spans": spans}))
    assert shown is not None
    assert shown.total_ms == 5_000
    assert [(each.span.name, each.depth, each.offset_ms, each.left, each.width) for each in shown.steps] == [
        ("search", 0, 0, 0, 0.2),
        ("index", 1, 250, 0.05, 0.05),
        ("answer", 0, 1_000, 0.2, 0.6),
        ("untimed", 0, None, 0, 0),
        ("hen", 0, 2_000, 0.4, 0),
        ("egg", 1, 2_000, 0.4, 0),
    ]
    assert waterfall(event) is None


def test_marks_that_overlap_are_divided() -> None:
    """Tokens of scripts without spaces are pairs, which overlap: they are one mark; the first of two kinds counts."""
    marks = [Mark(1, 3, "unsupported"), Mark(2, 4, "unsupported"), Mark(3, 5, "differs"), Mark(7, 9, "shared")]
    assert [(each.text, each.kind) for each in pieces("abcdefgh", 0, 8, marks)] == [
        ("a", ""),
        ("bcd", "unsupported"),
        ("e", "differs"),
        ("fg", ""),
        ("h", "shared"),
    ]


WORDS = "30 90 [1] [2,7] fee fees Lyon of . ! 期限九十天 。 مدة \u202e \n \n\n".split(" ")
written = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)


@pytest.mark.slow
@settings(max_examples=100)
@given(written, st.lists(written, max_size=3), st.sampled_from([TextLimits(), TextLimits(max_tokens=5)]))
def test_no_character_is_lost(response: str, passages: list[str], limits: TextLimits) -> None:
    """Sentences, and what is behind them, are the answer but for white space; a passage is shown whole."""
    fields = {"event_id": "1", "query": "", "response": response, "contexts": [{"text": text} for text in passages]}
    event = Interaction.model_validate(fields)
    evaluation = Evaluation(event_id="1", event_time=NOW, catalogue_version="3")
    rules = EvidenceRules(CATALOGUE.metrics, limits)
    texts = answer_evidence(evaluation, Original(event, "here"), rules).texts
    assert texts is not None
    parts = [each.text for each in texts.sentences]
    assert ["".join(piece.text for piece in each.pieces) for each in texts.sentences] == parts
    assert "".join("".join([*parts, texts.rest]).split()) == "".join(response.split())
    for each in texts.passages:
        shown = "".join(part.before + "".join(piece.text for piece in part.pieces) for part in each.sentences)
        assert shown + each.rest == passages[each.number - 1]
