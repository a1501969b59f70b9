"""What a dollar buys: the judged events, the width of intervals and the bad answers found, by the share judged.

The numbers are expectations. The traffic, the share of bad answers and the cost are measured where there is history;
the rank quality of `unsupported_risk` (its AUROC) is an assumption, since windows do not hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from ragweir.metrics.aggregation.interval import RandomSample, is_sufficient, limit
from ragweir.metrics.routing_share import threshold
from ragweir.schemas.window import duration_s
from ragweir.streams.services.planner.traffic import Traffic

AUROC = 0.75
"""The default assumption: people's labels gave .67 to .91, by data set and system."""
BAD = 0.2
"""The assumed share of bad answers where the judge has read none."""
_NORMAL = NormalDist()
_DAY_S = 86_400
_STEPS = 60


class ShareEstimate(NamedTuple):
    """The expectations of one application at one share."""

    share: float
    """Share of the events that is judged."""
    judged_per_day: float
    usd_per_day: float | None
    """Cost in dollars; None if the cost of an event is not known."""
    finds: float
    """Share of the bad answers that is judged."""
    widths: Mapping[str, float | None]
    """Width of the 95 % interval of a score from 0 to 1, by size of window; None if too few events are drawn."""


def estimate_share(
    traffic: Traffic,
    days: float,
    share: float,
    floor_share: float,
    cost_usd: float | None,
    sizes: Sequence[str],
    auroc: float = AUROC,
) -> ShareEstimate:
    """Return the expectations of an application.

    Args:
        traffic: its past events.
        days: the days of the past events.
        share: the share of events to judge.
        floor_share: the part of them that is selected at random.
        cost_usd: the cost of an event in dollars; None if it is not known.
        sizes: the sizes of windows.
        auroc: the probability that a bad answer has a higher risk than a good one.
    """
    per_day = traffic.events / days
    floor = threshold(traffic.bins, traffic.events, share, floor_share).floor
    certain = (share - floor) / (1 - floor) if floor < 1 else 0.0
    bad = BAD if traffic.bad is None else traffic.bad
    found = found_by_rank(certain, bad, auroc)
    return ShareEstimate(
        share=share,
        judged_per_day=share * per_day,
        usd_per_day=None if cost_usd is None else share * per_day * cost_usd,
        finds=found + (1 - found) * floor,
        widths={
            size: width(per_day * duration_s(size) / _DAY_S, certain, floor, bad, found) for size in (*sizes, "1d")
        },
    )


def found_by_rank(certain: float, bad: float, auroc: float) -> float:
    """Return the share of the bad events among the riskiest ones.

    The risks of bad and good events are normal with one variance, at the distance that gives the AUROC.

    >>> round(found_by_rank(0.1, 0.2, 0.5), 3), round(found_by_rank(0.1, 0.2, 0.75), 3)
    (0.1, 0.268)

    Args:
        certain: share of the events that are selected by their risk.
        bad: share of the events that are bad.
        auroc: the probability that a bad event has a higher risk than a good one.
    """
    distance = sqrt(2) * _NORMAL.inv_cdf(min(max(auroc, 1e-9), 1 - 1e-9))
    low, high = -20.0, 20.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        above = bad * _NORMAL.cdf(distance - middle) + (1 - bad) * _NORMAL.cdf(-middle)
        low, high = (middle, high) if above > certain else (low, middle)
    return _NORMAL.cdf(distance - low)


def width(events: float, certain: float, floor: float, bad: float, found: float) -> float | None:
    """Return the width of the interval of a mean of 0 and 1 over a window; None if there is none.

    >>> width(10_000, 0.075, 0.027, 0.2, 0.2), width(100, 0.075, 0.027, 0.2, 0.2)
    (0.089, None)

    Args:
        events: number of events in the window.
        certain: share of them that is selected by risk.
        floor: probability of the others.
        bad: share of bad events.
        found: share of the bad events among those selected by risk.
    """
    known = round(certain * events)
    drawn = round((events - known) * floor)
    if not drawn or floor >= 1:
        return 0.0 if floor >= 1 and events >= 1 else None
    rest = max(0.0, min(1.0, bad * (1 - found) / (1 - certain)))
    weight = 1 / floor
    spread = drawn * weight * (weight - 1)
    sample = RandomSample(drawn * weight, drawn * weight * rest, spread, spread * rest, spread * rest)
    if not is_sufficient(sample, floor):
        return None
    known_sum, others = min(known, bad * found * events), round(events) - known
    low, high = (limit(known, known_sum, sample, others, floor, (0.0, 1.0), upper=upper) for upper in (False, True))
    return round(high - low, 4)
