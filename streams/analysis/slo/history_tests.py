"""Unit tests of SLO rules for promtool, of past events.

Each test evaluates one alert once, on the events of its long window only, so that it is small however long the history
is. Its counters step in the second half of a minute, so that ranges with (Prometheus 2) and without (Prometheus 3)
their first moment contain the same steps, and start high enough that Prometheus does not extrapolate them to zero
within the range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ragweir.streams.analysis.slo.alert_rules import EVENTS
from ragweir.streams.analysis.slo.burns import MINUTE_SECONDS, Burn
from ragweir.streams.analysis.slo.certainty import OUTCOMES
from ragweir.streams.analysis.slo.counting import SloCounter, minute_of, time_of
from ragweir.streams.analysis.slo.judged_rules import SQUARED, WEIGHT
from ragweir.streams.analysis.slo.minutes import CountColumns, Floats, Ints, WeightColumns
from ragweir.streams.analysis.slo.periods import ActivePeriod
from ragweir.streams.analysis.slo.promtool import SHOWN_DIGITS, alert_test, test_file
from ragweir.streams.analysis.slo.rehearsal import AlertRehearsal, Rehearsal
from ragweir.streams.settings import Slo

MAX_TESTS = 10
"""Tests of one alert in periods in which it fires, and as many in which it does not; the longest periods are taken."""

_MARGIN = 1e-6
"""Minimum distance from a threshold, as a part of it, and from a rounding tie: Prometheus may round differently."""

_Period = tuple[int, int]
"""From one minute to before another."""


@dataclass(frozen=True, slots=True)
class _PastEvaluation:
    """One evaluation of an alert in the past."""

    minute: int
    """Evaluated at its start."""
    period: _Period
    fires: bool
    steps: Mapping[tuple[str, str], Ints]
    """The growth of each counter in each minute of the long window, by name and outcome."""
    share: float
    """Share of bad events in the long window; 0 without events."""

    def test(self, slo: Slo, burn: Burn, *, judged: bool) -> dict[str, Any]:
        """Return the test that expects this result."""
        start, end = (f"{time_of(minute):%Y-%m-%d %H:%M}" for minute in self.period)
        state = "firing" if self.fires else "quiet"
        name = f"{state} at {time_of(self.minute):%Y-%m-%d %H:%M}, as from {start} to {end} UTC"
        total = sum(int(steps.sum()) for steps in self.steps.values())
        series = [
            (f"{counter}_total", outcome, _samples(total + np.concatenate(([0], np.cumsum(steps)))))
            for (counter, outcome), steps in self.steps.items()
        ]
        intervals_s = MINUTE_SECONDS / 2, burn.long_m * MINUTE_SECONDS
        return alert_test(slo, burn, name, intervals_s, series, self.share if self.fires else None, judged=judged)


@dataclass(frozen=True, slots=True)
class _SloSums:
    """The sums of one SLO."""

    counts: CountColumns
    weights: WeightColumns | None

    def robust_evaluation(self, alert: AlertRehearsal, period: _Period, *, fires: bool) -> _PastEvaluation | None:
        """Return the evaluation nearest to the middle of a period whose result does not depend on rounding."""
        middle = sum(period) // 2
        for minute in sorted(range(*period), key=lambda each: abs(each - middle)):
            steps = self._steps(minute, alert.burn.long_m)
            past = _period(steps, judged=self.weights is not None)
            if _is_robust(past, alert):
                share = past.shares(alert.burn.long_m)[-1]
                return _PastEvaluation(minute, period, fires, steps, 0.0 if np.isnan(share) else float(share))
        return None

    def _steps(self, end: int, length_m: int) -> dict[tuple[str, str], Ints]:
        """Return the growth of the counters in each of the minutes before `end`."""
        counts, weights = self.counts, self.weights
        found = {
            (EVENTS, "bad"): _column(counts.minutes, counts.bad, end, length_m),
            (EVENTS, "good"): _column(counts.minutes, counts.events - counts.bad, end, length_m),
        }
        if weights is not None:
            for counter, sums in ((WEIGHT, weights.sums), (SQUARED, weights.squares)):
                for outcome, row in zip(OUTCOMES, sums, strict=True):
                    found[counter, outcome] = _column(weights.minutes, row, end, length_m)
        return found


def _column(minutes: Ints, values: Ints | Floats, end: int, length_m: int) -> Ints:
    span = slice(*np.searchsorted(minutes, (end - length_m, end)))
    found = np.zeros(length_m, dtype=np.int64)
    found[minutes[span] - (end - length_m)] = values[span]
    return found


def _period(steps: Mapping[tuple[str, str], Ints], *, judged: bool) -> ActivePeriod:
    """Return the minutes of one evaluation as the rehearsal sees them."""
    totals = {key: np.concatenate(([0], np.cumsum(own))) for key, own in steps.items()}
    bad, good = totals[EVENTS, "bad"], totals[EVENTS, "good"]
    weights = None
    if judged:
        sums, squares = (np.array([totals[name, each] for each in OUTCOMES], float) for name in (WEIGHT, SQUARED))
        weights = sums, squares
    return ActivePeriod(0, bad + good, bad, weights)


def _is_robust(past: ActivePeriod, alert: AlertRehearsal) -> bool:
    """Return whether the last minute's result is the same with slightly different limits, and so is the shown share."""
    burn = alert.burn
    share = float(np.nan_to_num(past.shares(burn.long_m)[-1]))
    scaled = share * 10 ** (SHOWN_DIGITS - 1 - np.floor(np.log10(share or 1.0)))
    tie = abs(scaled % 1 - 0.5) < _MARGIN
    limits = (alert.threshold * (1 - _MARGIN), alert.threshold, alert.threshold * (1 + _MARGIN))
    results = {bool(past.firing(burn, limit)[-1]) for limit in limits}
    return not tie and len(results) == 1 and int(past.bad[-1]) != burn.bad


def history_tests(counter: SloCounter, rehearsal: Rehearsal, rule_file: str) -> dict[str, Any]:
    """Return the content of a test file that expects the alerts of a rehearsal.

    Args:
        counter: counts of the past events.
        rehearsal: the rehearsal on these counts.
        rule_file: path of the SLOs' rules, relative to the test file.
    """
    tests: list[dict[str, Any]] = []
    for place, own in enumerate(rehearsal.slos):
        weights = counter.weights(place)
        history = _SloSums(counter.counts(place), weights)
        for alert in own.alerts:
            firing, quiet = _periods(alert, rehearsal)
            for periods, fires in ((firing, True), (quiet, False)):
                longest = sorted(periods, key=lambda period: period[1] - period[0])[-MAX_TESTS:]
                evaluations = (history.robust_evaluation(alert, each, fires=fires) for each in sorted(longest))
                judged = weights is not None
                tests += [each.test(own.slo, alert.burn, judged=judged) for each in evaluations if each]
    return test_file(rule_file, 1.0, tests)


def _periods(alert: AlertRehearsal, rehearsal: Rehearsal) -> tuple[list[_Period], list[_Period]]:
    """Return the periods in which an alert fires, and those in between."""
    firing = [(minute_of(each.start), minute_of(each.end)) for each in alert.firings]
    start, end = minute_of(rehearsal.start) + 1, minute_of(rehearsal.end)
    gaps = pairwise([(start, start), *firing, (end, end)])
    return firing, [(after, before) for (_, after), (before, _) in gaps if after < before]


def _samples(totals: Ints) -> str:
    """Return a counter's samples, two for each minute but the last.

    >>> _samples(np.array([4, 4, 5, 7]))
    '4+0x3 5 5 7'
    """
    samples = np.repeat(totals, 2)[:-1].tolist()
    runs = ((value, len(list(run))) for value, run in groupby(samples))
    return " ".join(f"{value}+0x{count - 1}" if count > 2 else " ".join([str(value)] * count) for value, count in runs)
