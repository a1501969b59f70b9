"""Synthetic promtool tests of the alerts of SLOs on judged metrics.

The numbers of events are found by `ragweir.streams.analysis.slo.certainty`, so that the tests compare its formulas with
those of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragweir.streams.analysis.slo.alert_rules import EVENTS
from ragweir.streams.analysis.slo.burns import MINUTE_SECONDS, Burn
from ragweir.streams.analysis.slo.certainty import CERTAIN, EXCLUDED, OUTCOMES, evidence
from ragweir.streams.analysis.slo.judged_rules import MILLION, SQUARED, WEIGHT
from ragweir.streams.analysis.slo.promtool import Series, alert_test
from ragweir.streams.settings import Slo

_STEPS = 5
"""Samples in the short window."""
_WEIGHTS = {"good": 8.0, "bad": 2.0, "missing": 4.0, "unselected": 8.0}
"""Weights of the events: bad ones are selected more often."""
_ABOVE, _BELOW = 1.15, 0.85

_Events = Mapping[str, float]
"""Sums of weights by outcome."""
_NONE: _Events = dict.fromkeys(OUTCOMES, 0.0)


@dataclass(frozen=True, slots=True)
class _JudgedCase:
    """Sums of weights in the long window and within its short one, and bad events in the long one."""

    name: str
    long: _Events
    short: _Events
    bad: float
    fires: bool
    new: bool = False
    """True if the counters begin with all events."""


def _events(share: float, weight: float, missing: float = 0.0) -> _Events:
    """Return events of this total weight among good and bad ones; as many again are unselected."""
    return {
        "good": weight * (1 - share),
        "bad": weight * share,
        "missing": weight * missing,
        "unselected": weight,
    }


def _evidence(events: _Events, threshold: float, *, adverse: bool) -> float:
    sums = np.array([[events[outcome]] for outcome in OUTCOMES])
    own = np.array([[_WEIGHTS[outcome]] for outcome in OUTCOMES])
    return float(evidence(sums, sums * own, threshold, adverse=adverse)[0])


def _with_evidence(share: float, wanted: float, threshold: float, missing: float = 0.0) -> _Events:
    """Return events with a share of bad ones and the wanted evidence above the threshold, or below it if negative."""
    least, most = 0.0, 1e9
    for _ in range(100):
        middle = (least + most) / 2
        found = _evidence(_events(share, middle, missing), threshold, adverse=wanted < 0)
        if abs(found) < abs(wanted) or found * wanted < 0 or np.isnan(found):
            least = middle
        else:
            most = middle
    return _events(share, most, missing)


def _cases(threshold: float, burn: Burn) -> Iterator[_JudgedCase]:
    high, low = threshold + 0.6 * (1 - threshold), 0.4 * threshold
    many, few, some = 10.0 * burn.bad, 0.8 * burn.bad, 1.2 * burn.bad
    excluded = _with_evidence(low, -EXCLUDED * _ABOVE, threshold)
    nearly_excluded = _with_evidence(low, -EXCLUDED * _BELOW, threshold)
    if burn.certain:
        burning = _with_evidence(high, CERTAIN * _ABOVE, threshold, missing=0.1)
        less = _with_evidence(high, CERTAIN * _BELOW, threshold, missing=0.1)
        large, text = 20.0, "certain"
    else:
        near = min(threshold / 10, (1 - threshold) / 4)
        burning, less = _events(threshold + near, 1e4), _events(threshold - near, 1e4)
        large, text = 1.0, "above the threshold"
    big, recent, less_recent = _times(large, burning), _times(1 / 12, burning), _times(1 / 12, less)
    yield _JudgedCase(f"the burn is {text}, with just enough bad events", burning, recent, some, fires=True)
    yield _JudgedCase("too few bad events", burning, recent, few, fires=False)
    yield _JudgedCase(f"the burn is not {text}", less, less_recent, many, fires=False)
    yield _JudgedCase("the short window excludes it", _joined(big, excluded), excluded, many, fires=False)
    yield _JudgedCase(
        "the short window nearly excludes it", _joined(big, nearly_excluded), nearly_excluded, many, fires=True
    )
    yield _JudgedCase("the short window has no good event", burning, _events(1.0, 8.0), many, fires=True)
    yield _JudgedCase("the events have ended", burning, _NONE, many, fires=False)
    yield _JudgedCase("all were counted before the first scrape", burning, burning, some, fires=True, new=True)


def _times(factor: float, events: _Events) -> _Events:
    return {outcome: factor * weight for outcome, weight in events.items()}


def _joined(one: _Events, other: _Events) -> _Events:
    return {outcome: one[outcome] + other[outcome] for outcome in OUTCOMES}


def judged_tests(slo: Slo, burn: Burn, scale: float) -> Iterator[dict[str, Any]]:
    """Yield the tests of one alert."""
    for case in _cases(burn.threshold(slo.objective), burn):
        earlier = _STEPS * (burn.long_m // burn.short_m - 1)
        step_s = burn.short_m * MINUTE_SECONDS * scale / _STEPS
        series: list[Series] = []
        for outcome in OUTCOMES:
            long, short, own = case.long[outcome], case.short[outcome], _WEIGHTS[outcome]
            for counter, factor in ((WEIGHT, 1.0), (SQUARED, own)):
                unit = factor * MILLION
                samples = _samples((long - short) * unit / earlier, short * unit / _STEPS, earlier, new=case.new)
                series.append((f"{counter}_total", outcome, samples))
        # Whole numbers of 1024ths sum exactly.
        step = 0.0 if case.new else round(case.bad / earlier * 1024) / 1024
        bad = (
            f"_x{earlier + 1} {case.bad}x{_STEPS - 1}"
            if case.new
            else f"0+{step}x{earlier} {step * earlier}x{_STEPS - 1}"
        )
        series.append((f"{EVENTS}_total", "bad", bad))
        share = case.long["bad"] / (case.long["good"] + case.long["bad"]) if case.fires else None
        intervals_s = step_s, step_s * (earlier + _STEPS)
        yield alert_test(slo, burn, case.name, intervals_s, series, share, scale, judged=True)


def _samples(first: float, then: float, earlier: int, *, new: bool) -> str:
    """Return the samples of a counter that grows by whole numbers."""
    one, other = round(first), round(then)
    if new:
        return f"_x{earlier + 1} {one * earlier + other * _STEPS}x{_STEPS - 1}"
    return f"0+{one}x{earlier} {one * earlier + other}+{other}x{_STEPS - 1}"
