"""Answers with labels of faithfulness by people, in two data sets, and measures of how well a score ranks them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Scores = NDArray[np.float64]
Labels = NDArray[np.bool_]


@dataclass(frozen=True)
class Labelled:
    """One answer, its label, and its question, by which answers are resampled together."""

    view: View
    bad: bool
    question: str


def _mtrag(row: dict[str, Any]) -> tuple[dict[str, Any], bool, str]:
    votes = [int(vote["value"]) for vote in row["human"]["faithfulness"].values()]
    fields = {"query": row["question"], "response": row["response"], "contexts": row["contexts"]}
    return fields, statistics.median(votes) <= 2, row["task_id"]


def _begin(row: dict[str, Any]) -> tuple[dict[str, Any], bool, str]:
    fields = {"query": row["message"], "response": row["response"], "contexts": [{"text": row["knowledge"]}]}
    # "Generic" answers contain nothing to attribute. This split has none; they would count as good.
    return fields, row["begin_label"] == "Not fully attributable", row["knowledge"]


SETS: dict[str, Callable[[dict[str, Any]], tuple[dict[str, Any], bool, str]]] = {"mtrag": _mtrag, "begin": _begin}


def read(name: str, folder: Path = DATA) -> list[Labelled]:
    """Return the answers of a set that have contexts; faithfulness is undefined for the others."""

    def rows() -> Iterator[Labelled]:
        with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                fields, bad, question = SETS[name](json.loads(line))
                if fields["contexts"]:
                    event = Interaction.model_validate({"event_id": f"{name}-{number}", **fields})
                    yield Labelled(View(event), bad, question)

    return list(rows())


def auroc(scores: Scores, bad: Labels) -> float:
    """Return the probability that a bad answer scores above a good one, ties counting half; NaN without both kinds.

    >>> auroc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    _, where, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[where]
    positives = int(bad.sum())
    negatives = len(bad) - positives
    if not (positives and negatives):
        return float("nan")
    return float((ranks[bad].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def interval(scores: Scores, bad: Labels, questions: Sequence[str], draws: int = 2000) -> tuple[float, float]:
    """Return the 95 % interval of the AUROC by a bootstrap over whole questions."""
    generator = np.random.default_rng(0)
    _, group = np.unique(np.array(questions), return_inverse=True)
    members = [np.flatnonzero(group == number) for number in range(group.max() + 1)]
    found = []
    for _ in range(draws):
        drawn = np.concatenate([members[number] for number in generator.integers(len(members), size=len(members))])
        found.append(auroc(scores[drawn], bad[drawn]))
    low, high = np.nanpercentile(found, (2.5, 97.5))
    return float(low), float(high)


def found_within(scores: Scores, bad: Labels, budget: float) -> float:
    """Return the share of the bad answers that is in the riskiest `budget` of all; ties at the edge count in part.

    >>> found_within(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]), 0.5)
    0.75
    """
    room = budget * len(scores)
    caught = 0.0
    for value in np.unique(scores)[::-1]:
        tied = scores == value
        share = min(1.0, room / tied.sum())
        caught += share * bad[tied].sum()
        room -= share * tied.sum()
        if room <= 0:
            break
    return float(caught / bad.sum())
