"""The evaluation: all scores of one interaction."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

from pydantic import Field, FiniteFloat, NonNegativeInt

from ragweir.schemas.interaction import Interaction, RecordPart, Time

Status = Literal["not_selected", "selected", "judged", "deferred", "expired", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)

CARRIED_OVER = tuple(
    """
    event_id application tenant environment pipeline_version model question_id labels session_id trace_id span_id
    """.split()
)
"""The fields of an interaction that its evaluation repeats unchanged, in addition to the event's time."""

MAX_DOCUMENT_IDS = 16
MAX_FACETS = 32


class RecordPosition(RecordPart):
    """The position of a Kafka record."""

    topic: str
    """Name of the topic."""
    partition: int
    """Number of the partition."""
    offset: int
    """Offset of the record."""


class Source(RecordPosition):
    """The position at which the interaction was read."""

    omitted_values: ClassVar[Mapping[str, object]] = {"index": 0}

    index: NonNegativeInt = 0
    """Index of the event within the record; absent where it is 0."""


class SuiteDecision(RecordPart):
    """The decision on judging the event by one suite, with its probability and the names of the rules that fired."""

    omitted_values: ClassVar[Mapping[str, object]] = {"row": None, "row_digest": None}

    suite: str
    """Name of the suite."""
    status: Status
    """Progress of judging."""
    probability: Annotated[FiniteFloat, Field(ge=0, le=1)]
    """Probability with which the event was selected."""
    because: tuple[str, ...] = ()
    """Names of the rules that fired, and `floor` if the suite has one. With a `row`: `share` if the row selects the
    event because of its risk, and `floor` if it was drawn at random, below the row's floor."""
    row: str | None = None
    """Effective time of the routing row that was used, or `shipped`; absent for a suite without rows."""
    row_digest: str | None = None
    """Digest of the numbers by which this row selects, 16 hexadecimal digits; absent without a row of the topic
    `control`. Rows of the same effective time with the same digest decide the same."""


class Decision(RecordPart):
    """The decisions on judging the event; no suites if no judge is configured."""

    suites: tuple[SuiteDecision, ...] = ()
    """One decision for each suite."""


class Judgement(RecordPart):
    """Model, tokens and cost of the judge's answers."""

    model: str
    """Name of the model that judged."""
    prompt_version: str
    """Versions of the suites, whose wording changes with them."""
    input_tokens: int
    """Number of tokens that the judge read."""
    output_tokens: int
    """Number of tokens that the judge generated."""
    cost_usd: FiniteFloat
    """Cost of the calls, in dollars."""
    cached: bool
    """True if all answers came from the cache."""


class Texts(RecordPart):
    """The texts of the interaction; only if `output.include_text` is on."""

    query: str | None
    """The interaction's query; null if its content was not captured."""
    response: str | None
    """The interaction's response; null if its content was not captured."""
    contexts: tuple[str | None, ...] = ()
    """Texts of the interaction's contexts; null for one whose content was not captured."""


class Evaluation(RecordPart):
    """All scores of one interaction.

    `scores` has numbers (booleans as 1 and 0) and `categories` has labels; null means not computed, and `reasons` gives
    the reason. An evaluation is a function of the event, the configuration and the catalogue version, except for
    `source` and `run_id`.
    """

    omitted_values: ClassVar[Mapping[str, object]] = {"undefined": (), "facets": {}, "probabilities": {}}

    event_id: str
    """Id of the event."""
    event_time: Time
    """Time of the event: the interaction's `ended_at`, else `started_at`, else the timestamp of its record."""
    application: str | None = None
    """The interaction's `application`."""
    tenant: str | None = None
    """The interaction's `tenant`."""
    environment: str | None = None
    """The interaction's `environment`."""
    pipeline_version: str | None = None
    """The interaction's `pipeline_version`."""
    model: str | None = None
    """The interaction's `model`."""
    question_id: str | None = None
    """The interaction's `question_id`."""
    labels: dict[str, str] = Field(default_factory=dict)
    """The interaction's `labels`."""
    session_id: str | None = None
    """The interaction's `session_id`."""
    trace_id: str | None = None
    """The interaction's `trace_id`."""
    span_id: str | None = None
    """The interaction's `span_id`."""
    stage: Literal["scored", "judged"] = "scored"
    """`scored` by evaluate, or `judged`, which repeats the scores and adds those of the judge."""
    scores: dict[str, FiniteFloat | None] = Field(default_factory=dict)
    """Values of the metrics by name; null if not computed. A boolean is 1 or 0."""
    categories: dict[str, str | None] = Field(default_factory=dict)
    """Labels of the categorical metrics by name; null if not computed."""
    reasons: dict[str, str] = Field(default_factory=dict)
    """Reason of each null, by metric."""
    undefined: tuple[str, ...] = ()
    """Judged metrics that are null because they are not defined for the event, such as one without contexts; absent if
    there are none. Other nulls of judged metrics are unanswered."""
    flags: tuple[str, ...] = ()
    """Repairs and cuts of the event, such as `cut:spans`."""
    explanations: dict[str, str] = Field(default_factory=dict)
    """The judge's explanations by metric, bounded in length."""
    probabilities: dict[str, dict[str, Annotated[FiniteFloat, Field(ge=0, le=1)]]] = Field(default_factory=dict)
    """Probabilities of the values of judged metrics, by metric and value: labels, or numbers as text. Only with a
    decision model; absent if there are none."""
    evidence: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Short texts that show where scores come from, by metric; only with `score --explain`."""
    decision: Decision = Decision()
    """Decision on judging the event."""
    document_ids: Annotated[tuple[str, ...], Field(max_length=MAX_DOCUMENT_IDS)] = ()
    """Ids of the documents of the contexts, best rank first."""
    facets: Annotated[dict[str, tuple[str, ...]], Field(max_length=MAX_FACETS)] = Field(default_factory=dict)
    """Short values of the event by the name of the facet, at most 32 in 1 KB; absent if there are none. `rank` is the
    best rank of the chunks, `retrieval_method` their methods, `tool` the tools that were called, `tool_error` those
    that failed, `language` that of the response, and `question_length` and `answer_length` are classes of lengths."""
    judge: Judgement | None = None
    """Model, tokens and cost; only if judged."""
    text: Texts | None = None
    """Texts of the interaction; only if `output.include_text` is on."""
    catalogue_version: str
    """Version of the formulas."""
    source: Source | None = None
    """Position at which the interaction was read; of a file, its name and the number of the line."""
    run_id: str | None = None
    """Id of the replay; null if live."""


def document_ids(interaction: Interaction) -> tuple[str, ...]:
    """Return the distinct documents of the contexts, best rank first, at most 16.

    >>> document_ids(Interaction(event_id="1", query="", response="", contexts=[
    ...     {"document_id": "b", "rank": 2}, {"document_id": "a", "rank": 1}, {"document_id": "b"}]))
    ('a', 'b')
    """
    contexts = interaction.contexts or ()
    ranks = [number if context.rank is None else context.rank for number, context in enumerate(contexts, 1)]
    ids = [context.document_id for context in contexts]
    if ranks != sorted(ranks):
        ids = [ids[number] for number in sorted(range(len(ranks)), key=ranks.__getitem__)]
    return tuple(dict.fromkeys(each for each in ids if each is not None))[:MAX_DOCUMENT_IDS]


class Version(NamedTuple):
    """The fields that decide which of two evaluations of one event counts."""

    judged: bool
    """True for one of stage `judged`."""
    source: object
    """Position at which the interaction was read; any values of which equal ones are the same position."""


def supersedes(old: Version, new: Version) -> bool:
    """Return whether an evaluation counts in place of one that was appended earlier, of the same event.

    The later one counts, except that a scored one does not replace a judged one of the same interaction, which repeats
    its scores.

    >>> judged, scored = Version(judged=True, source=7), Version(judged=False, source=7)
    >>> supersedes(scored, judged), supersedes(judged, scored), supersedes(judged, Version(judged=False, source=8))
    (True, False, True)
    """
    return new.judged or not old.judged or new.source != old.source


def version_of(evaluation: Evaluation) -> Version:
    """Return what decides if an evaluation counts."""
    return Version(evaluation.stage == "judged", evaluation.source)
