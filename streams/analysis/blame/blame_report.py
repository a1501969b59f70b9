"""The report of blame: the causes with their names and examples, in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ragweir.metrics.cause.cause import Cause
from ragweir.metrics.criterion import Criterion
from ragweir.streams.settings.blame import Silence

REST = "rest"
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class NamedCause:
    """A cause with its names, and examples."""

    facets: Mapping[str, str]
    """The values by facet; all of them are of the same events."""
    also: tuple[tuple[str, str], ...]
    """Further values of the same facets that the same events carry."""
    numbers: Cause
    bad_examples: tuple[str, ...]
    """Ids of bad answers that carry it."""
    good_examples: tuple[str, ...]
    """Ids of good answers to compare them with, in the same order."""
    silence: Silence | None = None
    """The setting that silences it."""

    @property
    def title(self) -> str:
        """The names of the cause."""
        return titled(self.facets)

    def data(self) -> dict[str, Any]:
        """Return the cause as JSON has it."""
        found = self.numbers
        return {
            "facets": dict(self.facets),
            **({"also": [{facet: value} for facet, value in self.also]} if self.also else {}),
            "servings": found.servings,
            "bad": found.bad,
            "risk_difference": round(found.difference, _DECIMALS),
            "low": round(found.low, _DECIMALS),
            "high": round(found.high, _DECIMALS),
            "p_adjusted": float(f"{found.p_adjusted:.6g}"),
            "excess_bad": round(found.excess_bad, 3),
            "within": found.within,
            "examples": {"bad": list(self.bad_examples), "good": list(self.good_examples)},
            **({"silenced": {"reason": own.reason, "until": own.until}} if (own := self.silence) else {}),
        }


def titled(facets: Mapping[str, str]) -> str:
    """Return values with their facets, in words.

    >>> titled({"pipeline_version": "v2", "model": "demo-small"})
    'pipeline_version v2, model demo-small'
    """
    return ", ".join(f"{facet} {value}" for facet, value in facets.items())


@dataclass(frozen=True, slots=True)
class BlameReport:
    """The causes of the bad answers of a metric."""

    criterion: Criterion
    reference: str
    """`rest`, or the name of the file with which the values are compared."""
    start: datetime
    end: datetime
    """Times of the first and the last event."""
    events: int
    """Number of events on which the metric is not null."""
    bad: int
    causes: tuple[NamedCause, ...]
    enough: bool
    """False if not even a value that made all of its answers bad would be found."""
    notes: tuple[str, ...] = ()
    """Sentences on what was compared, and what was left out."""

    @property
    def words(self) -> str:
        """The difference that a cause makes, in words."""
        return "worse than the rest" if self.reference == REST else "worse than before"

    def holder(self, cause: NamedCause) -> NamedCause | None:
        """Return the cause that a cause is within."""
        return None if cause.numbers.within is None else self.causes[cause.numbers.within]

    def own_facets(self, cause: NamedCause) -> dict[str, str]:
        """Return the values of a cause without those that the cause around it has too."""
        holder = self.holder(cause)
        held = {} if holder is None else holder.facets
        return {facet: value for facet, value in cause.facets.items() if held.get(facet) != value}

    def sentence(self, place: int) -> str:
        """Return the cause at a place in words."""
        cause = self.causes[place]
        holder = self.holder(cause)
        within = "" if holder is None else f"within {holder.title}, "
        names = titled(self.own_facets(cause))
        found = cause.numbers
        return (
            f"{within}{names}: {found.bad:,} of {found.servings:,} answers are bad, {found.excess_bad:,.0f} more "
            f"than expected; {self.words} by {100 * found.difference:.0f} points ({100 * found.low:.0f} to "
            f"{100 * found.high:.0f})"
        )

    @property
    def headline(self) -> str:
        """The number of bad answers, with the bound and the range."""
        asked = self.criterion
        bound = f"{asked.metric} {'below' if asked.higher_is_better else 'above'} {asked.threshold:g}"
        return (
            f"{self.bad:,} of {self.events:,} answers are bad: {bound}, "
            f"from {self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"
        )

    @property
    def verdict(self) -> str:
        """The number of causes, or that there is none, in words; empty if there is too little data to say so."""
        if not self.causes:
            return f"no value is {self.words} beyond what chance gives" if self.enough and self.bad else ""
        quiet = sum(each.silence is not None for each in self.causes)
        causes = "1 cause" if len(self.causes) == 1 else f"{len(self.causes):,} causes"
        return f"{causes} {self.words}" + (f", {quiet:,} of them silenced" if quiet else "")

    def failures(self, most: int) -> list[str]:
        """Return why a check fails: causes with so many bad answers in excess, unless silenced, or too little data."""
        loud = [n for n, each in enumerate(self.causes) if each.silence is None]
        found = [self.sentence(n) for n in loud if self.causes[n].numbers.excess_bad >= most]
        return found if self.enough or found else [f"too little data: {'; '.join(self.notes)}"]

    def data(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "metric": self.criterion.metric,
            "threshold": self.criterion.threshold,
            "reference": self.reference,
            "from": self.start,
            "to": self.end,
            "events": self.events,
            "bad": self.bad,
            "causes": [each.data() for each in self.causes],
            "enough": self.enough,
            "notes": list(self.notes),
        }
