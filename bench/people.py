"""Coverage and width of the numbers of `ragweir labels report`, on simulated days of which people label some answers.

The days are made by `bench.labelled_windows`, which has no code of ragweir. From there on all is what the commands run:
the draw, the labels, and the report.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import product
from random import Random

import numpy as np
from rich.table import Table

from bench.labelled_windows import APPLICATIONS, Ints, LabelledKind, SimulatedDay, simulated_day, truths
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import Chance
from ragweir.metrics.criterion import BAD, GOOD, NOT_SELECTED, UNANSWERED, Criterion
from ragweir.metrics.people.planning import ASSUMED
from ragweir.metrics.people.shares import Limits, clopper_pearson
from ragweir.schemas.label import CANNOT_TELL, Label, QueuedAnswer
from ragweir.streams.analysis.labels.drawing import draw, labels_for_width
from ragweir.streams.analysis.labels.evaluated import Evaluated, Group
from ragweir.streams.analysis.labels.report import NUMBERS, LabelReport, report
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.settings.labels import Question

PROMISED = 0.93
"""Minimum coverage of each number in each kind of windows."""
MOST_MISSING = 0.05
"""Maximum share of the windows of a kind in which a number is not shown."""
_DAY_S = 86_400.0
_BEGAN_S = 1_800_000_000.0
_QUESTION = Question(name="supported", text="Is everything supported?", metric="judge_faithfulness")
_CRITERION = Criterion("judge_faithfulness", 0.5, higher_is_better=True, suite="faithfulness")
_CRITERIA = [(_QUESTION, [_CRITERION])]
_VALUES = (0.9, 0.2)
"""Scores of answers that the judge calls good and bad."""
_ROUNDING = 1e-6


@cache
def _ids(number: int, events: int) -> dict[str, int]:
    return {f"{number}-{row}": row for row in range(events)}


def evaluated(day: SimulatedDay, number: int) -> Evaluated:
    """Return a day's evaluations, as `read_evaluated` returns those of a file."""
    found = Evaluated([_CRITERION], ["application"])
    events = len(day.chance)
    found.rows = _ids(number, events)
    for column, missing in zip(found.sources, (-1, 0, 0, 0), strict=True):
        column.extend([missing] * events)
    start = _BEGAN_S + number * _DAY_S
    found.times = array("d", (start + np.arange(events) * (_DAY_S / events)).tobytes())
    for judge in (None, "judge-1"):
        for name in APPLICATIONS:
            dimensions = (("application", name),)
            found.groups.append(Group(name, dimensions, "1", judge, "faithfulness:1" if judge else ""))
    judged = day.selected & day.answered
    found.group = array("i", (day.application + len(APPLICATIONS) * day.selected).astype(np.int32).tobytes())
    verdicts = np.where(day.flagged, BAD, GOOD)
    verdicts = np.where(day.selected, np.where(judged, verdicts, UNANSWERED), NOT_SELECTED)
    found.verdicts[0] = array("b", verdicts.astype(np.int8).tobytes())
    values = np.where(judged, np.array(_VALUES)[day.flagged.astype(int)], np.nan)
    found.values[0] = array("d", values.tobytes())
    found.chances[0] = array("d", day.chance.tobytes())
    return found


def _label(day: SimulatedDay, row: int, rater: int, event_id: str, answer: QueuedAnswer | None = None) -> Label:
    said = (day.bad, day.second)[rater][row]
    return Label(
        event_id=event_id,
        question=_QUESTION.name,
        value=CANNOT_TELL if day.unanswered[row] else bool(not said),
        rater=f"r{rater}",
        kind="expert" if answer else "import",
        blind=True,
        time=datetime.fromtimestamp(_BEGAN_S + rater, UTC),
        draw=answer and answer.draw,
        judged=answer and answer.judged,
    )


def labelled(kind: LabelledKind, days: Sequence[SimulatedDay], randomness: Random) -> PeopleLabels:
    """Return the labels that people give to the answers that are drawn from some days."""
    given = PeopleLabels()
    applications = APPLICATIONS if kind.each_application else (None,)
    count = kind.labels // (kind.days * len(applications))
    for number, day in enumerate(days):
        events = evaluated(day, number)
        for application in applications:
            made = draw(
                events, 0, _QUESTION.name, count, application, kind.double, randomness, datetime.fromtimestamp(0, UTC)
            )
            given.draws[made.draw.id] = made.draw
            for answer in made.answers[: round(kind.labelled * len(made.answers))]:
                row = events.rows[answer.event_id]
                for rater in range(answer.raters):
                    given.add(_label(day, row, rater, answer.event_id, answer))
    return given


def summary(given: PeopleLabels) -> Mapping[str, Limits | str]:
    """Return the numbers of the report on labels of one draw."""
    (found,) = report(given, _CRITERIA).tables
    return dict(found.numbers)


def reported(kind: LabelledKind, days: Sequence[SimulatedDay], randomness: Random) -> LabelReport:
    """Return the report on the labels that people give."""
    if kind.drawn:
        return report(labelled(kind, days, randomness), _CRITERIA)
    (day,), given = days, PeopleLabels()
    judged = np.flatnonzero(day.selected & day.answered).tolist()
    for row in randomness.sample(judged, min(kind.labels, len(judged))):
        given.add(_label(day, row, 0, f"0-{row}"))
    return report(given, _CRITERIA, evaluated(day, 0))


# Outcomes.


@dataclass
class NumberIntervals:
    """The intervals of one number in the windows of one kind."""

    windows: int = 0
    shown: int = 0
    empty: int = 0
    """Number of those shown that exclude nothing."""
    covering: int = 0
    width: float = 0.0
    """Sum of the widths."""

    def add(self, limits: tuple[float, float] | None, truth: float, *, least: float = 0.0) -> None:
        """Add the limits of a window; None if they are not shown."""
        self.windows += 1
        if limits is None:
            return
        low, high = limits
        self.shown += 1
        self.empty += low <= least and high >= 1
        self.covering += low - _ROUNDING <= truth <= high + _ROUNDING
        self.width += high - low

    @property
    def coverage(self) -> float:
        """The share of the intervals that hold the truth."""
        return self.covering / self.shown if self.shown else 1.0

    @property
    def missing(self) -> float:
        """The share of the windows without an interval."""
        return 1 - self.shown / self.windows if self.windows else 0.0

    @property
    def mean_width(self) -> float:
        """The mean width of the intervals."""
        return self.width / self.shown if self.shown else 1.0


@dataclass(frozen=True)
class KindOutcome:
    """The intervals of one kind, by number, of one application or of all together."""

    kind: LabelledKind
    application: str | None
    numbers: Mapping[str, NumberIntervals]

    @property
    def failing(self) -> list[str]:
        """The numbers that break a promise."""
        return [name for name, own in self.numbers.items() if own.coverage < PROMISED or own.missing > MOST_MISSING]


def measure(kind: LabelledKind, windows: int, seed: int) -> list[KindOutcome]:
    """Simulate windows of one kind."""
    chance, randomness = np.random.default_rng([seed, 33]), Random(seed)
    applications = range(len(APPLICATIONS)) if kind.each_application else [None]
    left_out = {"brier"} if kind.double else {"brier", "person_to_person"}
    names = [name for name in NUMBERS if name not in left_out]
    outcomes = [
        KindOutcome(kind, None if own is None else APPLICATIONS[own], {name: NumberIntervals() for name in names})
        for own in applications
    ]
    for _ in range(windows):
        days = [simulated_day(kind, number, chance) for number in range(kind.days)]
        made = reported(kind, days, randomness)
        tables = {table.application: dict(table.numbers) for table in made.tables}
        for number, outcome in zip(applications, outcomes, strict=True):
            truth, shown = truths(days, number), tables.get(outcome.application, {})
            for name, own in outcome.numbers.items():
                found = shown.get(name)
                limits = (found.low, found.high) if isinstance(found, Limits) else None
                own.add(limits, truth[name], least=-1.0 if "kappa" in NUMBERS[name] else 0.0)
    return outcomes


# Kinds.

_JUDGES = ((0.7, 0.9), (0.7, 0.97), (0.95, 0.9), (0.95, 0.97))
_EXTREMES = ((0.05, _JUDGES[0]), (0.3, _JUDGES[-1]))
_VARIANTS: Mapping[str, Mapping[str, object]] = {
    "stopped at half": {"labelled": 0.5},
    "a tenth unanswered": {"unanswered": (0.1, 0.1)},
    "bad ones unanswered, good ones less": {"unanswered": (0.2, 0.05)},
    "good ones unanswered, bad ones less": {"unanswered": (0.02, 0.15)},
    "stopped at half, a tenth unanswered": {"labelled": 0.5, "unanswered": (0.1, 0.1)},
    "judge fails on 3 %": {"failed": 0.03},
    "judge's errors follow risk": {"errors_follow_risk": True},
    "two days, two draws": {"days": 2},
    "two days, stopped, unanswered": {"days": 2, "labelled": 0.5, "unanswered": (0.1, 0.05)},
    "3,000 events": {"events": 3_000},
}


def kinds() -> Iterator[LabelledKind]:
    """Yield all kinds of windows, those of one name together."""
    for bad, judge, labels in product((0.05, 0.1, 0.2, 0.3), _JUDGES, (30, 100)):
        yield LabelledKind(bad, *judge, labels)
    for bad, judge in product((0.05, 0.1, 0.3), (_JUDGES[0], _JUDGES[-1])):
        yield LabelledKind(bad, *judge, 300)
    for bad, judge in _EXTREMES:
        yield LabelledKind(bad, *judge, 1_000, events=20_000)
    for (name, fields), (bad, judge), labels in product(_VARIANTS.items(), _EXTREMES, (30, 100)):
        yield replace(LabelledKind(bad, *judge, labels, name), **fields)  # type: ignore[arg-type]
    for bad, (labels, err) in product((0.05, 0.3), ((100, 0.02), (300, 0.1))):
        yield LabelledKind(bad, 0.85, 0.95, labels, "half of them by two people who err", double=0.5, people_err=err)
    for bad, labels in product((0.05, 0.3), (90, 300)):
        yield LabelledKind(bad, 0.85, 0.95, labels, "a draw of each application", each_application=True)
    for bad, labels in product((0.05, 0.3), (100, 300)):
        name = "imported, from any judged answers"
        yield LabelledKind(bad, 0.85, 0.95, labels, name, each_application=True, drawn=False)


# Tables.


def coverage(windows: int = 2_000) -> Iterator[Table]:
    """Simulate windows of each kind; fail if a promise does not hold."""
    outcomes = [own for seed, kind in enumerate(kinds()) for own in measure(kind, windows, seed)]
    head = ("windows", "labels", "kinds", *NUMBERS)
    covered = Table(*head, "not shown", "0 to 1", title="Lowest coverage of 95 % intervals from people's labels")
    wide = Table(*head, title="Width of these intervals, least and most of the kinds' means")
    groups: dict[tuple[str, int], list[KindOutcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.kind.name, outcome.kind.labels].append(outcome)
    for (name, labels), own in groups.items():
        numbers = [[each.numbers[number] for each in own if number in each.numbers] for number in NUMBERS]
        every = [interval for column in numbers for interval in column]
        covered.add_row(
            *(name, f"{labels:,}", str(len(own))),
            *(f"{min(each.coverage for each in column):.3f}" if column else "" for column in numbers),
            f"{max(each.missing for each in every):.1%}",
            f"{max(each.empty / max(1, each.shown) for each in every):.1%}",
        )
        wide.add_row(
            *(name, f"{labels:,}", str(len(own))), *(_range([each.mean_width for each in own]) for own in numbers)
        )
    failing = [f"{_about(each)}: {', '.join(each.failing)}" for each in outcomes if each.failing]
    shown = sum(own.shown for each in outcomes for own in each.numbers.values())
    covering = sum(own.covering for each in outcomes for own in each.numbers.values())
    covered.caption = (
        f"{len(outcomes)} kinds of {windows:,} windows; {covering / shown:.3f} of {shown:,} intervals hold the truth. "
        f"Kinds in which a number has a coverage below {PROMISED} or is not shown in more than {MOST_MISSING:.0%} of "
        f"the windows: {'; '.join(failing) or 'none'}. `0 to 1` are intervals that exclude nothing, of the worst number"
        " of the worst kind, as `not shown`."
    )
    yield covered
    yield wide
    if failing:
        raise SystemExit(1)


def _about(outcome: KindOutcome) -> str:
    kind = outcome.kind
    judge = f"{kind.bad:.0%} bad, judge {kind.sensitivity} and {kind.specificity}, {kind.labels} labels"
    return f"{kind.name}, {judge}" + (f", {outcome.application}" if outcome.application else "")


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if values else ""


def width(windows: int = 500) -> Table:
    """Return the width of the rate that people would find, beside that of labels without a metric."""
    shown = Table(
        *("bad", "sensitivity, specificity", "labels", "ours", "random labels", "ratio", "judged labels", "ratio"),
        title=f"Width of the 95 % interval of the rate of bad answers, means of {windows:,} windows of 20,000 events",
        caption="`random labels` are as many labels of answers drawn from all events, with the interval of Clopper and "
        "Pearson; `judged labels` are as many drawn from the judged answers, with the interval of judged metrics.",
    )
    for bad, judge, labels in product((0.05, 0.1, 0.2, 0.3), _JUDGES, (30, 100, 300)):
        kind = LabelledKind(bad, *judge, labels, events=20_000)
        chance, randomness = np.random.default_rng([labels, 34]), Random(labels)
        own, plain, judged = NumberIntervals(), NumberIntervals(), NumberIntervals()
        for _ in range(windows):
            day = simulated_day(kind, 0, chance)
            truth = float(day.bad.mean())
            found = summary(labelled(kind, [day], randomness))["people_rate"]
            own.add((found.low, found.high) if isinstance(found, Limits) else None, truth)
            plain.add(clopper_pearson(int(chance.choice(day.bad, labels, replace=False).sum()), labels), truth)
            judged.add(_of_judged(day, chance.choice(np.flatnonzero(day.selected), labels, replace=False)), truth)
        cells = [f"{own.mean_width:.3f}"]
        for each in (plain, judged):
            cells += [f"{each.mean_width:.3f}", f"{own.mean_width / each.mean_width:.2f}"]
        shown.add_row(f"{bad:.0%}", f"{judge[0]}, {judge[1]}", str(labels), *cells)
    return shown


def _of_judged(day: SimulatedDay, rows: Ints) -> tuple[float, float] | None:
    """Return the interval of the share of bad answers from labels of judged answers, however they were selected."""
    estimate, share = Estimate(EstimatedMetric("labels")), len(rows) / int(day.selected.sum())
    for row in rows.tolist():
        estimate.add(float(day.bad[row]), float(day.chance[row]) * share)
    chance = Chance(float(day.chance.min()) * share, 0, estimate.answered)
    decisions = {"selected": len(rows), "judged": len(rows), "not_selected": len(day.chance) - len(rows)}
    found = estimate.result(decisions, chance)
    return None if found.low is None or found.high is None else (found.low, found.high)


def planned(windows: int = 100) -> Table:
    """Return the width that `labels draw --width` reaches, where its assumption holds and where it does not."""
    shown = Table(
        *("bad of flagged, of others", "flagged", "asked", "labels", "width found"),
        title=f"Labels by `--width`, which assumes {ASSUMED.flagged} and {ASSUMED.passed}; means of {windows} windows",
    )
    for (own, other), asked in product((ASSUMED, (0.44, 0.036), (0.78, 0.006), (0.9, 0.3)), (0.2, 0.15, 0.1)):
        flagged = 0.16
        bad = flagged * own + (1 - flagged) * other
        kind = LabelledKind(bad, flagged * own / bad, 1 - flagged * (1 - own) / (1 - bad), 0, events=20_000)
        chance, randomness = np.random.default_rng([int(100 * asked), 36]), Random(36)
        labels, widths = 0, NumberIntervals()
        for _ in range(windows):
            day = simulated_day(kind, 0, chance)
            count = labels_for_width(evaluated(day, 0), 0, None, asked)
            found = summary(labelled(replace(kind, labels=count), [day], randomness))["people_rate"]
            widths.add((found.low, found.high) if isinstance(found, Limits) else None, float(day.bad.mean()))
            labels += count
        shown.add_row(
            f"{own}, {other}", f"{flagged}", f"{asked}", f"{labels / windows:.0f}", f"{widths.mean_width:.3f}"
        )
    return shown
