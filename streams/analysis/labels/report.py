"""The report of labels: how far a metric agrees with people, by question, metric, application and judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from ragweir.metrics.criterion import Criterion
from ragweir.metrics.people.agreement import Agreement, PeopleVerdict, agreement, kappa
from ragweir.metrics.people.calibration import Forecast, brier_score
from ragweir.metrics.people.shares import Limits
from ragweir.schemas.label import Draw, Label
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.sampling_frame import Frame
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.analysis.labels.verdicts import (
    AnswerLabels,
    Judge,
    VerdictsOfFile,
    VerdictsOfLabels,
    VerdictSource,
    answers_of,
)
from ragweir.streams.settings.labels import Question

FEWEST_PAIRS = 30
"""Minimum number of answers with labels of two people for their agreement."""
UNKNOWN = "agreement with people unknown"
_EXAMPLES = 8
NUMBERS = {
    "tpr": "TPR: bad answers that the metric catches",
    "tnr": "TNR: good answers that it passes",
    "precision": "precision: bad ones of those it flags",
    "kappa": "kappa of metric and people",
    "people_rate": "rate of bad answers, by people",
    "person_to_person": "kappa of two people",
    "brier": "Brier score: probabilities of the judge",
}
"""The numbers of a table, with their names for people."""

Criteria = Sequence[tuple[Question, Sequence[Criterion]]]
_Rows = list[tuple[AnswerLabels, PeopleVerdict]]


@dataclass(frozen=True, slots=True)
class AgreementTable:
    """The agreement of one metric with people."""

    question: str
    criterion: Criterion
    application: str | None
    judge: Judge
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
    brier: Limits | None = None
    """Brier score of the judge's probabilities; None if it gave none."""

    @property
    def numbers(self) -> tuple[tuple[str, Limits | str], ...]:
        """The names and values of its numbers; a text is the reason why one is not known."""
        found = {**self.agreement._asdict(), "person_to_person": self.person_to_person, "brier": self.brier}
        return tuple((name, each) for name, each in found.items() if each is not None)

    @property
    def title(self) -> str:
        """The subject of the table."""
        model, version = self.judge
        judge = "" if model is None else f", judged by {model} (suite version {version})"
        where = "" if self.application is None else f", application {self.application}"
        return f"{self.question}: {self.criterion.metric} with threshold {self.criterion.threshold:g}{where}{judge}"

    @property
    def basis(self) -> str:
        """The labels that the numbers rest on, and the events that they speak of."""
        unanswered = f", {self.unanswered:,} of them without an answer" if self.unanswered else ""
        of = "of all events" if self.drawn else "of the labelled answers alone, which were not drawn,"
        return (
            f"{_answers(self.labels)}{unanswered}; the numbers are those {of} from "
            f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"
        )

    def data(self) -> dict[str, Any]:
        """Return the table as JSON has it."""
        return {
            "question": self.question,
            "metric": self.criterion.metric,
            "threshold": self.criterion.threshold,
            "application": self.application,
            "model": self.judge.model,
            "suite_version": self.judge.suite_version,
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
        are = "label of users is" if users == 1 else "labels of users are"
        found.notes.append(f"{users:,} {are} in no table: users choose the answers that they rate")
    place = 0
    for question, own in criteria:
        answers, wrong = answers_of(question, by_question.pop(question.name, []))
        if wrong:
            values = ", ".join(sorted(wrong)[:_EXAMPLES])
            have = "label has a value that is" if wrong.total() == 1 else "labels have values that are"
            found.notes.append(f"{wrong.total():,} {have} no answer to {question.name}: {values}")
        for criterion in own:
            verdicts = VerdictsOfLabels(criterion) if evaluated is None else VerdictsOfFile(evaluated, place)
            subject = _Subject(question.name, criterion, verdicts, labels.draws, found.notes)
            found.tables.extend(subject.tables(answers))
            place += 1
    if by_question:
        unknown = ", ".join(sorted(by_question)[:_EXAMPLES])
        number = sum(map(len, by_question.values()))
        are = "label is of a question that is" if number == 1 else "labels are of questions that are"
        found.notes.append(f"{number:,} {are} not reported here: {unknown}")
    if not found.tables:
        found.notes.append(UNKNOWN + _hint(has_labels=bool(labels.labels), has_evaluations=evaluated is not None))
    return found


def _hint(*, has_labels: bool, has_evaluations: bool) -> str:
    """Return the reason why there is no table, where it is one that the reader can change."""
    if not has_labels:
        return ": no answer is labelled"
    return "" if has_evaluations else "; name the evaluations of the events, as the labels carry no score"


def _answers(number: int) -> str:
    """Return a number of labelled answers.

    >>> _answers(1), _answers(1_000)
    ('1 labelled answer', '1,000 labelled answers')
    """
    return f"{number:,} labelled {'answer' if number == 1 else 'answers'}"


@dataclass(frozen=True, slots=True)
class _Subject:
    """A question and a criterion, whose tables are made."""

    question: str
    criterion: Criterion
    verdicts: VerdictsOfLabels | VerdictsOfFile
    draws: Mapping[str, Draw]
    notes: list[str]

    def tables(self, answers: Sequence[AnswerLabels]) -> Iterator[AgreementTable]:
        """Yield the tables of drawn answers, or of all if none was drawn."""
        drawn = [each for each in answers if each.draw_id is not None and self._has_frame(each.draw_id)]
        if drawn and len(drawn) < len(answers):
            others = len(answers) - len(drawn)
            were = "was not drawn, and is" if others == 1 else "were not drawn, and are"
            self.notes.append(f"{_answers(others)} to {self.question} {were} in no table")
        known = [each for each in drawn or answers if self.verdicts.verdict(each) is not None]
        if missing := len(drawn or answers) - len(known):
            have = "has" if missing == 1 else "have"
            self.notes.append(f"{_answers(missing)} to {self.question} {have} no {self.criterion.metric} here")
        if drawn:
            yield from self._of_drawn(known)
        elif isinstance(self.verdicts, VerdictsOfFile):
            yield from self._of_given(known, self.verdicts)

    def _has_frame(self, draw_id: str) -> bool:
        return draw_id in self.draws or isinstance(self.verdicts, VerdictsOfFile)

    def _of_drawn(self, answers: Sequence[AnswerLabels]) -> Iterator[AgreementTable]:
        rated = Counter(map(self._stratum, answers))
        by_table: dict[tuple[str | None, Judge], list[AnswerLabels]] = defaultdict(list)
        for each in answers:
            made = self.draws.get(each.draw_id or "")
            by_table[made.application if made else None, self.verdicts.judge(each)].append(each)
        for (application, judge), those in by_table.items():
            rows = [(each, _people_verdict(self.verdicts, each, self._labelled_chance(each, rated))) for each in those]
            frame, start, end = self._range(those)
            yield self._table(application, judge, start, end, rows, frame.flagged())

    def _of_given(self, answers: Sequence[AnswerLabels], verdicts: VerdictsOfFile) -> Iterator[AgreementTable]:
        """Yield the tables of answers that were not drawn, such as imported ones."""
        by_table: dict[tuple[str | None, Judge], list[AnswerLabels]] = defaultdict(list)
        for each in answers:
            by_table[verdicts.application(each), verdicts.judge(each)].append(each)
        for (application, judge), those in by_table.items():
            rows = [(each, _people_verdict(verdicts, each, 1.0)) for each in those]
            times = verdicts.times(those)
            yield self._table(application, judge, min(times), max(times), rows, None)

    def _table(
        self,
        application: str | None,
        judge: Judge,
        start: datetime,
        end: datetime,
        rows: _Rows,
        flagged: Limits | str | None,
    ) -> AgreementTable:
        if isinstance(flagged, str):
            found = Agreement(*(flagged for _ in Agreement._fields))
        else:
            found = agreement([each for _, each in rows], flagged)
        return AgreementTable(
            self.question,
            self.criterion,
            application,
            judge,
            start,
            end,
            len(rows),
            sum(each.bad is None for _, each in rows),
            drawn=flagged is not None,
            agreement=found,
            person_to_person=_persons(rows),
            brier=brier_score(
                [
                    Forecast(likely, own.bad, own.chance)
                    for each, own in rows
                    if (likely := self.verdicts.likely(each)) is not None
                ]
            ),
        )

    def _stratum(self, answer: AnswerLabels) -> tuple[str | None, bool]:
        """Return the draw of an answer, and true if it was drawn from those that the metric calls bad."""
        judged = answer.first.judged
        return answer.draw_id, judged.bad if judged else bool(self.verdicts.verdict(answer))

    def _labelled_chance(self, answer: AnswerLabels, rated: Mapping[tuple[str | None, bool], int]) -> float:
        """Return the chance that a judged answer was drawn and labelled.

        Where only a part of a draw is labelled yet, the chance of being drawn is multiplied by the labelled share.
        """
        stratum = self._stratum(answer)
        made = self.draws.get(answer.draw_id or "")
        size = 0 if made is None else (made.bad if stratum[1] else made.good).drawn
        share = min(1.0, rated[stratum] / size) if size else 1.0
        return share * (answer.first.draw.probability if answer.first.draw else 1.0)

    def _range(self, answers: Sequence[AnswerLabels]) -> tuple[Frame, datetime, datetime]:
        """Return the frame of the answers' draws, with its begin and end; all evaluations for draws without sums."""
        ids = dict.fromkeys(each.draw_id for each in answers if each.draw_id in self.draws)
        made = [self.draws[each] for each in ids if each]
        if not made and isinstance(self.verdicts, VerdictsOfFile):
            times = self.verdicts.times(answers)
            return self.verdicts.whole(), min(times), max(times)
        made.sort(key=lambda draw: draw.start)
        if any(later.start < earlier.end for earlier, later in pairwise(made)):
            self.notes.append(f"draws for {self.question} overlap in time, where events count once for each of them")
        frame = Frame()
        for each in made:
            frame = frame.plus(self.verdicts.frame(each))
        return frame, min(each.start for each in made), max(each.end for each in made)


def _people_verdict(verdicts: VerdictSource, answer: AnswerLabels, labelled: float) -> PeopleVerdict:
    return PeopleVerdict(bool(verdicts.verdict(answer)), answer.bad, verdicts.chance(answer) * labelled)


def _persons(rows: _Rows) -> Limits | str:
    """Return the kappa of the first two people of each answer that two have labelled."""
    pairs = [PeopleVerdict(each.said[0], each.said[1], own.chance) for each, own in rows if len(each.said) > 1]
    if len(pairs) < FEWEST_PAIRS:
        have = "answer has" if len(pairs) == 1 else "answers have"
        return f"{len(pairs)} {have} labels of two people; {FEWEST_PAIRS} are needed"
    return kappa(pairs)
