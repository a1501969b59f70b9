"""Gates: conditions on the change of a metric, which a comparison fails or passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragweir.errors import ConfigurationError
from ragweir.metrics.aggregation.estimate import estimate_name, parse_estimate_name
from ragweir.metrics.aggregation.paired_differences import FEWEST, FEWEST_CLUSTERS, OTHERS, Difference
from ragweir.metrics.metric import Better
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.runtime.text.terminal import printable

EXAMPLE = '"context_support -0.02"'


@dataclass(frozen=True, slots=True)
class Gate:
    """A metric, and the least change of its mean for the worse, with its sign."""

    metric: str
    least: float

    @classmethod
    def read(cls, text: str, directions: Mapping[str, Better]) -> Gate:
        """Read a gate from its text.

        >>> Gate.read("context_support -0.02", {})
        Gate(metric='context_support', least=-0.02)

        Args:
            text: the metric and the change.
            directions: the better direction of each metric; those of other metrics are not checked.

        Raises:
            ConfigurationError: if it is no gate, or its change is for the better.
        """
        match = re.fullmatch(r"\s*(\S.*?)\s+([+-]?(?:\d+\.?\d*|\.\d+))\s*", text)
        if match is None or not float(match[2]):
            raise ConfigurationError(
                f"the condition {printable(text)!r} must be a metric and a change other than 0, as in {EXAMPLE}"
            )
        gate = cls(match[1], float(match[2]))
        better = directions.get(gate.metric, "neither")
        if better == ("higher" if gate.least > 0 else "lower"):
            raise ConfigurationError(
                f"the condition {printable(text)!r}: {gate.metric} is better {better}, so change the sign"
            )
        return gate

    def failure(self, found: Mapping[str, Difference]) -> str | None:
        """Return why the gate fails; None if it passes.

        Raises:
            ConfigurationError: if there is no such metric or label.
        """
        if self.metric not in found:
            return self._failure_of_absent_label(found)
        difference = found[self.metric]
        low, high, mean = difference.low, difference.high, difference.mean
        if low is None or high is None or mean is None:
            return f"{self.metric} cannot be compared: {_lack(difference, 'it')}"
        far = mean <= self.least if self.least < 0 else mean >= self.least
        if far and not low <= 0 <= high:
            return f"{self.metric} changed by {mean:+.4g} ({low:+.4g} to {high:+.4g}); the limit is {self.least:+g}"
        return None

    def _failure_of_absent_label(self, found: Mapping[str, Difference]) -> str | None:
        """Return why the gate fails for a label that no event has, whose share is 0 on both sides; else None."""
        category, label = parse_estimate_name(self.metric)
        others = [name for name in found if name.startswith(estimate_name(category, ""))]
        if not label or not others:
            near = nearest_hint(self.metric, found)
            raise ConfigurationError(f"neither side has a metric {printable(self.metric)}{printable(near)}")
        if found[others[0]].low is None:
            return f"{self.metric} cannot be compared: {_lack(found[others[0]], category)}"
        if estimate_name(category, OTHERS) in found:
            return f"{self.metric} cannot be compared: {category} has too many labels"
        return None


def _lack(difference: Difference, name: str) -> str:
    """Return why there is no interval."""
    if difference.pairs < FEWEST:
        return f"only {difference.pairs} events have {name} on both sides"
    return (
        f"the {difference.pairs:,} events that have {name} on both sides share sessions or questions, so that"
        f" effectively {difference.effective_clusters:.3g} are independent; {FEWEST_CLUSTERS} are needed"
    )
