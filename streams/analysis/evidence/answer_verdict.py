"""The verdict on one answer in words: by the passages, by the judge, and by people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragweir.metrics.metric import Metric
from ragweir.metrics.support_spans import SentenceSpan, SupportSpans
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.label import Label
from ragweir.streams.analysis.evidence.score_groups import ScoreGroup, ShownScore
from ragweir.streams.analysis.labels.verdicts import answers_of
from ragweir.streams.settings.labels import Question

NOBODY = "nobody labelled it"
WHOLE = "every sentence has support"
MOST = "every sentence has support for at least half of its words"
_STATES = {
    "selected": "the judge has not answered yet",
    "deferred": "the judge's budget is spent for now",
    "expired": "the judge did not answer in time",
    "failed": "the judge failed",
    "not_selected": "not judged",
    "judged": "the judge gave no number",
}
"""States of judging an event that has no judged number; where its suites differ, the first one here counts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of the verdict, without a full stop."""

    text: str
    is_bad: bool | None
    """True if it speaks against the answer, false if for it, None if neither."""


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """The verdict on an answer."""

    support: tuple[Finding, ...]
    judge: tuple[Finding, ...]
    people: tuple[Finding, ...]
    """Empty if labels were not looked up."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order in which they are read."""
        return *self.support, *self.judge, *self.people

    @property
    def text(self) -> str:
        """The verdict in one line."""
        return "; ".join(each.text for each in self.findings)

    @property
    def is_bad(self) -> bool | None:
        """True if the answer looks bad: people decide before the judge, and the judge before the passages."""
        for findings in (self.people, self.judge, self.support):
            known = [each.is_bad for each in findings if each.is_bad is not None]
            if known:
                return any(known)
        return None


def answer_verdict(
    evaluation: Evaluation,
    groups: Sequence[ScoreGroup],
    spans: SupportSpans | None,
    questions: Sequence[Question],
    labels: Sequence[Label] | None,
) -> AnswerVerdict:
    """Return the verdict on an answer.

    Args:
        evaluation: the newest evaluation.
        groups: its scores.
        spans: the support of the answer; None if it is not known.
        questions: the questions that people answer.
        labels: the labels of the event that hold; None if they were not looked up.
    """
    people = () if labels is None else tuple(_people(questions, labels))
    return AnswerVerdict(tuple(_support(evaluation.scores, spans)), tuple(_judge(evaluation, groups)), people)


def _support(scores: Mapping[str, float | None], spans: SupportSpans | None) -> Iterator[Finding]:
    if scores.get("empty_response") == 1:
        yield Finding("the answer is empty", is_bad=True)
        return
    if refuses := scores.get("refusal") == 1:
        yield Finding("it declines to answer", is_bad=None)
    if spans is None:
        share = scores.get("unsupported_sentences")
        if share is None:
            yield Finding("support by passages is not known", is_bad=None)
        elif share:
            yield Finding(f"{share:.0%} of its sentences lack support", is_bad=None if refuses else True)
        else:
            yield Finding(WHOLE if scores.get("context_support") == 1 else MOST, is_bad=False)
        return
    sentences = [each for each in spans.sentences if each.stems]
    weak = sum(each.is_weak for each in sentences)
    differing = len({value.token for each in sentences for value in each.values})
    if not sentences:
        yield Finding("the answer has no words to compare", is_bad=None)
    elif weak:
        lacking = f"{weak} of {_plural(len(sentences), 'sentence')} {'lacks' if weak == 1 else 'lack'} support"
        yield Finding(lacking, is_bad=None if refuses else True)
    elif not differing:
        yield from _without_weak(sentences)
    if differing:
        yield Finding(
            f"{_plural(differing, 'number')} {'occurs' if differing == 1 else 'occur'} in no passage",
            is_bad=None if refuses else True,
        )


def _without_weak(sentences: Sequence[SentenceSpan]) -> Iterator[Finding]:
    """Yield the findings on sentences that have support for half of their words or more."""
    lacking = len({word.stem for each in sentences for word in each.unsupported})
    yield Finding(MOST if lacking else WHOLE, is_bad=False)
    if lacking:
        yield Finding(f"{_plural(lacking, 'word')} {'occurs' if lacking == 1 else 'occur'} in no passage", is_bad=None)


def _judge(evaluation: Evaluation, groups: Sequence[ScoreGroup]) -> Iterator[Finding]:
    judged = [each for group in groups for each in group.scores if _is_judged(each.metric)]
    decided = [each for each in judged if each.rules] or [each for each in judged if each.distance is not None][:1]
    for score in decided:
        yield _number(score)
    if decided:
        return
    states = {suite.status for suite in evaluation.decision.suites}
    state = next((text for status, text in _STATES.items() if status in states), "not judged")
    yield Finding(state, is_bad=None)


def _is_judged(metric: Metric | None) -> bool:
    return metric is not None and metric.cost == "llm"


def _number(score: ShownScore) -> Finding:
    return Finding(f"{score.name} {score.value:.3g}", score.is_bad)


def _people(questions: Sequence[Question], labels: Sequence[Label]) -> Iterator[Finding]:
    if not labels:
        yield Finding(NOBODY, is_bad=None)
    for question in questions:
        own = [label for label in labels if label.question == question.name]
        for answer in answers_of(question, own)[0]:
            bad, said = sum(answer.said), len(answer.said)
            if not said:
                yield Finding(f"{question.name}: people cannot tell", is_bad=None)
            elif answer.bad is None:
                yield Finding(f"{question.name}: people disagree", is_bad=None)
            else:
                most = bad if answer.bad else said - bad
                of = _plural(said, "person", "people")
                say = "call" if said > 1 else "calls"
                count = of if most == said else f"{most} of {of}"
                yield Finding(f"{count} {say} it {'bad' if answer.bad else 'good'} ({question.name})", answer.bad)


def _plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun.

    >>> _plural(1, "sentence"), _plural(2, "person", "people")
    ('1 sentence', '2 people')
    """
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
