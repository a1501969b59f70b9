"""The share of events that the judge reads: the riskiest ones, and some at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Threshold(NamedTuple):
    """The numbers of a `ragweir.schemas.routing_row.RoutingRow`."""

    bin: int
    at_bin: float
    floor: float


def threshold(bins: Mapping[int, int], events: int, share: float, floor_share: float) -> Threshold:
    """Return the threshold with which the mean probability of selection is `share`.

    With H the share of events in bins, q = (1 - floor_share) * share is selected because of the risk: all bins above K
    and the part b of K, where H(> K) <= q < H(>= K) and b = (q - H(> K)) / H(= K). The floor f = (share - q) / (1 - q)
    selects the rest from all other events. If fewer events than q have a risk, all of these are selected, and the floor
    is larger.

    Args:
        bins: number of events by bin of `unsupported_risk`.
        events: number of all events, with those whose risk is null.
        share: share of the events to be selected, from 0 to 1.
        floor_share: part of them that is selected at random, from 0 to 1.

    >>> threshold({10: 800, 90: 200}, 1000, 0.5, 0.5)
    Threshold(bin=10, at_bin=0.0625, floor=0.3333333333333333)
    >>> threshold({10: 900, 90: 50}, 1000, 0.1, 0.25).bin
    10
    """
    wanted = (1 - floor_share) * share * events
    above = 0
    for number in sorted(bins, reverse=True):
        if wanted < above + bins[number]:
            return Threshold(number, (wanted - above) / bins[number], _floor(share, wanted / events))
        above += bins[number]
    return Threshold(-1, 0.0, _floor(share, above / events if events else 0.0))


def _floor(share: float, certain: float) -> float:
    """Return the probability of the other events, with which the mean is `share`."""
    return (share - certain) / (1 - certain) if certain < 1 else 1.0


def risk_bin(risk: float | None) -> int | None:
    """Return the bin of `unsupported_risk` in the histograms of windows; None for null.

    >>> risk_bin(0.29), risk_bin(1.0), risk_bin(None)
    (29, 99, None)
    """
    # In fixed-point integers as windows, or 0.29 would be in the bin below.
    return None if risk is None else min(round(min(max(risk, 0.0), 1.0) * 1_000_000) // 10_000, 99)
