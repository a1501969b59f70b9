"""Compute the shipped distribution of `unsupported_risk`, `ragweir.metrics.shipped_bins`, from the labelled sets.

Run from the project's root: `python -m tools.shipped_bins [--data FOLDER]`. It prints the number of answers in each bin
of 10,000, ten in a line. The sets count alike, whatever their sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragweir.metrics.routing_share import risk_bin
from ragweir.metrics.scores import risk
from tools import labelled_answers

ANSWERS = 10_000


def shipped_bins(folder: Path = labelled_answers.DATA) -> tuple[int, ...]:
    """Return the number of answers in each bin, of 10,000 apart from rounding."""
    shares = np.zeros(100)
    for name in labelled_answers.SETS:
        answers = labelled_answers.read(name, folder)
        values = [risk.METRICS[0].compute(answer.view) for answer in answers]
        bins = [risk_bin(float(value)) for value in values if isinstance(value, float | int)]
        shares += np.bincount(np.array(bins), minlength=len(shares)) / len(answers)
    return tuple(np.rint(shares / len(labelled_answers.SETS) * ANSWERS).astype(int).tolist())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the distribution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=labelled_answers.DATA)
    bins = shipped_bins(parser.parse_args(arguments).data)
    for first in range(0, len(bins), 10):
        print(*bins[first : first + 10], sep=", ")


if __name__ == "__main__":
    main()
