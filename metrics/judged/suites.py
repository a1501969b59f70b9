"""The table of suites, in the order in which they judge an event."""

from __future__ import annotations

from collections.abc import Mapping

from ragweir.metrics.judged.classification import CLASSIFICATION
from ragweir.metrics.judged.factual import FACTUAL
from ragweir.metrics.judged.ragas import WEIGHTS, ragas
from ragweir.metrics.judged.recall import CONTEXT_RECALL
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.semantic import SEMANTIC
from ragweir.metrics.judged.suite import Suite


def suites(ragas_weights: tuple[float, float, float, float] = WEIGHTS) -> Mapping[str, Suite]:
    """Return all suites by name.

    Args:
        ragas_weights: see `judge.ragas_weights` in the settings.

    >>> list(suites())
    ['rubric', 'context_recall', 'ragas', 'factual', 'classification', 'semantic']
    """
    table = (RUBRIC, CONTEXT_RECALL, ragas(ragas_weights), FACTUAL, CLASSIFICATION, SEMANTIC)
    return {suite.name: suite for suite in table}
