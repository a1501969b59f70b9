"""The report of labels: how far a metric agrees with people, by question, metric, application and judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ragweir.metrics.people.agreement import Agreement, PeopleVerdict, agreement, kappa
from ragweir.metrics.people.shares import Limits
from ragweir.schemas.label import Draw, Label
from ragweir.streams.analysis.labels.criteria import Criterion
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.sampling_frame import BAD, GOOD, Frame
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.settings.labels import Question

FEWEST_PAIRS = 30
"""Minimum number of answers with labels of two people for their agreement."""
UNKNOWN = "agreement with people unknown"

NUMBERS = {
    "tpr": "TPR: bad answers that the metric catches",
    "tnr": "TNR: good answers that it passes",
    "precision": "precision: bad ones of those it flags",
    "kappa": "kappa of metric and people",
    "people_rate": "rate of bad answers, by people",
    "person_to_person": "kappa of two people",
}
"""The numbers of a table, with their names for people."""

Criteria = Sequence[tuple[Question, Sequence[Criterion]]]
Judge = tuple[str | None, str | None]
"""Model and suite version; None for a free metric."""


@dataclass(frozen=True, slots=True)
class AgreementTable:
    """The agreement of one metric with people."""

    question: str
    metric: str
    threshold: float
    application: str | None
    model: str | None
    suite_version: str | None
    start: datetime
    end: datetime
    labels: int
    """Number of labelled answers."""
    unanswered: int
    """Number of them that people could not tell, or disagreed about, or whose text was gone."""
    drawn: bool
    """True if the answers were drawn, so that the numbers speak of all events from `start` to `end`."""
    agreement: Agreement
    person_to_person: Limits | str

    @property
    def numbers(self) -> tuple[tuple[str, Limits | str], ...]:
        """The names and values of its numbers; a text is the reason why one is not known."""
        return *self.agreement._asdict().items(), ("person_to_person", self.person_to_person)

    @property
    def title(self) -> str:
        """What the table is about."""
        judge = "" if self.model is None else f", judged by {self.model} (suite version {self.suite_version})"
        where = "" if self.application is None else f", application {self.application}"
        return f"{self.question}: {self.metric} with threshold {self.threshold:g}{where}{judge}"

    @property
    def basis(self) -> str:
        """What the numbers rest on."""
        unanswered = f", {self.unanswered:,} of them without an answer" if self.unanswered else ""
        of = "of all events" if self.drawn else "of the labelled answers alone, which were not drawn,"
        return (
            f"{self.labels:,} labelled answers{unanswered}; the numbers are those {of} from "
            f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"
        )

    def data(self) -> dict[str, Any]:
        """Return the table as JSON has it."""
        return {
            "question": self.question,
            "metric": self.metric,
            "threshold": self.threshold,
            "application": self.application,
            "model": self.model,
            "suite_version": self.suite_version,
            "from": self.start,
            "to": self.end,
            "labels": self.labels,
            "unanswered": self.unanswered,
            "drawn": self.drawn,
            **{name: _number(found) for name, found in self.numbers},
        }


@dataclass(frozen=True, slots=True)
class LabelReport:
    """The tables, and sentences on the labels that are in none."""

    tables: list[AgreementTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"questions": [each.data() for each in self.tables], "notes": self.notes}


def _number(found: Limits | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"value": None, "reason": found}
    return {name: round(each, 6) for name, each in found._asdict().items()}


class _Answer(NamedTuple):
    """The labels of one answer."""

    event_id: str
    bad: bool | None
    """True if more people call it bad than good; None if as many do."""
    first: Label
    said: tuple[bool, ...]
    """What each person said, in order of time, without those who cannot tell."""


def report(labels: PeopleLabels, criteria: Criteria, evaluated: Evaluated | None = None) -> LabelReport:
    """Return the agreement of metrics with people.

    Args:
        labels: the labels, and the draws that they come from.
        criteria: the questions, each with its criteria. `evaluated` has verdicts of all of them, in this order.
        evaluated: the evaluations of the events; None to rest on the scores that labels of draws carry.
    """
    found = LabelReport()
    by_question: dict[str, list[Label]] = defaultdict(list)
    users = 0
    for label in labels.current():
        users += label.kind == "user"
        if label.kind != "user":
            by_question[label.question].append(label)
    if users:
        found.notes.append(f"{users:,} labels of users are in no table: users choose what they rate")
    place = 0
    for question, own in criteria:
        given = by_question.pop(question.name, [])
        answers = list(_answers(question, given, found.notes))
        for criterion in own:
            found.tables.extend(_tables(question, criterion, place, answers, labels.draws, evaluated, found.notes))
            place += 1
    if by_question:
        unknown = ", ".join(sorted(by_question)[:8])
        number = sum(map(len, by_question.values()))
        found.notes.append(f"{number:,} labels are of questions that labels.questions does not have: {unknown}")
    if not found.tables:
        found.notes.append(UNKNOWN)
    return found


def _answers(question: Question, given: Iterable[Label], notes: list[str]) -> Iterator[_Answer]:
    by_event: dict[str, list[Label]] = defaultdict(list)
    wrong: Counter[str] = Counter()
    for label in given:
        if question.read(label.value) is None:
            wrong[str(label.value)] += 1
        else:
            by_event[label.event_id].append(label)
    if wrong:
        values = ", ".join(sorted(wrong)[:8])
        notes.append(f"{wrong.total():,} labels have values that are no answer to {question.name}: {values}")
    for event_id, labels in by_event.items():
        labels.sort(key=lambda label: label.time)
        said = tuple(bad for label in labels if (bad := question.is_bad(label.value)) is not None)
        balance = sum(1 if bad else -1 for bad in said)
        first = next((label for label in labels if label.draw is not None), labels[0])
        yield _Answer(event_id, balance > 0 if balance else None, first, said)


def _tables(
    question: Question,
    criterion: Criterion,
    place: int,
    answers: Sequence[_Answer],
    draws: Mapping[str, Draw],
    evaluated: Evaluated | None,
    notes: list[str],
) -> Iterator[AgreementTable]:
    """Yield the tables of one question and metric: of drawn answers, or of all if none was drawn."""
    drawn = [each for each in answers if each.first.draw and (each.first.draw.id in draws or evaluated)]
    if not drawn:
        yield from _of_given(question, criterion, place, answers, evaluated, notes)
        return
    if others := len(answers) - len(drawn):
        notes.append(f"{others:,} labelled answers to {question.name} were not drawn, and are in no table")
    by_table: dict[tuple[str | None, Judge], list[_Answer]] = defaultdict(list)
    for each in drawn:
        by_table[_table_of(each, criterion, place, draws, evaluated)].append(each)
    for (application, (model, version)), those in by_table.items():
        rows = list(_drawn_rows(those, criterion, place, draws, evaluated))
        if missing := len(those) - len(rows):
            notes.append(f"{missing:,} labelled answers to {question.name} have no {criterion.metric}")
        if not rows:
            continue
        ids = {each.first.draw.id for each in those if each.first.draw}
        frame, start, end = _range(ids, place, draws, evaluated)
        yield AgreementTable(
            question.name,
            criterion.metric,
            criterion.threshold,
            application,
            model,
            version,
            start,
            end,
            len(rows),
            sum(each.bad is None for _, each in rows),
            drawn=True,
            agreement=_agreement(rows, frame.flagged()),
            person_to_person=_persons(rows),
        )


def _table_of(
    answer: _Answer, criterion: Criterion, place: int, draws: Mapping[str, Draw], evaluated: Evaluated | None
) -> tuple[str | None, Judge]:
    """Return the application and the judge of the table that a drawn answer belongs to."""
    made = draws.get(answer.first.draw.id) if answer.first.draw else None
    row = evaluated.rows.get(answer.event_id) if evaluated else None
    if criterion.suite is None:
        judge: Judge = None, None
    elif evaluated is None or row is None:
        judge = (made.model, made.suite_version) if made else (None, None)
    else:
        judge = evaluated.judged_by(place, row)
    return made.application if made else None, judge


Rows = list[tuple[_Answer, PeopleVerdict]]


def _agreement(rows: Rows, flagged: Limits | str | None) -> Agreement:
    if isinstance(flagged, str):
        return Agreement(*(flagged for _ in Agreement._fields))
    return agreement([each for _, each in rows], flagged)


def _drawn_rows(
    answers: Sequence[_Answer],
    criterion: Criterion,
    place: int,
    draws: Mapping[str, Draw],
    evaluated: Evaluated | None,
) -> Iterator[tuple[_Answer, PeopleVerdict]]:
    """Yield the answers of draws that have a verdict, with the chances with which they were labelled.

    Where only a part of a draw is labelled yet, each chance is multiplied by the labelled share of its verdict.
    """
    rated = Counter(_stratum(each, place, evaluated) for each in answers)
    for each in answers:
        verdict, draw = _verdict(each, criterion, place, evaluated), each.first.draw
        if verdict is None or draw is None:
            continue
        stratum = _stratum(each, place, evaluated)
        made = draws.get(draw.id)
        size = 0 if made is None else (made.bad if stratum[1] else made.good).drawn
        share = min(1.0, rated[stratum] / size) if size else 1.0
        judged = each.first.judged
        if judged is None and evaluated is None:
            continue
        judged_with = judged.probability if judged else 1.0
        if judged is None and evaluated is not None:
            judged_with = evaluated.chances[place][evaluated.rows[each.event_id]]
        yield each, PeopleVerdict(verdict, each.bad, judged_with * draw.probability * share)


def _stratum(answer: _Answer, place: int, evaluated: Evaluated | None) -> tuple[str, bool]:
    """Return the draw of an answer, and whether it was drawn from those that are bad."""
    first = answer.first
    own = first.draw.id if first.draw else ""
    if first.judged is not None:
        return own, first.judged.bad
    row = evaluated.rows.get(answer.event_id) if evaluated else None
    return own, evaluated is not None and row is not None and evaluated.verdicts[place][row] == BAD


def _range(
    ids: Iterable[str], place: int, draws: Mapping[str, Draw], evaluated: Evaluated | None
) -> tuple[Frame, datetime, datetime]:
    """Return the frame of some draws with its begin and end; all evaluations for draws that the labels do not have."""
    frame, times = Frame(), []
    for made in (draws[each] for each in ids if each in draws):
        frame = frame.plus(_frame(made, place, evaluated))
        times += [made.start, made.end]
    if not times and evaluated is not None:
        frame = Frame.of(evaluated.tally(place, range(len(evaluated))))
        times = [datetime.fromtimestamp(each(evaluated.times), UTC) for each in (min, max)]
    return frame, min(times), max(times)


def _frame(made: Draw, place: int, evaluated: Evaluated | None) -> Frame:
    if evaluated is None:
        return Frame.from_draw(made)
    start, end = made.start.timestamp(), made.end.timestamp()
    numbers = {
        number
        for number, group in enumerate(evaluated.groups)
        if made.application is None or group.application == made.application
    }
    rows = (
        row
        for row, (time, number) in enumerate(zip(evaluated.times, evaluated.group, strict=True))
        if start <= time < end and number in numbers
    )
    return Frame.of(evaluated.tally(place, rows))


def _verdict(answer: _Answer, criterion: Criterion, place: int, evaluated: Evaluated | None) -> bool | None:
    """Return whether the metric calls an answer bad; None if it has no verdict."""
    if evaluated is None:
        judged = answer.first.judged
        return criterion.is_bad(judged.value) if judged and judged.metric == criterion.metric else None
    row = evaluated.rows.get(answer.event_id)
    verdict = None if row is None else evaluated.verdicts[place][row]
    return verdict == BAD if verdict in (BAD, GOOD) else None


def _of_given(
    question: Question,
    criterion: Criterion,
    place: int,
    answers: Sequence[_Answer],
    evaluated: Evaluated | None,
    notes: list[str],
) -> Iterator[AgreementTable]:
    """Yield the tables of answers that were not drawn, such as imported ones, by application and judge."""
    if evaluated is None:
        if answers:
            notes.append(
                f"{len(answers):,} labelled answers to {question.name} were not drawn; --evaluations names the "
                "evaluations of their events"
            )
        return
    unknown = sum(each.event_id not in evaluated.rows for each in answers)
    if unknown:
        notes.append(f"{unknown:,} labelled answers to {question.name} are of events that are not evaluated")
    by_table: dict[tuple[str | None, Judge], Rows] = defaultdict(list)
    for each in answers:
        verdict = _verdict(each, criterion, place, evaluated)
        if verdict is not None:
            row = evaluated.rows[each.event_id]
            application = evaluated.groups[evaluated.group[row]].application
            labelled = PeopleVerdict(verdict, each.bad, evaluated.chances[place][row])
            by_table[application, evaluated.judged_by(place, row)].append((each, labelled))
    for (application, (model, version)), rows in by_table.items():
        times = [evaluated.times[evaluated.rows[each.event_id]] for each, _ in rows]
        yield AgreementTable(
            question.name,
            criterion.metric,
            criterion.threshold,
            application,
            model,
            version,
            datetime.fromtimestamp(min(times), UTC),
            datetime.fromtimestamp(max(times), UTC),
            len(rows),
            sum(each.bad is None for _, each in rows),
            drawn=False,
            agreement=_agreement(rows, None),
            person_to_person=_persons(rows),
        )


def _persons(rows: Rows) -> Limits | str:
    """Return the kappa of the first two people of each answer that two have labelled."""
    pairs = [PeopleVerdict(each.said[0], each.said[1], own.chance) for each, own in rows if len(each.said) > 1]
    if len(pairs) < FEWEST_PAIRS:
        return f"{len(pairs)} answers have labels of two people; {FEWEST_PAIRS} are needed"
    return kappa(pairs)
