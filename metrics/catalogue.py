"""The catalogue: all metrics by name, and the scoring of one event by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from ragweir.errors import ConfigurationError
from ragweir.metrics import packs
from ragweir.metrics.extension import Extension, digest
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Metric
from ragweir.metrics.plan import FieldPattern, Lack, Plan, Scored
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
from ragweir.schemas.nearest import nearest_hint

__all__ = [
    "CATALOGUE_VERSION",
    "Catalogue",
    "Scored",
    "everything",
    "shipped_groups",
    "version_with",
]

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

MAX_PLANS = 1_024
"""Maximum number of plans that a catalogue keeps: one per question and pattern of present fields."""

EVIDENCE_LINES = 20
EVIDENCE_CHARACTERS = 200
"""Limits on the evidence of one metric for one event."""


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
            known = {name for metric in every for name in (metric.name, metric.group)}
            hints = (packs.unloaded_pack(name) or nearest_hint(name, known) for name in unknown)
            why = next(filter(None, hints), "")
            raise ValueError(f"no metric or group is called {', '.join(unknown)}{why}")
        kept = [metric for metric in every if not {metric.name, metric.group} & set(off)]
        self.metrics: Mapping[str, Metric] = {metric.name: metric for metric in kept}
        self._off = set(names) - self.metrics.keys()
        free = [metric for metric in kept if metric.cost == "free"]
        self.free: Mapping[str, Metric] = {metric.name: metric for metric in free}
        """The metrics that are computed for every event."""
        always = tuple(metric for metric in free if metric.question is None)
        self._by_question: dict[str | None, tuple[Metric, ...]] = {None: always} | {
            question: always + tuple(metric for metric in free if metric.question == question)
            for question in {metric.question for metric in free if metric.question is not None}
        }
        self._pattern = FieldPattern(need for metric in free for need in metric.needs)
        self._plans: dict[tuple[str | None, tuple[Lack, ...]], Plan] = {}

    def hint(self, name: str, also: Iterable[str] = ()) -> str:
        """Return the end of a sentence about a name that does not fit: its pack, `metrics.off`, or the nearest name.

        Args:
            name: the name; empty is returned if it is an enabled metric.
            also: further names that would fit.
        """
        if name in self.metrics:
            return ""
        off = "; metrics.off switches it off" if name in self._off else ""
        return packs.unloaded_pack(name) or off or nearest_hint(name, [*self.metrics, *also])

    def score(self, view: View) -> Scored:
        """Score one event. A metric that raises an exception other than MemoryError is null, and listed in `raised`."""
        pattern = self._question(view), self._pattern.of(view)
        plan = self._plans.get(pattern)
        if plan is None:
            plan = self._plan(*pattern)
        scored = plan.score(view)
        scored.flags.extend(view.cuts)
        scored.flags.extend(absence_flags(view.absent))
        return scored

    def _question(self, view: View) -> str | None:
        """Return the event's question if it has metrics of its own."""
        question = view.interaction.question_id
        return question if question in self._by_question else None

    def _plan(self, question: str | None, lacks: tuple[Lack, ...]) -> Plan:
        """Return a new plan, and keep it for the other events with its pattern."""
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        plan = self._plans[question, lacks] = Plan(self._by_question[question], self._pattern.needs, lacks)
        return plan

    def explain(self, view: View) -> dict[str, tuple[str, ...]]:
        """Return the evidence for the scores of one event, as short texts by metric."""
        evidence: dict[str, tuple[str, ...]] = {}
        for metric in self._by_question[self._question(view)]:
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
            except Exception as error:  # As in `Plan.score`.
                lines = (f"the explanation raised {type(error).__name__}",)
            if lines:
                evidence[metric.name] = tuple(line[:EVIDENCE_CHARACTERS] for line in lines[:EVIDENCE_LINES])
        return evidence


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
