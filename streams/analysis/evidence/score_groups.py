"""The scores of one event by group, bad ones first, and the metrics without a value by their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragweir.metrics.criterion import Criterion
from ragweir.metrics.metric import Metric
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.services.shared.dimensions import label
from ragweir.streams.settings import Slo

OTHERS = "of metrics that are not in the catalogue"


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """A bound that divides bad values of a metric from good ones."""

    name: str
    """Its origin, such as `SLO grounded`."""
    bound: str
    """Its bound, such as `at most 0.5`."""
    is_bad: bool
    """True if the value of the event is bad."""


@dataclass(frozen=True, slots=True)
class ShownScore:
    """The value of one metric."""

    name: str
    value: float | str
    metric: Metric | None
    """The row of the catalogue; None for a metric that it lacks."""
    rules: tuple[ScoreRule, ...]
    distance: float | None
    """Distance from the best value as a share of the bounds, 0 to 1; None where that is not defined."""
    place: float | None
    """Place of the value between its bounds, 0 to 1; None without two bounds."""
    explanation: str
    """The judge's explanation."""
    evidence: tuple[str, ...]
    """Short texts that the value follows from."""

    @property
    def is_bad(self) -> bool | None:
        """True if a rule calls it bad, false if all call it good, None without a rule."""
        return any(rule.is_bad for rule in self.rules) if self.rules else None


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """The scores of one group of the catalogue."""

    name: str
    scores: tuple[ShownScore, ...]
    """Bad ones first, then by their distance from the best value."""

    @property
    def bad(self) -> int:
        """Number of scores that a rule calls bad."""
        return sum(each.is_bad or False for each in self.scores)


@dataclass(frozen=True, slots=True)
class ScoreRules:
    """The rules that the settings give: SLOs, and the thresholds of the questions that people answer."""

    slos: Sequence[Slo] = ()
    criteria: Sequence[tuple[str, Criterion]] = ()
    """Names of questions with their criteria."""

    def of(self, metric: str, value: float, dimension: Callable[[str], str | None]) -> Iterator[ScoreRule]:
        """Yield the rules on a metric that hold for an event.

        Args:
            metric: the metric.
            value: its value.
            dimension: returns the event's value of a dimension; empty or None without one.
        """
        for slo in self.slos:
            if slo.metric == metric and all((dimension(name) or "") == own for name, own in slo.dimensions.items()):
                bound = f"at most {slo.at_most:g}" if slo.at_least is None else f"at least {slo.at_least:g}"
                yield ScoreRule(f"SLO {slo.name}", bound, not slo.is_good(value))
        for question, own in self.criteria:
            if own.metric == metric:
                way = "at least" if own.higher_is_better else "at most"
                yield ScoreRule(f"question {question}", f"{way} {own.threshold:g}", own.is_bad(value))


NO_RULES = ScoreRules()


def score_groups(
    evaluation: Evaluation, catalogue: Mapping[str, Metric], rules: ScoreRules = NO_RULES
) -> list[ScoreGroup]:
    """Return the scores of an event that have a value, by group.

    Groups with bad scores come first, and those without any value that may be good or bad last.
    """
    order = {name: number for number, name in enumerate(catalogue)}
    values: dict[str, float | str | None] = {**evaluation.scores, **evaluation.categories}
    groups: dict[str, list[ShownScore]] = defaultdict(list)
    for name in sorted(values, key=lambda each: order.get(each, len(order))):
        if (value := values[name]) is not None:
            metric = catalogue.get(name)
            groups[metric.group if metric else OTHERS].append(_score(name, value, metric, evaluation, rules))
    found = [ScoreGroup(name, tuple(sorted(scores, key=_badness))) for name, scores in groups.items()]
    return sorted(found, key=lambda group: (not group.bad, all(each.distance is None for each in group.scores)))


def nulls_by_reason(evaluation: Evaluation) -> dict[str, list[str]]:
    """Return the metrics without a value by the reason, in the order of the evaluation."""
    found: dict[str, list[str]] = defaultdict(list)
    values: Iterable[tuple[str, float | str | None]] = (*evaluation.scores.items(), *evaluation.categories.items())
    for name, value in values:
        if value is None:
            found[evaluation.reasons.get(name, "no reason is given")].append(name)
    return found


def _badness(score: ShownScore) -> tuple[bool, float]:
    return not score.is_bad, 1.0 if score.distance is None else -score.distance


def _score(
    name: str, value: float | str, metric: Metric | None, evaluation: Evaluation, rules: ScoreRules
) -> ShownScore:
    place = distance = None
    held: tuple[ScoreRule, ...] = ()
    if isinstance(value, float | int):
        held = tuple(rules.of(name, value, lambda dimension: label(dimension, evaluation)))
        low, high = metric.bounds if metric else (None, None)
        if low is not None and high is not None:
            place = min(1.0, max(0.0, (value - low) / (high - low)))
        if metric and place is not None and metric.better != "neither":
            distance = 1 - place if metric.better == "higher" else place
    explanation = evaluation.explanations.get(name, "")
    return ShownScore(name, value, metric, held, distance, place, explanation, evaluation.evidence.get(name, ()))
