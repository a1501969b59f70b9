"""False findings and power of `ragweir blame`, on traffic of `bench.served_documents`, which has no code of ragweir."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log

import numpy as np
from rich.table import Table

from bench.served_documents import HOURS, Plant, ServedTraffic, TrafficKind, served
from ragweir.metrics.cause.causes import FoundCauses, causes
from ragweir.metrics.cause.multiplicity import LEVEL, harmonic
from ragweir.metrics.cause.servings import NONE, Servings, paired

DOCUMENT, VERSION = 0, 1
"""Numbers of the facets."""
_MANY = 1_000_000
RIGHT: Mapping[Plant, list[tuple[str, str | None]]] = {
    "version": [("version", None)],
    "document": [("document", None)],
    "apart": [("version", None), ("document", None)],
    "inside": [("version", None), ("document", "version")],
    "confined": [("document, version", None)],
    "innocent": [("document", None)],
}
"""The causes of each plant, with the one that each is within."""


def servings_of(traffic: ServedTraffic, *, with_sessions: bool = True) -> Servings:
    """Return traffic as the statistics read it; without sessions each answer counts."""
    events, per_answer = traffic.documents.shape
    documents = int(traffic.documents.max()) + 1
    place = np.arange(events)
    return Servings.ordered(
        bad=traffic.bad,
        present=np.ones(events, bool),
        stratum=traffic.version * HOURS + traffic.hour,
        session=traffic.session if with_sessions else np.full(events, NONE),
        question=np.full(events, NONE),
        chance=traffic.ids.astype(np.uint64),
        pairs=paired(
            np.concatenate([np.repeat(place, per_answer), place]),
            np.concatenate([traffic.documents.ravel(), documents + traffic.version]),
        ),
        facet=np.array([DOCUMENT] * documents + [VERSION] * 2),
        schemes=np.array([np.arange(2 * HOURS), np.arange(2 * HOURS) % HOURS]),
    )


def found_in(traffic: ServedTraffic, *, with_sessions: bool = True) -> FoundCauses:
    """Return the causes in traffic."""
    rows = servings_of(traffic, with_sessions=with_sessions)
    return causes(rows, [frozenset([VERSION]), frozenset()], frozenset([VERSION]))


def named(traffic: ServedTraffic) -> list[tuple[str, str | None]]:
    """Return the causes by name, each with the one that it is within; a value that is not planted has its number."""
    documents = int(traffic.documents.max()) + 1
    names = {0: "document", documents + 1: "version"}
    found = [(each.values, each.within) for each in found_in(traffic).causes]
    titles = [", ".join(names.get(each, f"value {each}") for each in values) for values, _ in found]
    return [(titles[n], None if within is None else titles[within]) for n, (_, within) in enumerate(found)]


def null_runs(runs: int = 1000) -> Iterator[Table]:
    """Return how many runs without a cause find one, with sessions counted once, and by their answers."""
    kind = TrafficKind()
    shown = Table(
        *("sessions", "runs", "runs that find a cause"),
        title="Runs of blame without a cause",
        caption=f"{kind.events:,} answers, {kind.documents:,} documents, sessions of {kind.session} that share "
        "documents and go wrong together. At a false discovery rate of 5 %, at most 64 of 1,000 may find any.",
    )
    for with_sessions, number in ((True, runs), (False, min(runs, 50))):
        every = (served(kind, "nothing", np.random.default_rng([seed, 35])) for seed in range(number))
        found = sum(bool(found_in(each, with_sessions=with_sessions).causes) for each in every)
        shown.add_row("counted once" if with_sessions else "counted by answers", f"{number:,}", f"{found:,}")
    yield shown


def planted(seeds: int = 100) -> Iterator[Table]:
    """Return how often a planted document is found first, by the number of its servings."""
    shown = Table(
        *("servings", "seeds", "found first", "also among a million"),
        title="A document that raises bad answers from 5 to 35 %",
        caption="20,000 answers, 2,000 documents, four of each answer, sessions of four. `also among a million`: its "
        "exact probability is low enough for the first of a million tests.",
    )
    limit = log(LEVEL / (_MANY * harmonic(_MANY)))
    for servings in (30, 50, 75, 100):
        first = many = 0
        for seed in range(seeds):
            traffic = served(TrafficKind(servings=servings), "document", np.random.default_rng([seed, servings]))
            found = found_in(traffic).causes[:1]
            hit = [each.values for each in found] == [[0]]
            first, many = first + hit, many + (hit and found[0].log_p <= limit)
        shown.add_row(str(servings), str(seeds), str(first), str(many))
    yield shown


def plants(seeds: int = 100, servings: int = 300) -> Iterator[Table]:
    """Return how often the causes of six plants are named, and nothing else."""
    shown = Table(
        *("plant", "seeds", "named rightly"),
        title="Causes that are named rightly",
        caption=f"20,000 answers, {servings} with the planted document, sessions of four. `version`: +10 points; "
        "`document`: 35 % bad; `apart`: both; `inside`: the version +10 points, and the document bad in it alone; "
        "`confined`: the document bad in the version alone, which is not bad without it; `innocent`: 70 % of the bad "
        "document's answers have another one as well.",
    )
    for number, (plant, right) in enumerate(RIGHT.items()):
        kind = TrafficKind(servings=servings)
        hits = sum(named(served(kind, plant, np.random.default_rng([seed, number]))) == right for seed in range(seeds))
        shown.add_row(plant, str(seeds), str(hits))
    yield shown
