"""The rate of bad answers by other packages, on the rows of ragweir's own draw: `make bench-people`.

Each package gets what it takes: the judged answers with the judge's verdicts, and the labels of those that were drawn.
truescore takes labels for a random sample, or the shares of strata, here those of the verdicts; cje-eval takes them for
a random sample, or the chance with which each judged answer was labelled. Neither knows of events that are not judged.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from random import Random
from time import process_time
from typing import NamedTuple

import cje
import numpy as np
import truescore
from rich.table import Table

from bench.labelled_windows import Flags, Floats, Ints, LabelledKind, SimulatedDay, simulated_day
from bench.people import NumberIntervals, labelled, summary
from ragweir.metrics.people.shares import Limits
from ragweir.streams.analysis.labels.sampling_frame import Frame
from tools import tables

_KINDS = ((0.05, 0.7, 0.9, 30), (0.1, 0.7, 0.9, 100), (0.1, 0.95, 0.97, 100))
"""Shares of bad answers, sensitivity and specificity of the judge, and numbers of labels."""
_ROWS = {
    "all events judged, 2,000": {"events": 2_000, "all_judged": True},
    "routed, 2,000 of 20,000 events": {"events": 20_000},
}


class LabelledRows(NamedTuple):
    """The judged answers of a day, as columns."""

    flagged: Flags
    bad: Floats
    """Labels: 1 for bad, 0 for good, NaN for an answer without one."""
    chance: Floats
    """Chance with which a judged answer was labelled."""
    share: float
    """Share of all events that the judge calls bad, as the draw's frame has it."""

    @property
    def places(self) -> Ints:
        """The places of the labelled answers."""
        return np.flatnonzero(~np.isnan(self.bad))


Estimator = Callable[[LabelledRows], tuple[float, float]]


def _ppi(rows: LabelledRows) -> tuple[float, float]:
    found = truescore.ppi_estimate(rows.flagged, rows.bad[rows.places], rows.places)
    return found.low, found.high


def _post_stratified(rows: LabelledRows) -> tuple[float, float]:
    strata = np.where(rows.flagged, "bad", "good")
    weights = {"bad": rows.share, "good": 1 - rows.share}
    found = truescore.post_stratified_estimate(rows.flagged, rows.bad[rows.places], rows.places, strata, weights)
    return found.low, found.high


def _calibrated(rows: LabelledRows, **design: object) -> tuple[float, float]:
    records = [
        {"prompt_id": str(place), "judge_score": float(flagged), "oracle_label": None if np.isnan(bad) else float(bad)}
        for place, (flagged, bad) in enumerate(zip(rows.flagged, rows.bad, strict=True))
    ]
    found = cje.analyze_dataset(fresh_draws_data={"p": records}, fresh_judge_scale=(0, 1), **design)
    ((low, high),) = found.ci()
    return float(low), float(high)


def _propensities(rows: LabelledRows) -> tuple[float, float]:
    return _calibrated(rows, label_design="known_propensity", label_propensities={"p": rows.chance.tolist()})


PEERS: Mapping[str, Estimator] = {
    f"truescore {version('truescore')}, ppi_estimate": _ppi,
    f"truescore {version('truescore')}, post_stratified_estimate": _post_stratified,
    f"cje-eval {version('cje-eval')}, representative": _calibrated,
    f"cje-eval {version('cje-eval')}, known_propensity": _propensities,
}


def _rows(kind: LabelledKind, day: SimulatedDay, randomness: Random) -> tuple[LabelledRows, Limits]:
    """Return the rows of a draw, and ragweir's own rate."""
    given = labelled(kind, [day], randomness)
    (draw,) = given.draws.values()
    judged = np.flatnonzero(day.selected)
    bad, chance = np.full(len(day.bad), np.nan), np.ones(len(day.bad))
    for label in given.labels.values():
        row = int(label.event_id.partition("-")[2])
        bad[row] = day.bad[row]
    for verdict, sums in ((True, draw.bad), (False, draw.good)):
        # Within a verdict the chance is that of the draw, which is proportional to 1/p.
        own = judged[day.flagged[judged] == verdict]
        chance[own] = np.minimum(1.0, sums.drawn / day.chance[own] / (1 / day.chance[own]).sum())
    flagged = Frame.from_draw(draw).flagged()
    found = summary(given)["people_rate"]
    if isinstance(flagged, str) or isinstance(found, str):
        raise TypeError("a window without a rate")
    return LabelledRows(day.flagged[judged], bad[judged], chance[judged], flagged.value), found


def table(windows: int = 200) -> Iterator[Table]:
    """Return coverage, width and cost of each package's interval."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for name, fields in _ROWS.items():
        shown = Table(
            *("bad, judge", "labels", "package", "coverage", "width", "no interval", "CPU ms"),
            title=f"Rate of bad answers by labels of ragweir's draw: {name}, {windows:,} windows",
        )
        for numbers in _KINDS:
            kind = LabelledKind(*numbers, **fields)  # type: ignore[arg-type]
            outcomes = {each: NumberIntervals() for each in ("ragweir", *PEERS)}
            spent = dict.fromkeys(outcomes, 0.0)
            chance, randomness = np.random.default_rng(35), Random(35)
            for _ in range(windows):
                day = simulated_day(kind, 0, chance)
                truth = float(day.bad.mean())
                began = process_time()
                rows, own = _rows(kind, day, randomness)
                spent["ragweir"] += process_time() - began
                outcomes["ragweir"].add((own.low, own.high), truth)
                for package, estimate in PEERS.items():
                    began = process_time()
                    limits: tuple[float, float] | None = None
                    with suppress(ValueError):
                        limits = estimate(rows)
                    spent[package] += process_time() - began
                    outcomes[package].add(limits, truth)
            for package, own_intervals in outcomes.items():
                shown.add_row(
                    *(f"{kind.bad:.0%}, {kind.sensitivity} and {kind.specificity}", str(kind.labels), package),
                    *(f"{own_intervals.coverage:.3f}", f"{own_intervals.mean_width:.3f}"),
                    *(f"{own_intervals.missing:.1%}", f"{spent[package] / windows * 1e3:.1f}"),
                )
        yield shown


if __name__ == "__main__":
    tables.main(__doc__ or "", {"people": table}, ["people"])
