"""The series of the judge's anchors: sensitivity and specificity of the last day, their limits, and the noise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import ValidationError

from ragweir.metrics.people.anchors import MOST_DAYS, RUNS_A_DAY, Hits, drift_test, noise
from ragweir.schemas.judging import AnchorResult
from ragweir.streams.services.export.exposition import quoted

_NAME = "ragweir_judge_anchor"
_NOTHING = Hits(0, 0)
_KEPT_DAYS = MOST_DAYS + 2


class AnchorFamily(NamedTuple):
    """A metric family of the anchors."""

    name: str
    meaning: str


_LIMIT = "without a drift of the judge, by the test of its anchors"
MEASURES: Mapping[str, tuple[bool, str]] = {
    "sensitivity": (True, "Share of the runs of bad anchors that the judge calls bad, on the last whole day"),
    "specificity": (False, "Share of the runs of good anchors that the judge calls good, on the last whole day"),
}
"""The measures, each with the people's verdict on its anchors and its meaning."""
FAMILIES = (
    *(
        family
        for measure, (_, meaning) in MEASURES.items()
        for family in (
            AnchorFamily(f"{_NAME}_{measure}", meaning),
            AnchorFamily(f"{_NAME}_{measure}_low", f"Lowest {measure} {_LIMIT}"),
            AnchorFamily(f"{_NAME}_{measure}_high", f"Highest {measure} {_LIMIT}"),
        )
    ),
    AnchorFamily(f"{_NAME}_drift", "1 if a measure is above its limits, -1 if it is below, else 0"),
    AnchorFamily(f"{_NAME}_noise", "Share of pairs of runs of one anchor on which the judge's verdicts differ"),
    AnchorFamily(f"{_NAME}_known_days", "Days by which the variance from day to day is in the limits; 0 before 30"),
)


@dataclass(slots=True)
class _AnchorDays:
    """The results of one set of anchors."""

    model: str = ""
    suite_version: str = ""
    bad: dict[str, bool] = field(default_factory=dict)
    """The people's verdict on each anchor."""
    baseline: dict[str, Hits] = field(default_factory=dict)
    baseline_days: set[str] = field(default_factory=set)
    days: dict[str, dict[str, Hits]] = field(default_factory=lambda: defaultdict(dict))
    """The hits of each anchor on each day after the baseline."""
    results: Counter[str] = field(default_factory=Counter)
    """Number of results on each of these days, with those that have no value."""

    def add(self, result: AnchorResult) -> None:
        self.model, self.suite_version = result.model, result.suite_version
        self.bad[result.anchor] = result.bad
        if result.baseline:
            self.baseline_days.add(result.day)
        else:
            self.results[result.day] += 1
        own = self.baseline if result.baseline else self.days[result.day]
        if result.judged_bad is not None:
            before = own.get(result.anchor, _NOTHING)
            own[result.anchor] = Hits(before.hits + (result.judged_bad == result.bad), before.runs + 1)
        for old in sorted(self.days)[:-_KEPT_DAYS]:
            del self.days[old], self.results[old]

    def last_whole(self, today: str) -> str | None:
        """Return the last day of which all results are there, or that is over; None without one."""
        whole = (day for day in self.days if day < today or self.results[day] >= RUNS_A_DAY * len(self.bad))
        return max(whole, default=None)

    def hits(self, own: Mapping[str, Hits], *, bad: bool) -> list[Hits]:
        """Return the hits of the anchors that people call bad, or good, in the order of their ids."""
        return [own.get(name, _NOTHING) for name in sorted(self.bad) if self.bad[name] is bad]


class AnchorSeries:
    """The series of the anchors that were judged last.

    >>> AnchorSeries().rendered("2026-11-21")
    b''
    """

    def __init__(self) -> None:
        self._sets: dict[str, _AnchorDays] = {}
        self._newest = ""
        """The digest of the anchors that were judged last."""
        self.unreadable = 0
        """Number of records that are no results."""

    def take(self, value: bytes | None) -> None:
        """Add a record of the topic `judge.anchors`."""
        if value is None:
            return
        try:
            result = AnchorResult.model_validate_json(value)
        except ValidationError:
            self.unreadable += 1
            return
        self._newest = result.anchors
        self._sets.setdefault(result.anchors, _AnchorDays()).add(result)

    def rendered(self, today: str) -> bytes:
        """Return the samples of the last whole day, in the text format.

        Args:
            today: the present day (UTC).
        """
        own = self._sets.get(self._newest)
        if own is None:
            return b""
        common = f'model="{quoted(own.model)}",suite_version="{quoted(own.suite_version)}"'
        samples = defaultdict[str, list[str]](list)
        for name, more, value in _samples(own, today):
            samples[name].append(f"{name}{{{common}{more}}} {value}\n")
        text = [
            f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{''.join(samples[name])}"
            for name, meaning in FAMILIES
            if name in samples
        ]
        return "".join(text).encode()


def _samples(own: _AnchorDays, today: str) -> Iterator[tuple[str, str, float]]:
    """Yield the name, further labels and the value of each sample."""
    every = [own.baseline, *own.days.values()]
    runs = [[each.get(name, _NOTHING) for each in every] for name in own.bad]
    sums = [Hits(sum(each.hits for each in anchor), sum(each.runs for each in anchor)) for anchor in runs]
    if (differing := noise(sums)) is not None:
        yield f"{_NAME}_noise", "", differing
    if (day := own.last_whole(today)) is None:
        return
    known = []
    for measure, (bad, _) in MEASURES.items():
        earlier = [own.hits(own.days[each], bad=bad) for each in sorted(own.days) if each < day]
        baseline, present = own.hits(own.baseline, bad=bad), own.hits(own.days[day], bad=bad)
        if (found := drift_test(baseline, present, earlier, max(1, len(own.baseline_days)))) is not None:
            yield f"{_NAME}_{measure}", "", found.rate
            yield f"{_NAME}_{measure}_low", "", found.low
            yield f"{_NAME}_{measure}_high", "", found.high
            yield f"{_NAME}_drift", f',measure="{measure}"', found.drift
            known.append(found.days)
    if known:
        yield f"{_NAME}_known_days", "", min(known)
