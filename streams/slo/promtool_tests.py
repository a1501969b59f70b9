"""Unit tests of SLO rules for promtool: of synthetic traffic, and of past events.

Each test of past events evaluates one alert once, on the events of its long window only, so that it is small however
long the history is. Its counters step in the second half of a minute, so that ranges with (Prometheus 2) and without
(Prometheus 3) their first moment contain the same steps, and start high enough that Prometheus does not extrapolate
them to zero within the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ragweir.streams.settings import Slo
from ragweir.streams.slo.counting import MINUTE_SECONDS, Counts, Ints, SloCounter, minute_of, time_of
from ragweir.streams.slo.rehearsal import AlertRehearsal, Rehearsal
from ragweir.streams.slo.rules import BURNS, COUNTER, CREATED, FAST, SHARE, Burn, alert_annotations, duration

MAX_TESTS = 10
"""Tests of one alert in periods in which it fires, and as many in which it does not; the longest periods are taken."""

_STEPS = 5
"""Samples in the short window of a synthetic test."""
_COUNT_UNITS = 1024
"""Synthetic counters grow by multiples of one over this, whose sums are exact; a rounding error could look like a
counter reset."""
_MARGIN = 1e-6
"""Minimum distance of a share from a threshold and from a rounding tie, which Prometheus may round differently."""
_SHOWN_DIGITS = 4

_Period = tuple[int, int]
"""From one minute to before another."""
_Series = tuple[str, str, str]
"""Name, outcome and samples of an input series."""


def _test_file(rule_file: str, scale: float, tests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    interval = duration(FAST.short_m * MINUTE_SECONDS * scale)
    return {"rule_files": [rule_file], "evaluation_interval": interval, "tests": list(tests)}


def _test(
    slo: Slo,
    burn: Burn,
    name: str,
    intervals_s: tuple[float, float],
    series: Iterable[_Series],
    share: float | None,
    scale: float = 1.0,
) -> dict[str, Any]:
    """Return one test; `intervals_s` are those between samples and from the first sample to the evaluation.

    The alert has to fire if `share`, the share of bad events in the long window, is not None.
    """
    alerts = []
    if share is not None:
        shown = f"{100 * share:.{_SHOWN_DIGITS}g}%"
        texts = {key: text.replace(SHARE, shown) for key, text in alert_annotations(slo, burn, scale).items()}
        alerts = [{"exp_labels": {"severity": burn.severity, "slo": slo.name}, "exp_annotations": texts}]
    return {
        "name": f"{slo.name}, {burn.severity}: {name}",
        "interval": duration(intervals_s[0]),
        "input_series": [
            {"series": f'{each}{{slo="{slo.name}", outcome="{outcome}"}}', "values": values}
            for each, outcome, values in series
        ],
        "alert_rule_test": [{"alertname": burn.alert, "eval_time": duration(intervals_s[1]), "exp_alerts": alerts}],
    }


# Synthetic traffic.


@dataclass(frozen=True, slots=True)
class _TrafficCase:
    """Shares of bad events before and within the short window, and the bad events in the long window."""

    name: str
    before: float
    recent: float | None
    """None without events."""
    bad: float
    fires: bool
    new: bool = False
    """True if the counters have no samples before the short window and then start with all events."""
    old: bool = False
    """True if the `_created` series of such counters is older than the long window."""


def _cases(threshold: float, burn: Burn) -> tuple[_TrafficCase, ...]:
    """Return cases a little above and a little below each comparison of the alert."""
    near = min(threshold / 10, (1 - threshold) / 4)
    above, below = threshold + near, threshold - near
    parts = burn.long_m / burn.short_m

    def before(whole: float, recent: float) -> float:
        """Return the share before the short window for this share of the whole long window."""
        return (parts * whole - recent) / (parts - 1)

    many, few, some = 10.0 * burn.bad, 0.8 * burn.bad, 1.2 * burn.bad
    return (
        _TrafficCase("both windows are bad, with just enough bad events", above, above, some, fires=True),
        _TrafficCase("too few bad events", above, above, few, fires=False),
        _TrafficCase("the long window is not bad enough", before(below, above), above, many, fires=False),
        _TrafficCase("the short window is no longer bad", before(above, below), below, many, fires=False),
        _TrafficCase("the events have ended", above, None, many, fires=False),
        _TrafficCase("all were counted before the first scrape", above, above, some, fires=True, new=True),
        _TrafficCase("the first scrape of old counters", above, above, some, fires=False, new=True, old=True),
    )


def synthetic_tests(slos: Sequence[Slo], rule_file: str, scale: float = 1.0) -> dict[str, Any]:
    """Return the content of a test file for the rules of these SLOs.

    Args:
        slos: the SLOs.
        rule_file: path of the rules, relative to the test file.
        scale: as for the rules.
    """
    tests = (
        _synthetic_test(slo, burn, case, scale)
        for slo in slos
        for burn in BURNS
        for case in _cases(burn.threshold(slo.objective), burn)
    )
    return _test_file(rule_file, scale, tests)


def _synthetic_test(slo: Slo, burn: Burn, case: _TrafficCase, scale: float) -> dict[str, Any]:
    earlier = _STEPS * (burn.long_m // burn.short_m - 1)
    recent = case.recent or 0.0
    # The same number of events in each step, except in the short window of traffic that has ended.
    events = case.bad / (earlier * case.before + _STEPS * recent)
    recent_events = 0.0 if case.recent is None else events
    bad = _exact(events * case.before), _exact(recent_events * recent)
    good = _exact(events * (1 - case.before)), _exact(recent_events * (1 - recent))
    all_bad, all_good = (first * earlier + then * _STEPS for first, then in (bad, good))
    step_s = burn.short_m * MINUTE_SECONDS * scale / _STEPS

    def values(first: float, then: float) -> str:
        if case.new:
            return f"_x{earlier + 1} {first * earlier + then * _STEPS}x{_STEPS - 1}"
        return f"0+{first}x{earlier} {first * earlier + then}+{then}x{_STEPS - 1}"

    series: list[_Series] = [(COUNTER, "bad", values(*bad)), (COUNTER, "good", values(*good))]
    series += [(CREATED, outcome, f"-1x{earlier + _STEPS}") for outcome in ("bad", "good") if case.old]
    share = all_bad / (all_bad + all_good) if case.fires else None
    return _test(slo, burn, case.name, (step_s, step_s * (earlier + _STEPS)), series, share, scale)


def _exact(amount: float) -> float:
    return round(amount * _COUNT_UNITS) / _COUNT_UNITS


# Past events.


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
        scaled = self.share * 10 ** (_SHOWN_DIGITS - 1 - np.floor(np.log10(self.share or 1.0)))
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
            (COUNTER, outcome, _samples(total + np.concatenate(([0], np.cumsum(steps)))))
            for outcome, steps in (("bad", self.bad), ("good", self.good))
        ]
        intervals_s = MINUTE_SECONDS / 2, burn.long_m * MINUTE_SECONDS
        return _test(slo, burn, name, intervals_s, series, self.share if self.fires else None)


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
    return _test_file(rule_file, 1.0, tests)


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
