"""Answers with the judge's verdicts, for a terminal: question, passages, answer, scores with reasons, and the cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.text import Text

from ragweir.metrics.judged.suites import suites
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.commands.screens.evaluation_summary import judge_outcome
from ragweir.streams.runtime.text.terminal import dollars, printable
from ragweir.streams.services.judge.probe import unpriced
from ragweir.streams.settings import Settings

_TEXT_CHARACTERS, _PASSAGE_CHARACTERS, _ID_CHARACTERS = 600, 300, 100
_PASSAGES = 3
"""The most passages that are shown of one answer."""
_MICRO = 1_000_000


def verdicts(number: int, request: JudgeRequest, evaluation: Evaluation) -> Iterator[Text]:
    """Yield the lines of one answer."""
    yield Text.assemble((f"{number}. {printable(evaluation.event_id, _ID_CHARACTERS)}", "bold"))
    yield _named("question", printable(request.query, _TEXT_CHARACTERS))
    passages = request.contexts or ()
    for place, passage in enumerate(passages[:_PASSAGES], 1):
        yield _named(f"passage {place}", printable(passage, _PASSAGE_CHARACTERS))
    if len(passages) > _PASSAGES:
        yield _named("", f"and {len(passages) - _PASSAGES} more passages")
    yield _named("answer", printable(request.response, _TEXT_CHARACTERS))
    chosen = {suite.suite for suite in evaluation.decision.suites}
    for metric in (metric.name for name in chosen & suites().keys() for metric in suites()[name].metrics):
        value = evaluation.scores.get(metric, evaluation.categories.get(metric))
        told = evaluation.explanations.get(metric) or evaluation.reasons.get(metric) or ""
        shown = "none" if value is None else value if isinstance(value, str) else f"{value:.2f}"
        yield _named(metric, f"{shown}{told and ': '}{printable(told, _TEXT_CHARACTERS)}")
    if evaluation.judge is not None:
        used = f"{evaluation.judge.input_tokens:,} tokens in, {evaluation.judge.output_tokens:,} out"
        cost = "from the cache" if evaluation.judge.cached else f"{_dollars(evaluation.judge.cost_usd)}, {used}"
        yield _named("cost", cost)
    yield Text()


def _dollars(amount: float) -> str:
    return dollars(round(amount * _MICRO))


def _named(name: str, text: str) -> Text:
    return Text.assemble((f"   {name:<25} ", "dim"), text)


def spending(tried: Collection[object], judged: Sequence[Evaluation], spent: int, effective: Settings) -> str:
    """Return one line: the numbers of answers, the cost of all and of a thousand, and the day's budget beside it."""
    whole = [each for each in judged if judge_outcome(each) == "judged"]
    text = f"{len(tried)} answers tried, {len(whole)} judged, {len(tried) - len(whole)} not; {dollars(spent)} spent"
    if names := unpriced(effective.judge):
        return f"{text}, not counting {' and '.join(names)}, without a price"
    each = [evaluation.judge.cost_usd for evaluation in whole if evaluation.judge and not evaluation.judge.cached]
    if not each or not sum(each):
        return text
    mean, budget = sum(each) / len(each), effective.judge.daily_budget_usd
    text += f"; 1,000 such answers cost {_dollars(1_000 * mean)}"
    return text if budget is None else f"{text}, and the day's {_dollars(budget)} judge about {budget / mean:,.0f}"
