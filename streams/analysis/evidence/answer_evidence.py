"""All evidence about one answer. `ragweir explain` and the console's page of an answer are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragweir.metrics.metric import Metric
from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import Label
from ragweir.streams.analysis.evidence.answer_passages import ShownPassage, bare_passages, shown_passages, whole
from ragweir.streams.analysis.evidence.answer_sentences import ShownSentence, shown_sentences
from ragweir.streams.analysis.evidence.answer_verdict import AnswerVerdict, answer_verdict
from ragweir.streams.analysis.evidence.score_groups import (
    NO_RULES,
    ScoreGroup,
    ScoreRules,
    ShownScore,
    nulls_by_reason,
    score_groups,
)
from ragweir.streams.analysis.evidence.support_evidence import MAX_SENTENCE, MAX_SENTENCES, Evidence, cut, evidence_of
from ragweir.streams.analysis.evidence.waterfall import Waterfall, waterfall
from ragweir.streams.analysis.labels.criteria import each_criterion
from ragweir.streams.analysis.originals import Original
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import Question

_LIMITS = TextLimits()


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """The metrics, limits, bounds and questions by which answers are shown."""

    catalogue: Mapping[str, Metric]
    limits: TextLimits = _LIMITS
    rules: ScoreRules = NO_RULES
    questions: Sequence[Question] = ()

    @classmethod
    def of(cls, settings: Settings) -> EvidenceRules:
        """Return the rules of the settings.

        Raises:
            ConfigurationError: if a metric is invalid, or a question names one that is not there.
        """
        catalogue = known_catalogue(settings).metrics
        criteria = [(question.name, found) for question, found in each_criterion(settings.labels, catalogue)]
        rules = ScoreRules(settings.slo, criteria)
        return cls(catalogue, settings.limits.view, rules, settings.labels.questions)


@dataclass(frozen=True, slots=True)
class AnswerTexts:
    """The texts of an event that was read again."""

    event: Interaction
    place: str
    """The place where it was read."""
    support: Evidence
    sentences: tuple[ShownSentence, ...]
    """The sentences of the answer, if the support is known."""
    rest: str
    """The answer behind them; all of it if the support is not known."""
    passages: tuple[ShownPassage, ...]
    """Cited ones first, then by rank."""
    steps: Waterfall | None

    @property
    def weakest(self) -> list[ShownSentence]:
        """The sentences with words in no passage, the largest share of such words first."""
        if self.support.spans is None:
            return []
        by_span = {each.span: each for each in self.sentences}
        return [by_span[span] for span in self.support.spans.weakest]


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """Everything that is known of one answer."""

    evaluation: Evaluation
    verdict: AnswerVerdict
    texts: AnswerTexts | None
    """None if the event could not be read again."""
    why: str
    """The reason why there are no texts."""
    groups: tuple[ScoreGroup, ...]
    nulls: Mapping[str, Sequence[str]]
    """The metrics without a value by the reason."""
    labels: tuple[Label, ...] = field(default=())
    """The labels of people that hold, the newest first."""

    @property
    def explained(self) -> list[ShownScore]:
        """The scores that the judge explains."""
        return [score for group in self.groups for score in group.scores if score.explanation]


def answer_evidence(
    evaluation: Evaluation, original: Original | None, rules: EvidenceRules, labels: Sequence[Label] | None = None
) -> AnswerEvidence:
    """Return the evidence about an answer.

    Args:
        evaluation: its newest evaluation.
        original: the event, as it was read again; None if nobody asked for it.
        rules: the rules by which it is shown.
        labels: the labels of the event that hold; None if they were not looked up.
    """
    groups = score_groups(evaluation, rules.catalogue, rules.rules)
    event = original.interaction if original else None
    texts = _texts(event, original.place, rules.limits) if event and original else None
    spans = texts.support.spans if texts else None
    return AnswerEvidence(
        evaluation,
        answer_verdict(evaluation, groups, spans, rules.questions, labels),
        texts,
        original.why if original and event is None else "",
        tuple(groups),
        nulls_by_reason(evaluation),
        tuple(sorted(labels or (), key=lambda label: label.time, reverse=True)),
    )


def _texts(event: Interaction, place: str, limits: TextLimits) -> AnswerTexts:
    view = View(event, limits)
    support = evidence_of(view)
    contexts, answer = event.contexts or (), event.response or ""
    if support.spans is None:
        passages = bare_passages(contexts)
        return AnswerTexts(event, place, support, (), answer, tuple(passages), waterfall(event))
    sentences = tuple(shown_sentences(view, support.spans))
    last = support.spans.sentences[-1].stop if sentences else 0
    return AnswerTexts(
        event,
        place,
        support,
        sentences,
        whole(answer, view.response)[last:],
        tuple(shown_passages(contexts, sentences, view)),
        waterfall(event),
    )


def evidence_data(found: AnswerEvidence) -> dict[str, Any]:
    """Return the verdict, and the sentences that have words in no passage, as JSON has them, weakest first, bounded."""
    verdict, texts = found.verdict.text, found.texts
    if texts is None or texts.support.spans is None:
        return {"verdict": verdict, "sentences": None, "why": texts.support.why if texts else found.why}
    weakest = texts.weakest
    sentences = [
        {
            "text": cut(each.text, MAX_SENTENCE),
            "in_no_passage": each.in_no_passage,
            "in_query_alone": each.in_query_alone,
            "nearest_passage": each.passage,
            "nearest_sentence": cut(each.excerpt, MAX_SENTENCE),
            "values_in_no_passage": each.differing,
            "values_of_nearest_passage": each.instead,
            "cites": each.cited,
        }
        for each in weakest[:MAX_SENTENCES]
    ]
    return {"verdict": verdict, "sentences": sentences, "sentences_left_out": len(weakest) - len(sentences)}
