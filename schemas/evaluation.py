"""The evaluation: all scores of one interaction."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt

from ragweir.schemas.interaction import Interaction, RecordPart, Time

Status = Literal["not_selected", "selected", "judged", "deferred", "expired", "failed"]

CARRIED_OVER = tuple(
    """
    event_id application tenant environment pipeline_version model question_id labels session_id trace_id span_id
    """.split()
)
"""The fields of an interaction that its evaluation repeats unchanged, in addition to the event's time."""

MAX_DOCUMENT_IDS = 16


class RecordPosition(RecordPart):
    """The position of a Kafka record."""

    topic: str
    partition: int
    offset: int


class Source(RecordPosition):
    """The position at which the interaction was read."""

    omitted_values: ClassVar[Mapping[str, object]] = {"index": 0}

    index: NonNegativeInt = 0
    """Index of the event within the record; absent where it is 0."""


class SuiteDecision(RecordPart):
    """The decision on judging the event by one suite, with its probability and the names of the rules that fired."""

    suite: str
    status: Status
    probability: Annotated[FiniteFloat, Field(ge=0, le=1)]
    because: tuple[str, ...] = ()


class Decision(RecordPart):
    """The decisions on judging the event; no suites if no judge is configured."""

    suites: tuple[SuiteDecision, ...] = ()


class Judgement(RecordPart):
    """Model, tokens and cost of the judge's answers."""

    model: str
    prompt_version: str
    input_tokens: int
    output_tokens: int
    cost_usd: FiniteFloat
    cached: bool


class Texts(RecordPart):
    """The texts of the interaction; only if `output.include_text` is on."""

    query: str
    response: str
    contexts: tuple[str, ...] = ()


class Evaluation(RecordPart):
    """All scores of one interaction.

    `scores` has numbers (booleans as 1 and 0) and `categories` has labels; null means not computed, and `reasons` gives
    the reason. An evaluation is a function of the event, the configuration and the catalogue version, except for
    `source` and `run_id`.
    """

    event_id: str
    event_time: Time
    application: str | None = None
    tenant: str | None = None
    environment: str | None = None
    pipeline_version: str | None = None
    model: str | None = None
    question_id: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    session_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    stage: Literal["scored", "judged"] = "scored"
    scores: dict[str, FiniteFloat | None] = Field(default_factory=dict)
    categories: dict[str, str | None] = Field(default_factory=dict)
    reasons: dict[str, str] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()
    explanations: dict[str, str] = Field(default_factory=dict)
    evidence: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    decision: Decision = Decision()
    document_ids: Annotated[tuple[str, ...], Field(max_length=MAX_DOCUMENT_IDS)] = ()
    judge: Judgement | None = None
    text: Texts | None = None
    catalogue_version: str
    source: Source | None = None
    run_id: str | None = None


def document_ids(interaction: Interaction) -> tuple[str, ...]:
    """Return the distinct documents of the contexts, best rank first, at most 16.

    >>> document_ids(Interaction(event_id="1", query="", response="", contexts=[
    ...     {"document_id": "b", "rank": 2}, {"document_id": "a", "rank": 1}, {"document_id": "b"}]))
    ('a', 'b')
    """
    contexts = interaction.contexts or ()
    ranked = sorted(enumerate(contexts, 1), key=lambda place: place[0] if place[1].rank is None else place[1].rank)
    ids = dict.fromkeys(context.document_id for _, context in ranked if context.document_id is not None)
    return tuple(ids)[:MAX_DOCUMENT_IDS]
