"""Unit tests of SLO rules for promtool, of synthetic traffic that is a little above and a little below each limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ragweir.streams.analysis.slo.alert_rules import EVENTS
from ragweir.streams.analysis.slo.burns import BURNS, MINUTE_SECONDS, Burn
from ragweir.streams.analysis.slo.judged_tests import judged_tests
from ragweir.streams.analysis.slo.promtool import Series, alert_test, test_file
from ragweir.streams.settings import Slo

_STEPS = 5
"""Samples in the short window."""
_COUNT_UNITS = 1024
"""Counters grow by multiples of one over this, whose sums are exact; a rounding error could look like a counter
reset."""


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


def synthetic_tests(
    slos: Sequence[Slo], rule_file: str, scale: float = 1.0, judged: Collection[str] = ()
) -> dict[str, Any]:
    """Return the content of a test file for the rules of these SLOs.

    Args:
        slos: the SLOs.
        rule_file: path of the rules, relative to the test file.
        scale: as for the rules.
        judged: as for the rules.
    """
    tests: list[dict[str, Any]] = []
    for slo in slos:
        for burn in BURNS:
            if slo.metric in judged:
                tests += judged_tests(slo, burn, scale)
            else:
                cases = _cases(burn.threshold(slo.objective), burn)
                tests += [_synthetic_test(slo, burn, case, scale) for case in cases]
    return test_file(rule_file, scale, tests)


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

    series: list[Series] = [(f"{EVENTS}_total", "bad", values(*bad)), (f"{EVENTS}_total", "good", values(*good))]
    series += [(f"{EVENTS}_created", outcome, f"-1x{earlier + _STEPS}") for outcome in ("bad", "good") if case.old]
    share = all_bad / (all_bad + all_good) if case.fires else None
    return alert_test(slo, burn, case.name, (step_s, step_s * (earlier + _STEPS)), series, share, scale)


def _exact(amount: float) -> float:
    return round(amount * _COUNT_UNITS) / _COUNT_UNITS
