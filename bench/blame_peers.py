"""Causes by other rankings, on the rows of `bench.blame`: `make bench-blame`.

sliceline finds the slices, of up to two values, with the highest score of size and error; it gets a column for each
document that enough answers have, and one for the version. BubbleUp, as of Honeycomb, compares the bad answers with the
others: it ranks values by the difference of their shares among the two. Neither tests what it finds, so that both get
the number of causes that are planted; blame has to find the number too. A version and a document within it are
the same answer for all three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from time import process_time

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from sliceline.slicefinder import Slicefinder

from bench.blame import RIGHT, found_in
from bench.served_documents import ServedTraffic, TrafficKind, served
from tools import tables

_KIND = TrafficKind(events=4_000, documents=40, servings=300)
_LEAST = 20
_ALPHAS = (0.6, 0.95)
"""Weights of the error beside the size: sliceline's default, and one that prefers small slices."""
_LEVELS = 2
"""Number of values of a slice, since a document that is bad with one version is two."""
Names = frozenset[str]
"""The values of one cause."""
Ranking = Callable[[ServedTraffic, int], list[Names]]


def _columns(traffic: ServedTraffic) -> tuple[list[str], NDArray[np.bool_]]:
    """Return the names of the values that enough answers have, and which answers have them."""
    documents = int(traffic.documents.max()) + 1
    has = np.zeros((len(traffic.bad), documents + 2), bool)
    for column in traffic.documents.T:
        has[np.arange(len(has)), column] = True
    for each in (0, 1):
        has[:, documents + each] = traffic.version == each
    kept = np.flatnonzero(has.sum(axis=0) >= _LEAST)
    own = {0: "document", documents + 1: "version"}
    return [own.get(each, f"value {each}") for each in kept.tolist()], has[:, kept]


def _blame(traffic: ServedTraffic, _: int) -> list[Names]:
    documents = int(traffic.documents.max()) + 1
    own = {0: "document", documents + 1: "version"}
    return [frozenset(own.get(each, f"value {each}") for each in cause.values) for cause in found_in(traffic).causes]


def _bubble_up(traffic: ServedTraffic, most: int) -> list[Names]:
    names, has = _columns(traffic)
    difference = has[traffic.bad].mean(axis=0) - has[~traffic.bad].mean(axis=0)
    return [frozenset([names[each]]) for each in np.argsort(-difference)[:most].tolist()]


def _sliceline(alpha: float, traffic: ServedTraffic, most: int) -> list[Names]:
    names, has = _columns(traffic)
    # It takes each value of a column for one of a slice, the lack of a document too, which says nothing.
    found = Slicefinder(alpha=alpha, k=8 * most, max_l=_LEVELS, min_sup=_LEAST, verbose=False)
    found.fit(has.astype(np.int64), traffic.bad.astype(float))
    slices: list[Names] = []
    for each in found.top_slices_:
        own = frozenset(name for name, value in zip(names, each, strict=True) if value == 1)
        if own and own not in slices:
            slices.append(own)
    return slices[:most]


RANKINGS: Mapping[str, Ranking] = {
    "blame": _blame,
    **{f"sliceline {version('sliceline')}, alpha {alpha}": partial(_sliceline, alpha) for alpha in _ALPHAS},
    "BubbleUp": _bubble_up,
}


def _expected(plant: str) -> set[Names]:
    return {frozenset(names.split(", ")) for names, _ in RIGHT[plant]}  # type: ignore[index]


def table(seeds: int = 20) -> Iterator[Table]:
    """Return how often each ranking names the causes of each plant and nothing else, and its cost."""
    shown = Table(
        *("ranking", *RIGHT, "nothing", "CPU ms"),
        title="Causes that are named rightly",
        caption=f"{_KIND.events:,} answers, {_KIND.documents} documents, {_KIND.servings} with the planted one; "
        f"of {seeds} seeds. `nothing`: traffic without a cause, in which none is to be named.",
    )
    hits: dict[str, Counter[str]] = {each: Counter() for each in RANKINGS}
    spent = dict.fromkeys(RANKINGS, 0.0)
    for number, plant in enumerate((*RIGHT, "nothing")):
        right = set() if plant == "nothing" else _expected(plant)
        for seed in range(seeds):
            traffic = served(_KIND, plant, np.random.default_rng([seed, number]))
            for name, ranking in RANKINGS.items():
                began = process_time()
                found = ranking(traffic, max(1, len(right)))
                spent[name] += process_time() - began
                hits[name][plant] += set(found) == right
    for name, own in hits.items():
        runs = seeds * (len(RIGHT) + 1)
        shown.add_row(name, *(str(own[each]) for each in (*RIGHT, "nothing")), f"{spent[name] / runs * 1e3:,.0f}")
    yield shown


if __name__ == "__main__":
    tables.main(__doc__ or "", {"blame": table}, ["blame"])
