"""Coverage of the estimates' intervals: how many hold the mean of all events, in windows of many kinds.

`before` are the intervals of windows whose selected events are not counted, as those of release 0.1.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path

import numpy as np
from rich.table import Table

from bench.simulated_windows import Floats, Kind, SimulatedWindow, Stratum, simulated
from ragweir.metrics.aggregation.interval import beta_quantile
from ragweir.metrics.aggregation.selection import NO_EVENTS, SCALE
from ragweir.metrics.scores.risk import unsupported_risk
from ragweir.schemas.window import EstimateResult
from tools import labelled_answers

PROMISED = 0.93
"""Minimum coverage of a kind of windows."""
_ROUNDING = 1e-6
_NULLS = ((0.0, 0.0), (0.2, 0.005), (0.05, 0.05), (0.005, 0.2))
"""Shares of unusable answers on bad and on good events."""
_FAILED = (0.0, 0.05)
_EVENTS = (300, 1_000, 3_000, 10_000)


@dataclass(frozen=True)
class Intervals:
    """The intervals of the windows of one kind."""

    shown: int = 0
    covering: int = 0
    width: float = 0.0
    """Mean width."""

    @property
    def coverage(self) -> float:
        """The share of the intervals that hold the truth."""
        return self.covering / self.shown if self.shown else 1.0

    @property
    def most(self) -> float:
        """The upper 99 % limit of the coverage."""
        missing = self.shown - self.covering
        return beta_quantile(0.99, self.covering + 1, missing) if missing else 1.0


@dataclass(frozen=True)
class KindEstimates:
    """The estimates of the windows of one kind."""

    kind: Kind
    windows: int
    judged: float
    """Mean number of events with a value."""
    drawn: float
    """Mean number of those that were selected at random."""
    plain_bias: float
    """Mean difference of the plain mean of judged events to the truth."""
    bias: float
    """Mean difference of the estimate to the truth."""
    bias_error: float
    """Standard error of `bias`."""
    intervals: Intervals
    before: Intervals
    """The intervals if selected events are not counted, in the same windows."""
    textbook: Intervals
    """Normal intervals in the same windows."""


def measure(kind: Kind, windows: int, seed: int) -> KindEstimates:
    """Simulate windows of one kind."""
    counts: list[tuple[int, int]] = []
    biases: list[tuple[float, float]] = []
    limits: list[list[tuple[float, float]]] = []
    truths: list[float] = []
    for window in simulated(kind, windows, seed):
        own = window.estimate.result(window.decisions, window.chance)
        uncounted = window.chance._replace(selected=NO_EVENTS)
        before = window.estimate.result(window.decisions, uncounted)
        counts.append((window.estimate.count, window.estimate.drawn))
        if own.mean is not None:
            biases.append((window.plain_mean - window.truth, own.mean - window.truth))
        if (found := _limits(own)) is not None:
            truths.append(window.truth)
            limits.append([found, _limits(before) or (0.0, 1.0), _textbook(window)])
    judged, drawn = np.mean(counts, axis=0).tolist()
    plain_bias, bias = np.mean(biases, axis=0).tolist() if biases else (0.0, 0.0)
    error = float(np.std([own for _, own in biases]) / len(biases) ** 0.5) if biases else 0.0
    intervals = (_intervals([each[number] for each in limits], truths) for number in range(3))
    return KindEstimates(kind, windows, judged, drawn, plain_bias, bias, error, *intervals)


def _limits(result: EstimateResult) -> tuple[float, float] | None:
    return None if result.low is None or result.high is None else (result.low, result.high)


def _textbook(window: SimulatedWindow) -> tuple[float, float]:
    """Return the normal interval of the weighted mean."""
    own = window.estimate
    mean = own.weighted_sum / own.weight if own.weight else 0.0
    residual = own.spread_squares - 2 * mean * own.spread_sum + mean**2 * own.spread
    half = 1.96 * (max(residual, 0.0) * SCALE) ** 0.5 / own.weight if own.weight else 0.0
    return mean - half, mean + half


def _intervals(limits: Sequence[tuple[float, float]], truths: Sequence[float]) -> Intervals:
    covering = [low - _ROUNDING <= truth <= high + _ROUNDING for (low, high), truth in zip(limits, truths, strict=True)]
    width = float(np.mean([high - low for low, high in limits])) if limits else 0.0
    return Intervals(len(limits), sum(covering), width)


# Kinds of windows.


def _continuous(good: tuple[float, float], escalated: tuple[float, float], floor: float) -> tuple[Stratum, ...]:
    def scores(shape: tuple[float, float]) -> Stratum:
        return Stratum(0.0, 1.0, scores=lambda chance, number: chance.beta(*shape, number))

    return replace(scores(escalated), share=0.12), replace(scores(good), share=0.88, probability=floor)


def _perfect(chance: np.random.Generator, number: int) -> Floats:
    """Return scores of which nine in ten are perfect."""
    return np.where(chance.random(number) < 0.9, 1.0, chance.beta(0.7, 2, number))


def _rare(chance: np.random.Generator, number: int) -> Floats:
    """Return scores that are close together, but for two in a hundred that are 0."""
    return np.where(chance.random(number) < 0.02, 0.0, chance.beta(60, 6, number))


def escalation(bad: float, lift: float, floor: float, escalated: float = 0.12) -> tuple[Stratum, ...]:
    """Return events of which a rule selects some, which are so many times as often bad, and a floor the others."""
    return Stratum(escalated, 1.0, min(0.95, lift * bad)), Stratum(1 - escalated, floor, bad)


def _lots(probabilities: Sequence[float], shares: Sequence[float], bad: Sequence[float]) -> tuple[Stratum, ...]:
    return tuple(map(Stratum, shares, probabilities, bad))


def _patterns() -> Iterator[tuple[str, tuple[Stratum, ...]]]:
    for bad, floor in product((0.01, 0.05, 0.2, 0.5), (0.02, 0.05, 0.2)):
        yield f"{bad:.0%} bad, floor {floor}", escalation(bad, 4, floor)
    yield "half escalated", escalation(0.05, 12, 0.05, 0.5)
    yield "a floor alone", (Stratum(1.0, 0.05, 0.1),)
    yield "a rule at 0.2, floor 0.02", _lots((1.0, 0.2, 0.02), (0.1, 0.2, 0.7), (0.7, 0.4, 0.05))
    yield "a rule at 0.5 for the best", _lots((1.0, 0.5, 0.05), (0.1, 0.2, 0.7), (0.9, 0.05, 0.5))
    yield "a rule at 0.2, floor 0.002", _lots((1.0, 0.2, 0.002), (0.1, 0.2, 0.7), (0.7, 0.4, 0.05))
    yield "the least likely are bad", _lots((1.0, 0.2, 0.02), (0.1, 0.85, 0.05), (0.7, 0.05, 0.8))
    yield "a share and its floor", _lots((1.0, 0.6, 0.015), (0.04, 0.02, 0.94), (0.4, 0.3, 0.04))


def _score_patterns() -> Iterator[tuple[str, tuple[Stratum, ...]]]:
    for floor in (0.02, 0.2):
        yield f"continuous, floor {floor}", _continuous((6, 2), (4, 3), floor)
        yield (
            f"most perfect, floor {floor}",
            (
                Stratum(0.12, 1.0, scores=lambda chance, number: chance.beta(2, 2, number)),
                Stratum(0.88, floor, scores=_perfect),
            ),
        )
        yield (
            f"rare zeros, floor {floor}",
            (
                Stratum(0.12, 1.0, scores=lambda chance, number: 0.6 * _rare(chance, number)),
                Stratum(0.88, floor, scores=_rare),
            ),
        )


def kinds() -> Iterator[Kind]:
    """Yield all kinds of windows, those of one pattern together."""
    for name, strata in _patterns():
        for events, (bad, good), failed in product(_EVENTS, _NULLS, _FAILED):
            yield Kind(name, strata, events, bad, good, failed)
        for events, (bad, good) in product(_EVENTS[1:], _NULLS[:2]):
            yield Kind(f"{name}, 30 % undefined", strata, events, bad, good, undefined=0.3)
    for name, strata in _score_patterns():
        for events, (bad, good) in product(_EVENTS[:3], _NULLS[:2]):
            yield Kind(name, strata, events, bad, good)


def labelled_kinds(folder: Path) -> Iterator[Kind]:
    """Yield kinds of windows of the answers with people's labels, of which a rule selects the riskiest quarter."""
    for name in labelled_answers.SETS:
        answers = labelled_answers.read(name, folder)
        found = [unsupported_risk(each.view) for each in answers]
        risks = [each if isinstance(each, float) else 0.0 for each in found]
        cut = sorted(risks)[len(risks) * 3 // 4]
        risky = [each.bad for each, risk in zip(answers, risks, strict=True) if risk > cut]
        others = [each.bad for each, risk in zip(answers, risks, strict=True) if risk <= cut]
        share = len(risky) / len(answers)
        strata = Stratum(share, 1.0, float(np.mean(risky))), Stratum(1 - share, 0.05, float(np.mean(others)))
        for events, (bad, good) in product(_EVENTS[:3], _NULLS):
            yield Kind(f"{name}, the riskiest quarter, floor 0.05", strata, events, bad, good)


# Tables.


def table(outcomes: Sequence[KindEstimates]) -> Table:
    """Return a table with one row per pattern, of its kind with the lowest coverage and of mean widths."""
    head = ("windows", "kinds", "lowest coverage", "of events", "unusable bad, good", "failed", "drawn", "before")
    shown = Table(*head, "width, all answered", "width, unanswered", title="Coverage of 95 % intervals")
    for name, group in groupby(outcomes, key=lambda each: each.kind.name):
        own = [each for each in group if each.intervals.shown]
        if not own:
            continue
        worst = min(own, key=lambda each: each.intervals.coverage)
        kind = worst.kind
        shown.add_row(
            *(name, str(len(own)), f"{worst.intervals.coverage:.3f}", f"{kind.events:,}"),
            *(f"{kind.unusable_bad}, {kind.unusable_good}", str(kind.failed), f"{worst.drawn:.0f}"),
            f"{worst.before.coverage:.3f}",
            _width([each for each in own if each.kind.is_complete]),
            _width([each for each in own if not each.kind.is_complete]),
        )
    failing = [each for each in outcomes if each.intervals.most < PROMISED]
    total = sum(each.intervals.shown for each in outcomes)
    covering = sum(each.intervals.covering for each in outcomes)
    shown.caption = (
        f"{len(outcomes)} kinds of {outcomes[0].windows:,} windows; {covering / total:.3f} of {total:,} intervals hold "
        f"the truth. Kinds whose coverage has an upper 99 % limit below {PROMISED}: {len(failing)}. `before` is the "
        "coverage in the same windows if selected events are not counted; widths are ratios to those."
    )
    return shown


def _width(outcomes: Sequence[KindEstimates]) -> str:
    """Return the range of the widths as ratios to those before."""
    ratios = [each.intervals.width / each.before.width for each in outcomes if each.before.width]
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""


def tables(windows: int = 2_000, labels: str = "") -> Iterator[Table]:
    """Simulate windows of each kind, also by people's labels in a folder; fail if the promise does not hold."""
    every = [*kinds(), *(labelled_kinds(Path(labels)) if labels else ())]
    outcomes = [measure(kind, windows, seed) for seed, kind in enumerate(every)]
    yield table(outcomes)
    if any(each.intervals.most < PROMISED for each in outcomes):
        raise SystemExit(1)
