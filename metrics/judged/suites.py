"""The table of suites, in the order in which they judge an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragweir.metrics.judged.classification import CLASSIFICATION
from ragweir.metrics.judged.factual import FACTUAL
from ragweir.metrics.judged.ragas import WEIGHTS, ragas
from ragweir.metrics.judged.recall import CONTEXT_RECALL
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.semantic import SEMANTIC
from ragweir.metrics.judged.suite import Suite


def suites(ragas_weights: tuple[float, float, float, float] = WEIGHTS, *, decides: int = 0) -> Mapping[str, Suite]:
    """Return all suites by name.

    Args:
        ragas_weights: see `judge.ragas_weights` in the settings.
        decides: maximum number of questions that a decision model takes in one call, which makes another version of a
            suite; 0 to ask a chat model alone.

    >>> list(suites())
    ['rubric', 'context_recall', 'ragas', 'factual', 'classification', 'semantic']
    >>> [suites(decides=400)[name].version for name in ("rubric", "semantic")]
    ['2-decisions', '1']
    """
    table: tuple[Suite, ...] = (RUBRIC, CONTEXT_RECALL, ragas(ragas_weights), FACTUAL, CLASSIFICATION, SEMANTIC)
    if decides:
        table = tuple(
            replace(suite, version=f"{suite.version}-decisions", decides=decides) if suite.asks else suite
            for suite in table
        )
    return {suite.name: suite for suite in table}
