"""Label sets: which of a window's stand for themselves, and which count together because there are too many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metrics.contents import Contents
from schemas.window import OVERFLOW

Labels = tuple[str, ...]
"""One value per dimension, in the settings' order; empty where the event has none."""


def capped(sets: Mapping[Labels, Contents], most: int) -> tuple[dict[Labels, Contents], int]:
    """The `most` label sets with the most events, the rest as one overflow set; and how many went into that.

    The overflow set that may already be there does not count as one of the `most`. Equally busy label sets are taken
    in their order, so that the outcome does not depend on the order of `sets`, which stay as they are.

    >>> shown, folded = capped({("a",): Contents(1), ("b",): Contents(7), ("c",): Contents(2)}, most=1)
    >>> {labels: contents.events for labels, contents in shown.items()}, folded
    ({('b',): 7, ('__overflow__',): 3}, 2)
    """
    ranked = [labels for labels in by_events(sets) if not _is_overflow(labels)]
    kept = {labels: sets[labels] for labels in ranked[:most]}
    rest = [labels for labels in sets if labels not in kept]
    if rest:
        together = kept[(OVERFLOW,) * len(rest[0])] = Contents()
        for labels in rest:
            together.merge(sets[labels])
    return kept, len(ranked[most:])


def fold(sets: dict[Labels, Contents], more: Mapping[Labels, Contents], most: int) -> int:
    """Merge `more` into `sets`, which never come to hold over `most` label sets beside the overflow set.

    The label sets that came first stay; of those that come together, the busiest go first.

    Returns:
        how many went into the overflow set.
    """
    folded = 0
    for labels in by_events(more):
        place = labels
        if labels not in sets and not _is_overflow(labels):
            overflow = (OVERFLOW,) * len(labels)
            if len(sets) - (overflow in sets) >= most:
                place = overflow
                folded += 1
        sets.setdefault(place, Contents()).merge(more[labels])
    return folded


def by_events(sets: Mapping[Labels, Contents]) -> list[Labels]:
    """Label sets, the busiest first."""
    return sorted(sets, key=lambda labels: (-sets[labels].events, labels))


def _is_overflow(labels: Iterable[str]) -> bool:
    return all(value == OVERFLOW for value in labels)
