"""False alarms and delays of the test for shifts, on metrics of `bench.simulated_days`, without code of ragweir."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from rich.table import Table

from bench.simulated_days import MINUTES, MetricKind, MetricMinutes, simulated_minutes
from ragweir.metrics.shift.baseline import HOURS, Baseline, Sums, baseline
from ragweir.metrics.shift.detector import ShiftDetector, one_a_year
from ragweir.metrics.shift.history import BASELINE_DAYS, TESTED_DAYS

KINDS = (
    MetricKind("boolean, mean .05", 0.05, 1),
    MetricKind("five steps, mean .7", 0.7, 4),
    MetricKind("two near values, mean .8", 0.8, 0),
)
SERIES = 38
"""Number of metrics that share the false alarm a year."""
_THRESHOLD = one_a_year(60, SERIES)
_TESTED = TESTED_DAYS + 1
_HALF = MINUTES // 2


def _split(minutes: MetricMinutes) -> tuple[Sums, Sums]:
    """Return the hours of the baseline's days, and the minutes that are tested."""
    first = BASELINE_DAYS * MINUTES
    hours = Sums(*(part[:first].reshape(BASELINE_DAYS, HOURS, 60).sum(axis=2) for part in minutes))
    return hours, Sums(*(part[first:] for part in minutes))


def _relative(tested: Sums, known: Baseline) -> tuple[np.ndarray, np.ndarray]:
    hours = np.arange(len(tested.counts)) // 60 % HOURS
    found = ShiftDetector(known).extend(tested, hours)
    return found.windows, found.relative(_THRESHOLD)


def false_alarms(worlds: int = 139) -> Table:
    """Return the alarms of metrics that do not shift."""
    shown = Table(
        *("values", "day pattern", "between days", "metric-days", "with an alarm", "as published", "highest"),
        title=f"Days with an alarm without a shift: {worlds:,} metrics of {_TESTED} tested days each",
        caption="An event in 3 s. The day pattern is the amplitude of a sine over the day, `between days` the standard "
        "deviation of the days' means, both in standard deviations of the values. `as published`: the same e-detector "
        "with the mean of the three weeks, without hours and tolerance. `highest`: the highest certainty.",
    )
    total = alarms = 0
    for kind, pattern, between in product(KINDS, (0.0, 0.3), (0.0, 0.1, 0.3)):
        chance = np.random.default_rng([int(100 * kind.mean), int(100 * pattern), int(100 * between), 35])
        highest, own, plain = 0.0, 0, 0
        for _ in range(worlds):
            made = simulated_minutes(
                kind, BASELINE_DAYS + _TESTED, chance, per_second=1 / 3, pattern=pattern, between_days=between
            )
            days, tested = _split(made)
            known = baseline(days, SERIES)
            assert known is not None
            windows, relative = _relative(tested, known)
            highest = max(highest, float(np.abs(relative).max()))
            own += len(set((windows[np.abs(relative) >= 1] // MINUTES).tolist()))
            windows, relative = _relative(tested, Baseline(known.mean, (known.mean,) * HOURS, 0.0, known.days))
            plain += len(set((windows[np.abs(relative) >= 1] // MINUTES).tolist()))
        number = worlds * _TESTED
        total, alarms = total + number, alarms + own
        shown.add_row(kind.name, f"{pattern}", f"{between}", f"{number:,}", f"{own}", f"{plain:,}", f"{highest:.2f}")
    shown.add_row("all", "", "", f"{total:,}", f"{alarms}", "", "")
    return shown


def delays(seeds: int = 20) -> Iterator[Table]:
    """Yield the time to the alarm after shifts at noon of the third day, in minutes."""
    for per_second in (1.0, 0.1):
        shown = Table(
            *("values", "between days", "shift", "found", "median, min", "90 %, min"),
            title=f"Minutes from a shift to its alarm, at {per_second:g} events a second: {seeds} metrics each",
            caption="Shifts and the variation between days are in standard deviations of the values, which are "
            + ", ".join(f"{kind.deviation:.3g} ({kind.name})" for kind in KINDS)
            + ". The day pattern is .1. `found`: within the five days that remain.",
        )
        for kind, between, shift in product(KINDS, (0.0, 0.05, 0.1), (-1.0, -0.5, 0.5)):
            if kind.mean + shift * kind.deviation < 0:
                continue
            chance = np.random.default_rng([int(100 * kind.mean), int(100 * between), int(100 * shift) + 200, 36])
            found = []
            for _ in range(seeds):
                at = BASELINE_DAYS * MINUTES + 2 * MINUTES + _HALF
                made = simulated_minutes(
                    kind, BASELINE_DAYS + _TESTED, chance,
                    per_second=per_second, pattern=0.1, between_days=between, shift=shift, at_minute=at,
                )  # fmt: skip
                days, tested = _split(made)
                known = baseline(days, SERIES)
                assert known is not None
                windows, relative = _relative(tested, known)
                alarms = windows[relative * np.sign(shift) >= 1] - (at - BASELINE_DAYS * MINUTES)
                found.append(float(alarms[0]) + 1 if len(alarms) else np.inf)
            cells = (f"{np.quantile(found, share, method='higher'):,.0f}" for share in (0.5, 0.9))
            shown.add_row(kind.name, f"{between}", f"{shift:+}", f"{sum(np.isfinite(found))} of {seeds}", *cells)
        yield shown


def tables(worlds: int = 139, seeds: int = 20) -> Iterator[Table]:
    """Yield all tables."""
    yield false_alarms(worlds)
    yield from delays(seeds)
