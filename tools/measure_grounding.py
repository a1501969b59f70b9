"""Measure how well the grounding metrics find the answers that people labelled unfaithful.

Run from the project's root: `python -m tools.measure_grounding [--data FOLDER]`. Needs numpy and scipy.

For each labelled set and metric it prints the AUROC (the probability that a bad answer scores worse than a good one)
with a bootstrap interval over questions, and the share of the bad answers among the riskiest 10 % and 20 %. Random
choice finds 10 % and 20 % of them. `unsupported_risk` is measured with the shipped model, fitted on the other set, and
cross-validated on this set; a calibration table of the shipped model follows. Answers for which a metric is null are
excluded from its line; `answers` is the number of the others. Bad is a median vote of at most 2 (of 4) in mtrag, and
"not fully attributable" in begin.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from ragweir.metrics.metric import Metric
from ragweir.metrics.scores import grounding, overlap, risk
from tools import labelled_answers
from tools.fit_risk import LabelledSet, cross_validated, fit, risks, sample
from tools.labelled_answers import Labelled, Labels, Scores, auroc, found_within, interval

HALLUCINATION = tuple(metric for metric in overlap.METRICS if metric.better == "lower")
METRICS = grounding.METRICS + HALLUCINATION + risk.METRICS
BUDGETS = (0.1, 0.2)
BINS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def _line(name: str, scores: Scores, bad: Labels, questions: Sequence[str]) -> str:
    if bad.all() or not bad.any():
        return f"{name:<38}{len(bad):>8}   no bad answer among them" if len(bad) else f"{name:<38}{0:>8}"
    low, high = interval(scores, bad, questions)
    found = "".join(f"{found_within(scores, bad, budget):9.0%}" for budget in BUDGETS)
    return f"{name:<38}{len(bad):>8}{auroc(scores, bad):>8.3f}   {low:.3f} to {high:.3f}{found}"


def metric_line(metric: Metric, answers: Sequence[Labelled]) -> str:
    """Return the line of a metric: AUROC, its interval, and the bad answers among the riskiest."""
    sign = -1.0 if metric.better == "higher" else 1.0
    scored = [(metric.compute(answer.view), answer) for answer in answers]
    kept = [(sign * float(value), answer) for value, answer in scored if isinstance(value, float | int)]
    return _line(
        metric.name,
        np.array([score for score, _ in kept]),
        np.array([answer.bad for _, answer in kept]),
        [answer.question for _, answer in kept],
    )


def _calibration(model: risk.Model, one: LabelledSet) -> Iterator[str]:
    found = risks(model, one)
    yield f"{'risk as it ships':<20}{'answers':>8}{'mean risk':>11}{'bad':>7}"
    for low, high in pairwise(BINS):
        within = (found >= low) & (found < high)
        if within.any():
            mean, share = float(found[within].mean()), float(one.bad[within].mean())
            yield f"{f'{low:.1f} to {high:.1f}':<20}{int(within.sum()):>8}{mean:>11.2f}{share:>7.2f}"


def report(folder: Path) -> Iterator[str]:
    """Yield the lines of the report."""
    sets = {name: labelled_answers.read(name, folder) for name in labelled_answers.SETS}
    samples = {name: sample(answers) for name, answers in sets.items()}
    for name, answers in sets.items():
        one = samples[name]
        yield f"{name}: {len(answers)} answers with contexts, {sum(answer.bad for answer in answers)} of them bad"
        yield f"{'':<38}{'answers':>8}{'AUROC':>8}   {'95 % interval':<14}{'at 10 %':>9}{'at 20 %':>9}"
        yield from (metric_line(metric, answers) for metric in METRICS)
        for other, its in samples.items():
            if other != name:
                yield _line(f"unsupported_risk fitted on {other}", risks(fit([its]), one), one.bad, one.questions)
        yield _line("unsupported_risk cross-validated", cross_validated(one), one.bad, one.questions)
        yield _line("perfect order", one.bad.astype(float), one.bad, one.questions)
        yield f"{'random choice':<38}{len(answers):>8}{0.5:>8.3f}{'':<18}" + "".join(f"{b:9.0%}" for b in BUDGETS)
        yield ""
        yield from _calibration(risk.model(), one)
        yield ""


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=labelled_answers.DATA, help="folder of the labelled sets")
    for line in report(parser.parse_args().data):
        print(line)


if __name__ == "__main__":
    main()
