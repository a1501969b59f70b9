"""Draws answers to be labelled: half from those that the metric calls bad, half from those that it calls good.

Within a verdict the chance of an answer is proportional to 1/p, with p its probability of being judged, so that every
answer of the verdict has one overall chance, however routing selected it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from random import Random

import numpy as np

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation import selection
from ragweir.metrics.criterion import BAD, GOOD
from ragweir.metrics.people.planning import JudgedAnswers, halves, labels_needed
from ragweir.metrics.people.sampling import chances, systematic
from ragweir.schemas.label import Draw, LabelDraw, LabelledScore, QueuedAnswer, VerdictSums
from ragweir.schemas.window import SelectionSums, SuiteChance
from ragweir.streams.analysis.labels.evaluated import Evaluated, Rows
from ragweir.streams.analysis.labels.sampling_frame import Frame

_ID_BYTES = 6


@dataclass(frozen=True, slots=True)
class DrawnQueue:
    """A draw, and its answers in the order in which they are to be labelled."""

    draw: Draw
    answers: list[QueuedAnswer]
    notes: list[str] = field(default_factory=list)
    """Sentences on what the draw leaves out."""


def draw(
    evaluated: Evaluated,
    place: int,
    question: str,
    count: int,
    application: str | None,
    double: float,
    randomness: Random,
    now: datetime,
) -> DrawnQueue:
    """Draw answers to a question.

    Args:
        evaluated: the evaluations.
        place: the place of the criterion among theirs.
        question: the question's name.
        count: number of answers; fewer are drawn where there are fewer.
        application: the application of the events; None for all.
        double: share of the answers that a second person is asked about.
        randomness: chooses the answers.
        now: time of the draw.

    Raises:
        PermanentError: if there is no event of the application, or none has a verdict.
    """
    criterion = evaluated.criteria[place]
    rows = _rows_of(evaluated, application)
    rows, judge, notes = _newest_judge(evaluated, place, rows)
    verdicts = np.asarray(evaluated.verdicts[place])[rows]
    by_verdict = {verdict: rows[verdicts == verdict].tolist() for verdict in (BAD, GOOD)}
    bad, good = halves(count, len(by_verdict[BAD]), len(by_verdict[GOOD]))
    if not bad + good:
        raise PermanentError(
            f"no event has {criterion.metric}, by which the answers to {question} are drawn; name another metric by "
            "--metric, or judge events first (ragweir score --judge)"
        )
    if bad + good < count:
        notes.append(f"there are {bad + good:,} answers with {criterion.metric}, which are all drawn")
    probabilities: dict[int, float] = {}
    for verdict, number in ((BAD, bad), (GOOD, good)):
        own = by_verdict[verdict]
        found = chances([1 / evaluated.chances[place][row] for row in own], number)
        probabilities |= {own[at]: float(found[at]) for at in systematic(found, randomness)}
    order = list(probabilities)
    randomness.shuffle(order)
    frame = Frame.of(evaluated.tally(place, rows))
    model, version = judge
    times = np.asarray(evaluated.times)[rows]
    made = Draw(
        id=randomness.randbytes(_ID_BYTES).hex(),
        question=question,
        metric=criterion.metric,
        threshold=criterion.threshold,
        application=application,
        start=datetime.fromtimestamp(times.min(), UTC),
        end=datetime.fromtimestamp(times.max(), UTC) + timedelta(milliseconds=1),
        model=model,
        suite_version=version,
        catalogue_version=evaluated.groups[evaluated.group[order[0]]].catalogue_version,
        events=frame.events,
        selected=frame.selected,
        not_selected=frame.not_selected,
        chance=SuiteChance(**selection.to_record(frame.chance)),
        undefined=SelectionSums(**selection.to_sums(frame.undefined)),
        bad=VerdictSums(judged=SelectionSums(**selection.to_sums(frame.bad)), drawn=bad),
        good=VerdictSums(judged=SelectionSums(**selection.to_sums(frame.good)), drawn=good),
        made_at=now,
    )
    second = set(randomness.sample(order, ceil(double * len(order)))) if double else set()
    ids = list(evaluated.rows)
    answers = [
        QueuedAnswer(
            event_id=ids[row],
            question=question,
            draw=LabelDraw(id=made.id, probability=probabilities[row]),
            judged=_score(evaluated, place, row),
            event_time=datetime.fromtimestamp(evaluated.times[row], UTC),
            dimensions=dict(evaluated.groups[evaluated.group[row]].dimensions),
            raters=2 if row in second else 1,
            source=evaluated.source(row),
        )
        for row in order
    ]
    return DrawnQueue(made, answers, notes)


def labels_for_width(evaluated: Evaluated, place: int, application: str | None, width: float) -> int:
    """Return the number of answers to draw so that the rate of bad answers has limits this close, as `ASSUMED` says.

    Raises:
        PermanentError: if labels of all judged answers do not suffice, or none is judged.
    """
    rows, _, _ = _newest_judge(evaluated, place, _rows_of(evaluated, application))
    metric = evaluated.criteria[place].metric
    flagged = Frame.of(evaluated.tally(place, rows)).flagged()
    if isinstance(flagged, str):
        raise PermanentError(f"no number of labels of {metric} gives a width: {flagged}")
    verdicts, probabilities = (np.asarray(each[place])[rows] for each in (evaluated.verdicts, evaluated.chances))
    judged = JudgedAnswers(*(probabilities[verdicts == verdict] for verdict in (BAD, GOOD)))
    found = labels_needed(width, flagged, judged)
    if found is None:
        raise PermanentError(
            f"labels of all {len(judged.bad) + len(judged.good):,} answers with {metric} do not make the limits "
            f"{width:g} wide, as {flagged.low:.1%} to {flagged.high:.1%} of the events are bad by it; judge more "
            "events, or take a larger --width"
        )
    return found


def _score(evaluated: Evaluated, place: int, row: int) -> LabelledScore:
    model, version = evaluated.judged_by(place, row)
    return LabelledScore(
        metric=evaluated.criteria[place].metric,
        value=evaluated.values[place][row],
        bad=evaluated.verdicts[place][row] == BAD,
        probability=evaluated.chances[place][row],
        model=model,
        suite_version=version,
        catalogue_version=evaluated.groups[evaluated.group[row]].catalogue_version,
    )


def _rows_of(evaluated: Evaluated, application: str | None) -> Rows:
    if application is None:
        return np.arange(len(evaluated))
    own = [number for number, group in enumerate(evaluated.groups) if group.application == application]
    if not own:
        known = sorted({group.application for group in evaluated.groups if group.application})
        raise PermanentError(
            f"there is no event of the application {application}; those of the events: {', '.join(known[:8]) or 'none'}"
        )
    return np.flatnonzero(np.isin(np.asarray(evaluated.group), own))


def _newest_judge(
    evaluated: Evaluated, place: int, rows: Rows
) -> tuple[Rows, tuple[str | None, str | None], list[str]]:
    """Return the events after the last one that another judge judged, as verdicts of two judges are not mixed."""
    times = np.asarray(evaluated.times)
    judged = rows[np.isin(np.asarray(evaluated.verdicts[place])[rows], (BAD, GOOD))]
    last_of_group = np.full(len(evaluated.groups), -np.inf)
    np.maximum.at(last_of_group, np.asarray(evaluated.group)[judged], times[judged])
    last: dict[tuple[str | None, str | None], float] = {}
    for number in np.flatnonzero(np.isfinite(last_of_group)).tolist():
        judge, time = evaluated.judge_of(place, number), float(last_of_group[number])
        last[judge] = max(last.get(judge, time), time)
    if len(last) < 2:
        return rows, next(iter(last), (None, None)), []
    newest = max(last, key=last.__getitem__)
    from_s = max(time for judge, time in last.items() if judge != newest)
    found = rows[times[rows] > from_s]
    model, version = newest
    since = datetime.fromtimestamp(from_s, UTC)
    note = (
        f"{len(rows) - len(found):,} events up to {since:%Y-%m-%d %H:%M:%S} UTC are left out, as another judge than "
        f"{model} (suite version {version}) judged some of them"
    )
    return found, newest, [note]
