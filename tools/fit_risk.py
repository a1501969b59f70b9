"""Fit the model of `unsupported_risk` on labelled answers, and write metrics/scores/risk.toml.

Run from the project's root: `python -m tools.fit_risk [--data FOLDER] [--write]`. Needs numpy and scipy.

The model has few features, fixed signs and strong regularisation, since it is applied to traffic without labels.

1. Direction. The coefficients minimise the logistic loss plus a ridge penalty, none below 0. Every set has the same
   weight, and so have good and bad answers within it. Each set has an intercept, which takes up its share of bad
   answers.
2. Calibration. Along that direction one slope for all sets and an intercept for each are fitted without penalty, every
   set with the same weight. The slopes of the sets agree; their intercepts differ with the strictness of the people.
   The model has the mean of the intercepts, the file each of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped] # scipy ships no types

from ragweir.metrics.metric import Null
from ragweir.metrics.scores.risk import FEATURES, Model, features
from tools import labelled_answers
from tools.labelled_answers import Labels, Scores, auroc

MODEL = Path(__file__).resolve().parents[1] / "metrics" / "scores" / "risk.toml"

RIDGE = 0.1


@dataclass(frozen=True)
class LabelledSet:
    """The features and labels of the answers of one set that have features."""

    features: Scores
    bad: Labels
    questions: tuple[str, ...]

    def take(self, rows: Labels) -> LabelledSet:
        """Return the marked rows."""
        kept = tuple(question for question, keep in zip(self.questions, rows, strict=True) if keep)
        return LabelledSet(self.features[rows], self.bad[rows], kept)


def sample(answers: Sequence[labelled_answers.Labelled]) -> LabelledSet:
    """Return the features of a set's answers."""
    rows = [(features(answer.view), answer) for answer in answers]
    kept = [(row, answer) for row, answer in rows if not isinstance(row, Null)]
    return LabelledSet(
        np.array([row for row, _ in kept]),
        np.array([answer.bad for _, answer in kept]),
        tuple(answer.question for _, answer in kept),
    )


def _direction(samples: Sequence[LabelledSet]) -> Scores:
    width = len(FEATURES)

    def loss(parameters: Scores) -> tuple[float, Scores]:
        weights, total, slope = parameters[:width], 0.0, np.zeros_like(parameters)
        for number, (one, intercept) in enumerate(zip(samples, parameters[width:], strict=True)):
            score = one.features @ weights + intercept
            share = np.where(one.bad, 0.5 / one.bad.sum(), 0.5 / (~one.bad).sum()) / len(samples)
            total += float((share * (np.logaddexp(0, score) - one.bad * score)).sum())
            excess = share * (1 / (1 + np.exp(-score)) - one.bad)
            slope[:width] += one.features.T @ excess
            slope[width + number] = excess.sum()
        slope[:width] += RIDGE * weights
        return total + RIDGE / 2 * float(weights @ weights), slope

    bounds = [(0, None)] * width + [(None, None)] * len(samples)
    return np.asarray(minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds).x[:width])


def calibrate(samples: Sequence[LabelledSet]) -> tuple[Scores, Scores]:
    """Return the calibrated coefficients, and the intercept of each set."""
    direction = _direction(samples)
    scores = [one.features @ direction for one in samples]

    def loss(parameters: Scores) -> float:
        calibrated = [parameters[0] * score + own for score, own in zip(scores, parameters[1:], strict=True)]
        return sum(
            float((np.logaddexp(0, score) - one.bad * score).mean())
            for score, one in zip(calibrated, samples, strict=True)
        )

    bounds = [(0, None)] + [(None, None)] * len(samples)
    slope, *own = minimize(loss, np.array([1.0] + [0.0] * len(samples)), bounds=bounds).x
    return slope * direction, np.array(own)


def fit(samples: Sequence[LabelledSet]) -> Model:
    """Return the model of these sets."""
    coefficients, own = calibrate(samples)
    return Model(float(own.mean()), tuple(float(weight) for weight in coefficients))


def risks(model: Model, one: LabelledSet) -> Scores:
    """Return the model's risk of every answer of a set."""
    return np.array([model.risk(tuple(row)) for row in one.features])


def cross_validated(one: LabelledSet, folds: int = 5) -> Scores:
    """Return a score of every answer, in the order of risk, by a model fitted without the answers to its question.

    The coefficients of each fold are normalised to the same sum, so that answers of different folds are comparable.
    """
    _, group = np.unique(np.array(one.questions), return_inverse=True)
    fold = np.random.default_rng(0).permutation(group.max() + 1)[group] % folds
    found = np.zeros(len(one.bad))
    for number in range(folds):
        held_out = fold == number
        weights = np.array(fit([one.take(~held_out)]).coefficients)
        found[held_out] = one.features[held_out] @ (weights / weights.sum())
    return found


def _file(samples: dict[str, LabelledSet]) -> str:
    model = fit(list(samples.values()))
    _, own = calibrate(list(samples.values()))
    lines = [
        "# The logistic model behind `unsupported_risk`, written by tools/fit_risk.py: fit it again, do not edit it.",
        "# risk = 1 / (1 + e^-(intercept + sum of coefficient x feature)); the features: metrics/scores/risk.py.",
        "",
        f"intercept = {model.intercept:.3f}",
        "",
        "[coefficients]",
        *(f"{name} = {weight:.3f}" for name, weight in zip(FEATURES, model.coefficients, strict=True)),
        "",
        "[fit]",
        f"ridge = {RIDGE}",
        f"sets = {json.dumps(list(samples))}",
        f"answers = {[len(one.bad) for one in samples.values()]}",
        f"bad = {[int(one.bad.sum()) for one in samples.values()]}",
        "",
        "# With the intercept of one set in place of their mean, the risk is calibrated to that set's standard.",
        "[fit.intercepts]",
        *(f"{name} = {intercept:.3f}" for name, intercept in zip(samples, own, strict=True)),
        "",
        "# Area under the ROC curve against people's judgement of faithfulness.",
        "[auroc]",
    ]
    for name, one in samples.items():
        others = [other for key, other in samples.items() if key != name]
        lines.append(f"{name}.this_model = {auroc(risks(model, one), one.bad):.3f}")
        lines.append(f"{name}.fitted_on_the_others = {auroc(risks(fit(others), one), one.bad):.3f}")
        lines.append(f"{name}.cross_validated_by_question = {auroc(cross_validated(one), one.bad):.3f}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit the model, print its file, and write it with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=labelled_answers.DATA, help="folder of the labelled sets")
    parser.add_argument("--write", action="store_true", help="write metrics/scores/risk.toml")
    arguments = parser.parse_args()
    samples = {name: sample(labelled_answers.read(name, arguments.data)) for name in labelled_answers.SETS}
    text = _file(samples)
    print(text, end="")
    if arguments.write:
        MODEL.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
