"""The catalogue: all metrics by name, and the scoring of one event by them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from ragweir.errors import ConfigurationError
from ragweir.metrics import packs
from ragweir.metrics.extension import Extension, digest
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Flagged, Metric, Null
from ragweir.metrics.scores import (
    answer,
    expected,
    extraction,
    grounding,
    lexical_retrieval,
    overlap,
    performance,
    ranking,
    retrieval,
    risk,
)
from ragweir.metrics.unavailable import Unavailable, absence_flags
from ragweir.metrics.view import View

CATALOGUE_VERSION = "3"
"""Version of the shipped metrics, incremented whenever one may have another value than before for the same event."""

GROUPS = (
    performance.METRICS,
    grounding.METRICS,
    risk.METRICS,
    overlap.METRICS,
    answer.METRICS,
    expected.METRICS,
    retrieval.METRICS,
    lexical_retrieval.METRICS,
    ranking.METRICS,
    extraction.METRICS,
    *(suite.metrics for suite in suites().values()),
)

EVIDENCE_LINES = 20
EVIDENCE_CHARACTERS = 200
"""Limits on the evidence of one metric for one event."""


@dataclass(frozen=True, slots=True)
class Scored:
    """All scores of one event: numbers, labels, the reasons of nulls, and the metrics that raised an exception."""

    scores: dict[str, float | None] = field(default_factory=dict)
    categories: dict[str, str | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)


class Catalogue:
    """A set of metrics by name. It computes the free ones; the others are computed by their suites.

    Args:
        metrics: all metrics.
        off: names of metrics or of whole groups to leave out.
        version: the version that evaluations carry; see `version_with`.

    Raises:
        ValueError: if two metrics have the same name, or `off` has a name of neither a metric nor a group.
    """

    def __init__(self, metrics: Iterable[Metric], off: Iterable[str] = (), version: str = CATALOGUE_VERSION) -> None:
        self.version = version
        every = tuple(metrics)
        names = [metric.name for metric in every]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two metrics are called {', '.join(sorted(twice))}")
        unknown = sorted(set(off) - set(names) - {metric.group for metric in every} - {packs.GROUP})
        if unknown:
            why = next(filter(None, map(packs.unloaded_pack, unknown)), "")
            raise ValueError(f"no metric or group is called {', '.join(unknown)}{why}")
        kept = [metric for metric in every if not {metric.name, metric.group} & set(off)]
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in kept}
        free = [metric for metric in kept if metric.cost == "free"]
        self.free: Mapping[str, Metric] = {metric.name: metric for metric in free}
        """The metrics that are computed for every event."""
        self._always = tuple(metric for metric in free if metric.question is None)
        self._by_question: dict[str, tuple[Metric, ...]] = {
            question: self._always + tuple(metric for metric in free if metric.question == question)
            for question in {metric.question for metric in free if metric.question is not None}
        }

    def score(self, view: View) -> Scored:
        """Score one event. A metric that raises an exception other than MemoryError is null, and listed in `raised`."""
        scored = Scored()
        interaction = view.interaction
        for metric in self._by_question.get(interaction.question_id or "", self._always):
            name = metric.name
            results: dict[str, float | None] | dict[str, str | None]
            results = scored.categories if metric.unit == "category" else scored.scores
            value = _value(metric, view, scored)
            if isinstance(value, Flagged):
                scored.flags.append(f"{name}:{value.flag}")
                value = value.value
            if isinstance(value, Null):
                scored.reasons[name] = value.reason
                value = None
            elif isinstance(value, float | int):
                if math.isfinite(value):
                    value = round(float(value), 3 if metric.unit == "ms" else 6)
                else:
                    scored.reasons[name] = "the result is not a finite number"
                    value = None
            results[name] = value  # type: ignore[assignment]
        scored.flags.extend(view.cuts)
        scored.flags.extend(absence_flags(view.absent))
        return scored

    def explain(self, view: View) -> dict[str, tuple[str, ...]]:
        """Return the evidence for the scores of one event, as short texts by metric."""
        evidence: dict[str, tuple[str, ...]] = {}
        for metric in self._by_question.get(view.interaction.question_id or "", self._always):
            if metric.explain is None:
                continue
            try:
                if any(getattr(view.interaction, need) is None for need in metric.needs):
                    continue
                lines = metric.explain(view)
            except Unavailable:
                continue
            except MemoryError:
                raise
            except Exception as error:  # As in `_value`.
                lines = (f"the explanation raised {type(error).__name__}",)
            if lines:
                evidence[metric.name] = tuple(line[:EVIDENCE_CHARACTERS] for line in lines[:EVIDENCE_LINES])
        return evidence


def _value(metric: Metric, view: View, scored: Scored) -> object:
    """Compute a metric for an event; null if a need is absent, a field is unavailable or it raised an exception."""
    try:
        for need in metric.needs:
            if getattr(view.interaction, need) is None:
                return Null(f"the event has no {need}")
        return metric.compute(view)
    except Unavailable as unavailable:
        return Null(str(unavailable))
    except MemoryError:  # It may not be the metric's fault.
        raise
    except Exception as error:  # One metric must not fail the event; a series counts it.
        scored.raised.append(metric.name)
        return Null(f"the metric raised {type(error).__name__}")


def everything(shipped_packs: Iterable[str] = (), extensions: Iterable[Extension] = ()) -> tuple[Metric, ...]:
    """Return the shipped metrics, without those of packs, and further metrics.

    Args:
        shipped_packs: names of shipped packs.
        extensions: metrics from outside of ragweir.

    Raises:
        ConfigurationError: if a metric has the name of another one, or of a group that ships with ragweir.
    """
    shipped = tuple(chain.from_iterable(GROUPS))
    owners = dict.fromkeys(shipped_groups(), "ragweir, as a group")
    owners |= {metric.name: "ragweir" for metric in chain(shipped, *packs.SHIPPED.values())}
    extensions = tuple(extensions)
    for extension in extensions:
        for metric in extension.metrics:
            if metric.name in owners:
                raise ConfigurationError(
                    f"{extension.name}: the metric {metric.name} is defined already, by {owners[metric.name]}"
                )
            owners[metric.name] = extension.name
    loaded = (packs.SHIPPED[name] for name in dict.fromkeys(shipped_packs))
    return (*shipped, *chain(*loaded, *(extension.metrics for extension in extensions)))


def shipped_groups() -> frozenset[str]:
    """Return the groups of the shipped metrics."""
    return frozenset({metric.group for metric in chain.from_iterable(GROUPS)} | {packs.GROUP})


def version_with(extensions: Iterable[Extension]) -> str:
    """Return the version of the shipped metrics together with metrics from outside of ragweir.

    It is `CATALOGUE_VERSION` without any, and else has a plus sign and eight hexadecimal digits of their digest after
    it. It depends neither on the machine nor on the order of the extensions.
    """
    extensions = tuple(extensions)
    return f"{CATALOGUE_VERSION}+{digest(extensions)}" if extensions else CATALOGUE_VERSION
