"""Simulated days of answers, of which people label some: made with numpy alone, beside the truth about all events.

Three applications have different shares of bad answers. Routing selects answers to be judged by a risk score that is
higher for bad ones, and a floor at random; the judge errs, and so do people where two of them are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

APPLICATIONS = ("search", "support", "legal")
_EVENTS = (0.5, 0.3, 0.2)
_BAD = (0.6, 1.0, 2.0)
"""Share of bad answers of each application, as ratios to that of all events."""
SHARE, FLOOR_SHARE = 0.1, 0.25
"""Share of the events that is judged, and the part of it that is chosen at random."""
_LIFT = 1.0
"""Difference of the mean risk of bad and good answers, in standard deviations."""


@dataclass(frozen=True)
class LabelledKind:
    """One kind of days and of people who label."""

    bad: float
    """Share of bad answers."""
    sensitivity: float
    specificity: float
    labels: int
    """Number of answers that are drawn, on all days together."""
    name: str = "all labelled"
    days: int = 1
    events: int = 10_000
    """Number of events of all days together."""
    labelled: float = 1.0
    """Share of the queue that is labelled before the rater stops."""
    unanswered: tuple[float, float] = (0.0, 0.0)
    """Shares of the bad and of the good answers that people cannot tell, or whose text is lost."""
    double: float = 0.0
    """Share of the answers that two people label."""
    people_err: float = 0.0
    """Share of the answers that a person gets wrong."""
    failed: float = 0.0
    """Share of the selected events that the judge does not answer."""
    errors_follow_risk: bool = False
    """True if the judge wrongly flags answers of high risk most, and misses those of low risk."""
    each_application: bool = False
    """True if each application has a draw of its own."""
    all_judged: bool = False
    """True if every event is judged."""
    drawn: bool = True
    """False if the labelled answers are any of those that were judged, as imported labels are."""


@dataclass(frozen=True)
class SimulatedDay:
    """The events of a day, as columns."""

    application: Ints
    bad: Flags
    """True for each answer that the first person calls bad."""
    second: Flags
    """True for each answer that the second person calls bad."""
    flagged: Flags
    """The judge's verdict, whether or not it is asked."""
    chance: Floats
    """Probability of being selected to be judged."""
    selected: Flags
    answered: Flags
    """True if the judge answers."""
    unanswered: Flags
    """True if people give no answer."""


@cache
def _thresholds(bad: float) -> tuple[float, ...]:
    """Return the risk of each application above which all answers are judged, from days before."""
    chance, floor = np.random.default_rng(33), SHARE * FLOOR_SHARE
    return tuple(
        float(np.quantile(chance.normal(size=100_000) + _LIFT * (chance.random(100_000) < ratio * bad), place))
        for ratio in _BAD
        for place in [1 - (SHARE - floor) / (1 - floor)]
    )


def simulated_day(kind: LabelledKind, day: int, chance: np.random.Generator) -> SimulatedDay:
    """Return a day; days differ in their shares of bad answers by a quarter."""
    number = kind.events // kind.days
    application = chance.choice(3, number, p=_EVENTS)
    shift = 1.0 if kind.days == 1 else (0.75, 1.25)[day % 2]
    is_bad = chance.random(number) < np.array(_BAD)[application] * kind.bad * shift
    risk = chance.normal(size=number) + _LIFT * is_bad
    sensitivity, specificity = np.full(number, kind.sensitivity), np.full(number, kind.specificity)
    if kind.errors_follow_risk:
        place = np.argsort(np.argsort(risk)) / number
        specificity = 1 - (1 - kind.specificity) * 2 * place
        sensitivity = np.clip(kind.sensitivity + 0.3 * (place - 0.65), 0, 1)
    flagged = np.where(is_bad, chance.random(number) < sensitivity, chance.random(number) > specificity)
    certain = kind.all_judged | (risk > np.array(_thresholds(kind.bad))[application])
    probability = np.where(certain, 1.0, SHARE * FLOOR_SHARE)
    first, second = (is_bad ^ (chance.random(number) < kind.people_err) for _ in range(2))
    return SimulatedDay(
        application,
        first,
        second,
        flagged,
        probability,
        chance.random(number) < probability,
        chance.random(number) >= kind.failed,
        chance.random(number) < np.where(first, *kind.unanswered),
    )


def truths(days: list[SimulatedDay], application: int | None) -> Mapping[str, float]:
    """Return the numbers of all events, of which the estimates' intervals should hold the truth."""
    own = [slice(None) if application is None else day.application == application for day in days]
    bad, flagged, second = (
        np.concatenate([getattr(day, name)[rows] for day, rows in zip(days, own, strict=True)])
        for name in ("bad", "flagged", "second")
    )
    return {
        "tpr": float(flagged[bad].mean()),
        "tnr": float((~flagged[~bad]).mean()),
        "precision": float(bad[flagged].mean()),
        "kappa": _kappa(bad, flagged),
        "people_rate": float(bad.mean()),
        "person_to_person": _kappa(bad, second),
    }


def _kappa(one: Flags, other: Flags) -> float:
    agreed = float((one == other).mean())
    expected = float(one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean()))
    return (agreed - expected) / (1 - expected) if expected < 1 else 1.0
