"""Records of people's verdicts: labels of single answers, and the draw that chose which answers are labelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import orjson
from pydantic import Field, FiniteFloat, NonNegativeInt, StrictBool

from ragweir.schemas.evaluation import Source
from ragweir.schemas.interaction import RecordPart, Time
from ragweir.schemas.window import SelectionSums, SuiteChance

CANNOT_TELL = "cannot_tell"
"""The value of a label whose rater could not answer the question."""
WITHDRAWN = "withdrawn"
"""The value of a label that its rater took back."""

Kind = Literal["expert", "user", "import"]
Chance = Annotated[FiniteFloat, Field(gt=0, le=1)]


class LabelDraw(RecordPart):
    """The draw that chose an answer."""

    id: str
    """Id of the draw."""
    probability: Chance
    """Probability with which the answer was drawn, given that it was judged."""


class LabelledScore(RecordPart):
    """The score of the question's metric when the answer was drawn."""

    metric: str
    """Name of the metric."""
    value: FiniteFloat
    """Its value."""
    bad: bool
    """True if the value is on the bad side of the threshold."""
    probability: Chance
    """Probability with which the event was selected to be judged; 1 for a metric that every event has."""
    model: str | None = None
    """Configured model of the judge; null for a free metric."""
    suite_version: str | None = None
    """Version of the judge's suite; null for a free metric."""
    catalogue_version: str | None = None
    """Version of the formulas."""


class Label(RecordPart):
    """One person's answer to one question about one event. A later record of the same key replaces an earlier one."""

    event_id: str
    """Id of the event."""
    question: str
    """Name of the question."""
    value: StrictBool | str
    """True or false for a binary question; a step or a name of the scale; `cannot_tell`; or `withdrawn`."""
    rater: str
    """Keyed hash of the rater's name."""
    kind: Kind
    """`expert` by `ragweir labels rate`, `import` from another tool, or `user` for a user of the product."""
    blind: bool
    """True if scores, judge and marks were hidden until the answer was given; false, too, if the rater had seen scores
    of the answer on a page of the console."""
    time: Time
    """Time of the answer."""
    seconds: Annotated[FiniteFloat, Field(ge=0)] | None = None
    """Time that the rater took, in seconds."""
    draw: LabelDraw | None = None
    """The draw; null for an answer that was not drawn."""
    judged: LabelledScore | None = None
    """The score of the question's metric when the answer was drawn; null for an answer that was not drawn."""
    event_time: Time | None = None
    """Time of the event."""
    dimensions: Mapping[str, str] = {}
    """The event's values of the windows' dimensions; without those that it has not."""
    why: str = ""
    """Reason of `cannot_tell` that is not the rater's: the text of the event is gone."""
    comment: str | None = None
    """Comment of the rater; only if `labels.comments` is on."""

    omitted_values: ClassVar[Mapping[str, object]] = {"why": "", "comment": None}


class VerdictSums(RecordPart):
    """The judged answers of one verdict of the metric, each with its probability p of being judged."""

    judged: SelectionSums = SelectionSums()
    """Sums over the judged answers."""
    drawn: NonNegativeInt = 0
    """Number of answers that were drawn to be labelled."""


class Draw(RecordPart):
    """A draw of answers to be labelled, with the sums by which labels stand for all events of its range."""

    id: str
    """Id of the draw."""
    question: str
    """Name of the question."""
    metric: str
    """Metric whose verdicts were drawn from."""
    threshold: FiniteFloat
    """Threshold of the metric that divides bad from good."""
    application: str | None = None
    """Application of the events; null for all applications."""
    start: Time
    """Time of the first event of the range."""
    end: Time
    """End of the range, exclusive."""
    model: str | None = None
    """Configured model of the judge; null for a free metric."""
    suite_version: str | None = None
    """Version of the judge's suite; null for a free metric."""
    catalogue_version: str | None = None
    """Version of the formulas."""
    events: NonNegativeInt
    """Number of events in the range."""
    selected: NonNegativeInt
    """Number of them that were selected to be judged; all for a metric that every event has."""
    not_selected: NonNegativeInt = 0
    """Number of events that were not selected, though they could have been or because their probability was 0."""
    chance: SuiteChance = SuiteChance()
    """The probabilities with which the events could have been selected."""
    undefined: SelectionSums = SelectionSums()
    """Sums over the events for which the metric is not defined."""
    bad: VerdictSums = VerdictSums()
    """The answers that the metric calls bad."""
    good: VerdictSums = VerdictSums()
    """The answers that the metric calls good."""
    made_at: Time
    """Time of the draw."""


class QueuedAnswer(RecordPart):
    """An answer that was drawn to be labelled: a label without its value."""

    event_id: str
    """Id of the event."""
    question: str
    """Name of the question."""
    draw: LabelDraw
    """The draw."""
    judged: LabelledScore
    """The score of the question's metric; a rater does not see it before the answer."""
    event_time: Time | None = None
    """Time of the event."""
    dimensions: Mapping[str, str] = {}
    """The event's values of the windows' dimensions."""
    raters: Annotated[int, Field(ge=1, le=2)] = 1
    """Number of people who are asked."""
    source: Source | None = None
    """Position at which the interaction was read, for its texts; absent for an answer of a file."""

    omitted_values: ClassVar[Mapping[str, object]] = {"source": None}


def draw_key(draw_id: str, event_id: str | None = None) -> bytes:
    """Return the key of a draw on the topic `labels.draws`, or that of one of its answers.

    >>> draw_key("7f"), draw_key("7f", "1")
    (b'["7f"]', b'["7f","1"]')
    """
    return orjson.dumps([draw_id] if event_id is None else [draw_id, event_id])


def label_key(event_id: str, question: str, rater: str) -> bytes:
    """Return the key of a label on the topic `labels`.

    >>> label_key("1", "supported", "r")
    b'["1","supported","r"]'
    """
    return orjson.dumps([event_id, question, rater])
