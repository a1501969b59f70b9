"""Unit tests of SLO rules for promtool, of past events.

Each test evaluates one alert once, on the events of its long window only, so that it is small however long the history
is. Its counters step in the second half of a minute, so that ranges with (Prometheus 2) and without (Prometheus 3)
their first moment contain the same steps, and start high enough that Prometheus does not extrapolate them to zero
within the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ragweir.streams.settings import Slo
from ragweir.streams.slo.burns import MINUTE_SECONDS, Burn
from ragweir.streams.slo.counting import Counts, Ints, SloCounter, minute_of, time_of
from ragweir.streams.slo.promtool import SHOWN_DIGITS, alert_test, test_file
from ragweir.streams.slo.rehearsal import AlertRehearsal, Rehearsal
from ragweir.streams.slo.rules import EVENTS

MAX_TESTS = 10
"""Tests of one alert in periods in which it fires, and as many in which it does not; the longest periods are taken."""

_MARGIN = 1e-6
"""Minimum distance of a share from a threshold and from a rounding tie, which Prometheus may round differently."""

_Period = tuple[int, int]
"""From one minute to before another."""


@dataclass(frozen=True, slots=True)
class _PastEvaluation:
    """One evaluation of an alert in the past."""

    minute: int
    """Evaluated at its start."""
    period: _Period
    fires: bool
    good: Ints
    """Events per minute of the long window."""
    bad: Ints

    @property
    def share(self) -> float:
        """Share of bad events in the long window; 0 without events."""
        bad, good = int(self.bad.sum()), int(self.good.sum())
        return bad / (bad + good) if bad else 0.0

    def is_robust(self, burn: Burn, threshold: float) -> bool:
        """Return whether the result does not depend on rounding."""
        short = slice(-burn.short_m, None)
        bad, good = int(self.bad[short].sum()), int(self.good[short].sum())
        short_share = bad / (bad + good) if bad else 0.0
        scaled = self.share * 10 ** (SHOWN_DIGITS - 1 - np.floor(np.log10(self.share or 1.0)))
        tie = abs(scaled % 1 - 0.5) < _MARGIN
        near = any(abs(share - threshold) < _MARGIN for share in (self.share, short_share))
        return not (near or tie or int(self.bad.sum()) == burn.bad)

    def test(self, slo: Slo, burn: Burn) -> dict[str, Any]:
        """Return the test that expects this result."""
        start, end = (f"{time_of(minute):%Y-%m-%d %H:%M}" for minute in self.period)
        state = "firing" if self.fires else "quiet"
        name = f"{state} at {time_of(self.minute):%Y-%m-%d %H:%M}, as from {start} to {end} UTC"
        total = int(self.good.sum() + self.bad.sum())
        series = [
            (f"{EVENTS}_total", outcome, _samples(total + np.concatenate(([0], np.cumsum(steps)))))
            for outcome, steps in (("bad", self.bad), ("good", self.good))
        ]
        intervals_s = MINUTE_SECONDS / 2, burn.long_m * MINUTE_SECONDS
        return alert_test(slo, burn, name, intervals_s, series, self.share if self.fires else None)


def history_tests(counter: SloCounter, rehearsal: Rehearsal, rule_file: str) -> dict[str, Any]:
    """Return the content of a test file that expects the alerts of a rehearsal.

    Args:
        counter: counts of the past events.
        rehearsal: the rehearsal on these counts.
        rule_file: path of the SLOs' rules, relative to the test file.
    """
    tests: list[dict[str, Any]] = []
    for place, own in enumerate(rehearsal.slos):
        counts = counter.counts(place)
        for alert in own.alerts:
            firing, quiet = _periods(alert, rehearsal)
            for periods, fires in ((firing, True), (quiet, False)):
                longest = sorted(periods, key=lambda period: period[1] - period[0])[-MAX_TESTS:]
                evaluations = (_robust_evaluation(counts, alert, each, fires=fires) for each in sorted(longest))
                tests += [each.test(own.slo, alert.burn) for each in evaluations if each]
    return test_file(rule_file, 1.0, tests)


def _periods(alert: AlertRehearsal, rehearsal: Rehearsal) -> tuple[list[_Period], list[_Period]]:
    """Return the periods in which an alert fires, and those in between."""
    firing = [(minute_of(each.start), minute_of(each.end)) for each in alert.firings]
    start, end = minute_of(rehearsal.start) + 1, minute_of(rehearsal.end)
    gaps = pairwise([(start, start), *firing, (end, end)])
    return firing, [(after, before) for (_, after), (before, _) in gaps if after < before]


def _robust_evaluation(
    counts: Counts, alert: AlertRehearsal, period: _Period, *, fires: bool
) -> _PastEvaluation | None:
    """Return the robust evaluation that is nearest to the middle of a period, if there is one."""
    middle = sum(period) // 2
    for minute in sorted(range(*period), key=lambda each: abs(each - middle)):
        evaluation = _PastEvaluation(minute, period, fires, *_window(counts, minute, alert.burn.long_m))
        if evaluation.is_robust(alert.burn, alert.threshold):
            return evaluation
    return None


def _window(counts: Counts, end: int, length_m: int) -> tuple[Ints, Ints]:
    """Return good and bad events in each of the minutes before `end`."""
    span = slice(*np.searchsorted(counts.minutes, (end - length_m, end)))
    places = counts.minutes[span] - (end - length_m)
    good, bad = (np.zeros(length_m, dtype=np.int64) for _ in range(2))
    good[places], bad[places] = counts.events[span] - counts.bad[span], counts.bad[span]
    return good, bad


def _samples(totals: Ints) -> str:
    """Return a counter's samples, two for each minute but the last.

    >>> _samples(np.array([4, 4, 5, 7]))
    '4+0x3 5 5 7'
    """
    samples = np.repeat(totals, 2)[:-1].tolist()
    runs = ((value, len(list(run))) for value, run in groupby(samples))
    return " ".join(f"{value}+0x{count - 1}" if count > 2 else " ".join([str(value)] * count) for value, count in runs)
