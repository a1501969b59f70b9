"""False alarms and power of the test of anchors, on judges of `bench.repeated_judge`, which has no code of ragweir."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from rich.table import Table

from bench.repeated_judge import Ints, RepeatedJudge, RepeatedKind
from ragweir.metrics.people.anchors import (
    BASELINE_A_DAY,
    BASELINE_RUNS,
    ENOUGH_DAYS,
    RUNS_A_DAY,
    DriftTest,
    Hits,
    drift_test,
    noise,
)

BASELINE_DAYS = BASELINE_RUNS // BASELINE_A_DAY
_NOISES = (0.02, 0.05, 0.08, 0.12)
_DEVIATIONS = (0.0, 0.1, 0.2, 0.4)
_TESTS = 2
"""Tests a day: of the bad anchors and of the good ones."""
_YEAR = 365


class _Watched:
    """A judge with a baseline and some days after it."""

    def __init__(self, kind: RepeatedKind, days: int, chance: np.random.Generator) -> None:
        self.judge = RepeatedJudge(kind, chance)
        runs = BASELINE_RUNS
        self.baseline = _hits(sum(self.judge.day(BASELINE_A_DAY) for _ in range(BASELINE_DAYS)), runs)
        self.earlier = [_hits(self.judge.day(RUNS_A_DAY), RUNS_A_DAY) for _ in range(days)]

    def test(self) -> DriftTest:
        found = drift_test(self.baseline, _hits(self.judge.day(RUNS_A_DAY), RUNS_A_DAY), self.earlier, BASELINE_DAYS)
        assert found is not None
        return found


def _hits(hits: Ints | int, runs: int) -> Sequence[Hits]:
    return [Hits(int(each), runs) for each in np.atleast_1d(hits)]


def false_alarms(judges: int = 400, days: int = 25) -> Table:
    """Return the alarms of judges that do not drift."""
    shown = Table(
        *("noise", "day by day", "pairs that differ", "alarms a year, first 30 days", "later"),
        title=f"Alarms of anchors a year without drift: {judges:,} judges, {days:,} days of each",
        caption="100 bad and 50 good anchors, a baseline of 10 runs over 5 days, 3 runs a day, limits at 1/1460 each "
        "side. `noise` is the mean chance that a verdict is not the usual one, `day by day` the standard deviation of "
        "the judge's leniency in logits, `pairs that differ` the series `ragweir_judge_anchor_noise`. In the first 30 "
        "days after a baseline an alarm opens a ticket; later the variance from day to day is in the limits.",
    )
    for level, deviation in product(_NOISES, _DEVIATIONS):
        chance = np.random.default_rng([int(1000 * level), int(1000 * deviation), 33])
        cells, differing = [], []
        for known in (0, ENOUGH_DAYS):
            alarms = tests = 0
            for number in range(judges):
                for answers in (100, 50):
                    watched = _Watched(RepeatedKind(level, deviation, answers), known, chance)
                    found = [watched.test().drift != 0 for _ in range(days)]
                    alarms, tests = alarms + sum(found), tests + len(found)
                    if not number:
                        differing.append(noise(watched.baseline) or 0.0)
            cells.append(f"{alarms / tests * _TESTS * _YEAR:.1f}")
        shown.add_row(f"{level}", f"{deviation}", f"{np.mean(differing):.2f}", *cells)
    return shown


def power(judges: int = 400) -> Iterator[Table]:
    """Yield how often a drop of the sensitivity is found on its first day, and within three."""
    for known in (0, ENOUGH_DAYS):
        shown = Table(
            *("noise", "day by day", "drop"),
            *(f"{kind}, {when}" for kind in ("more noise", "some answers") for when in ("1 day", "3 days")),
            title=f"Share of drops in sensitivity that are found, {known} days after the baseline: {judges:,} judges",
            caption="`more noise` lowers every answer's chance of a hit, `some answers` turns the verdict on some.",
        )
        for level, deviation, drop in product(_NOISES, (0.0, 0.2, 0.4), (0.05, 0.1, 0.15)):
            chance = np.random.default_rng([int(1000 * level), int(1000 * deviation), int(1000 * drop), 34])
            cells = []
            for sudden in (False, True):
                first = third = 0
                for _ in range(judges):
                    watched = _Watched(RepeatedKind(level, deviation), known, chance)
                    watched.judge.worse(drop, sudden=sudden)
                    found = [watched.test().drift < 0 for _ in range(3)]
                    first, third = first + found[0], third + any(found)
                cells += [f"{first / judges:.2f}", f"{third / judges:.2f}"]
            shown.add_row(f"{level}", f"{deviation}", f"{drop}", *cells)
        yield shown
