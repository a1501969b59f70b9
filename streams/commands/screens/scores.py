"""The scores of one event for a terminal: values, meanings and evidence, and the reasons of what was not computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rich.padding import Padding
from rich.text import Text

from ragweir.metrics.metric import Metric
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.dead_letters.letters import shown
from ragweir.streams.analysis.evidence.score_groups import nulls_by_reason
from ragweir.streams.runtime.text.terminal import Terminal

DIRECTIONS = {"higher": "higher is better", "lower": "lower is better", "neither": "neither way is better"}
_MAX_REASON = 400
"""Characters of an explanation or a piece of evidence that are shown."""


@dataclass(frozen=True, slots=True)
class ScoreScreen:
    """Prints the scores of evaluations.

    Args:
        terminal: the console to print on.
        catalogue: the metrics by name.
        metrics: the names of the metrics to show; None for all.
    """

    terminal: Terminal
    catalogue: Mapping[str, Metric]
    metrics: Collection[str] | None = None

    def show(self, evaluation: Evaluation) -> None:
        """Print the values in the order of the catalogue, then the metrics without one by their reasons."""
        values: dict[str, float | str | None] = {**evaluation.scores, **evaluation.categories}
        order = {name: number for number, name in enumerate(self.catalogue)}
        self.terminal.say("\nScores", "bold underline")
        for name in sorted(values, key=lambda each: order.get(each, len(order))):
            value = values[name]
            if value is not None and self._has(name):
                self._score(name, value, evaluation)
        missing = {
            reason: kept
            for reason, names in nulls_by_reason(evaluation).items()
            if (kept := [*filter(self._has, names)])
        }
        if missing:
            self.terminal.say("\nNot computed", "bold underline")
        for reason, names in missing.items():
            self.terminal.say(f"  {shown(reason)}:")
            self._indented(", ".join(map(shown, names)), "dim")

    def _has(self, name: str) -> bool:
        return self.metrics is None or name in self.metrics

    def _score(self, name: str, value: float | str, evaluation: Evaluation) -> None:
        metric = self.catalogue.get(name)
        line = Text(f"  {shown(name)}  ", "bold")
        line.append(formatted(value, metric), "default")
        if metric is not None:
            line.append(f"  {metric.unit}, {DIRECTIONS[metric.better]}", "dim")
        self.terminal.say(line)
        if metric is not None:
            self._indented(metric.meaning, "dim")
        if name in evaluation.explanations:
            self._indented(f"the judge: {shown(evaluation.explanations[name], _MAX_REASON)}")
        for piece in evaluation.evidence.get(name, ()):
            self._indented(f"- {shown(piece, _MAX_REASON)}")

    def _indented(self, text: str, style: str = "") -> None:
        self.terminal.print(Padding(Text(text, style), (0, 0, 0, 6)))


def formatted(value: float | str, metric: Metric | None) -> str:
    """Return a value as text: a boolean as yes or no, a number with six digits."""
    if isinstance(value, str):
        return shown(value)
    if metric is not None and metric.unit == "boolean":
        return "yes" if value else "no"
    return f"{value:,.6g}"
