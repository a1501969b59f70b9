"""The table of topics, from which they are created, documented and tested."""

from dataclasses import dataclass, replace

from pydantic import BaseModel

from ragweir.schemas.access import Need
from ragweir.schemas.assembly import AssemblyEntry, ClockMark
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.document_rows import DocumentRows
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.feedback import Feedback, JoinedFeedback, KeyedFeedback, UnmatchedFeedback, WaitingFeedback
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import AnchorResult, JudgeRequest, LedgerEntry
from ragweir.schemas.label import Draw, Label
from ragweir.schemas.routing_row import RoutingRow
from ragweir.schemas.run import Run
from ragweir.schemas.window import Window

MAX_EVENT_BYTES = 1024 * 1024


def max_record_bytes(max_event_bytes: int = MAX_EVENT_BYTES) -> int:
    """Return the maximum record size of topics and producers: an evaluation or dead letter is larger than its event.

    >>> max_record_bytes(1024 * 1024)
    2162688
    """
    return 2 * max_event_bytes + 64 * 1024


BROKER_TIME = ("message.timestamp.type", "LogAppendTime")
"""The property of a topic whose records the brokers stamp, so that the clocks of their writers do not count."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; its name has no prefix."""

    name: str
    key: str
    model: type[BaseModel]
    cleanup: str
    retention_h: int
    text: str
    """The text of users and documents that it contains."""
    readers: tuple[str, ...] = ()
    """The parts of `ragweir.schemas.access` that read it; the operator may read every topic."""
    writers: tuple[str, ...] = ()
    """The parts that write to it."""
    need: Need = ""
    """The settings with which it is used."""
    config: tuple[tuple[str, str], ...] = ()
    """Further properties of the topic on the broker."""
    horizons: int = 0
    """The number of times that `feedback.horizon` is added to the retention."""
    grows: bool = True
    """False if `ragweir topics grow` leaves it as it is: the state of a key would stay in the partition it had."""

    @property
    def has_broker_time(self) -> bool:
        """True if the brokers stamp its records."""
        return BROKER_TIME in self.config


OTLP_EVALUATIONS = "otlp.evaluations"
"""The name of the topic of evaluations in the form of OpenTelemetry."""
_JUDGED_TEXT = "query, response, contexts, expected of the events selected"

_AGENTS = ("evaluate", "key", "join", "judge", "aggregate")

TOPICS = {
    topic.name: topic
    for topic in (
        Topic(
            "interactions",
            "event_id",
            Interaction,
            "delete",
            24 * 7,
            "query, response, contexts, all of the event",
            readers=("evaluate", "console"),
            writers=("publish", "join"),
        ),
        Topic(
            "spans",
            "trace id",
            ClockMark,
            "delete",
            24,
            "all content of the spans and log records",
            readers=("join",),
            writers=("key",),
            need="traces",
            # The times of traces follow the brokers' clocks.
            config=(BROKER_TIME,),
        ),
        Topic(
            "assembly",
            "partition",
            AssemblyEntry,
            "delete",
            24,
            "none",
            readers=("join",),
            writers=("join",),
            need="traces",
            config=(BROKER_TIME,),
        ),
        Topic(
            "redrive",
            "event_id",
            Interaction,
            "delete",
            24 * 7,
            "query, response, contexts, all of the event",
            readers=("evaluate", "console"),
            writers=("operator",),
        ),
        Topic(
            "evaluations",
            "event_id",
            Evaluation,
            "delete",
            24 * 30,
            "none, unless output.include_text is on",
            # Evaluate reads its last outputs when it is assigned a partition.
            readers=("evaluate", "aggregate", "match", "console"),
            writers=("evaluate", "judge"),
        ),
        Topic(
            OTLP_EVALUATIONS,
            "trace id, else event_id",
            Evaluation,
            "delete",
            24 * 7,
            "none, unless output.otlp.explanations is on",
            writers=("evaluate", "judge"),
            need="otlp",
        ),
        Topic(
            "documents",
            "topic, partition",
            DocumentRows,
            "delete",
            24 * 14,
            "none; documents, chunks, labels, sessions and questions are keyed hashes",
            readers=("console",),
            writers=("evaluate", "judge"),
            need="blame",
        ),
        Topic(
            "judge.requests",
            "event_id",
            JudgeRequest,
            "delete",
            24 * 7,
            _JUDGED_TEXT,
            readers=("judge",),
            writers=("evaluate",),
            need="judge",
        ),
        *(
            Topic(
                name,
                "event_id",
                JudgeRequest,
                "delete",
                24 * 7,
                _JUDGED_TEXT,
                readers=("judge",),
                writers=("judge",),
                need="judge",
            )
            for name in ("judge.retry", "judge.deferred")
        ),
        Topic(
            "judge.ledger",
            "day, application, tenant, partition",
            LedgerEntry,
            "compact,delete",
            24 * 40,
            "none",
            readers=("judge", "planner"),
            writers=("judge",),
            need="judge",
            # The days of the budget follow the brokers' clocks: a worker's own may be wrong.
            config=(BROKER_TIME,),
        ),
        Topic(
            "judge.anchors",
            "anchors, day, run, anchor",
            AnchorResult,
            "compact,delete",
            # A baseline is compared with as long as the judge is the same.
            24 * 400,
            "none",
            readers=("export",),
            writers=("judge",),
            need="judge",
        ),
        Topic(
            "windows",
            "start, dimensions, partition, part",
            Window,
            "compact,delete",
            24 * 30,
            "none",
            # Aggregate reads its own windows when it is assigned a partition.
            readers=("aggregate", "export", "planner"),
            writers=("aggregate",),
            # Only closed segments are compacted, and an open window is written about once a second.
            config=(("segment.ms", "600000"), ("min.cleanable.dirty.ratio", "0.2")),
        ),
        Topic(
            "control",
            "application, effective time",
            RoutingRow,
            # No row is ever deleted: replays of old events select as it said then.
            "compact",
            24 * 365,
            "none",
            readers=("evaluate", "planner"),
            writers=("planner",),
            need="judge",
            # A row has an effect if it was written early enough, whatever the clock of its writer shows.
            config=(BROKER_TIME,),
        ),
        Topic(
            "labels",
            "event_id, question, rater",
            Label,
            # A reader that is less than 30 days behind sees what was withdrawn.
            "compact",
            24 * 365,
            "none; comments of raters if labels.comments is on",
            readers=("console",),
            # People label on pages of the console as well.
            writers=("operator", "console"),
            config=(("delete.retention.ms", str(30 * 24 * 3_600_000)),),
        ),
        Topic(
            "labels.draws",
            "draw id, event_id",
            Draw,
            "compact",
            24 * 365,
            "none",
            readers=("console",),
            writers=("operator",),
        ),
        Topic(
            "feedback",
            "any",
            Feedback,
            "delete",
            24,
            "names of givers, values and comments, as the application writes them",
            readers=("match",),
            # Key finds it in traces.
            writers=("publish", "key", "operator"),
            need="feedback",
            # The horizon counts from the record's time, and no feedback is later than its record.
            config=(BROKER_TIME,),
            horizons=1,
        ),
        Topic(
            "feedback.waiting",
            "position of the feedback",
            WaitingFeedback,
            "compact,delete",
            24,
            "values of feedback; givers are keyed hashes",
            # Match reads what waits when it is assigned a partition.
            readers=("match",),
            writers=("match",),
            need="feedback",
            config=(BROKER_TIME,),
            horizons=2,
        ),
        Topic(
            "feedback.unmatched",
            "position of the feedback",
            UnmatchedFeedback,
            "delete",
            24 * 14,
            "values of feedback; givers are keyed hashes",
            writers=("match", "tally"),
            need="feedback",
        ),
        Topic(
            "feedback.keyed",
            "event_id",
            KeyedFeedback,
            "delete",
            24,
            "values of feedback; givers are keyed hashes",
            readers=("tally",),
            writers=("match",),
            need="feedback",
            config=(BROKER_TIME,),
            horizons=1,
            grows=False,
        ),
        Topic(
            "feedback.joined",
            "event_id, name, giver",
            JoinedFeedback,
            "compact,delete",
            24,
            "values of feedback; givers are keyed hashes",
            # Tally reads its values when it is assigned a partition.
            readers=("tally", "console"),
            writers=("tally",),
            need="feedback",
            config=(BROKER_TIME,),
            horizons=3,
            grows=False,
        ),
        Topic(
            "feedback.windows",
            "start, dimensions, partition, part",
            Window,
            "compact,delete",
            24,
            "none",
            writers=("tally",),
            need="feedback",
            config=(("segment.ms", "600000"), ("min.cleanable.dirty.ratio", "0.2")),
            horizons=3,
            grows=False,
        ),
        Topic(
            "dead-letter",
            "as received",
            DeadLetter,
            "delete",
            24 * 14,
            "the rejected record's bytes and headers",
            readers=("console",),
            writers=_AGENTS,
        ),
    )
}

FORMATTED = ("evaluations", "windows")
"""The names of the topics whose records are also written in `output.format`."""


def formatted(name: str, form: str) -> str:
    """Return the name of the topic that holds a topic's records in another format.

    >>> formatted("windows", "avro")
    'windows.avro'
    """
    return f"{name}.{form}"


def topic_table(form: str | None) -> dict[str, Topic]:
    """Return the topics by name, with those in another format if there is one.

    >>> topic_table(None).keys() == TOPICS.keys(), sorted(topic_table("avro").keys() - TOPICS.keys())
    (True, ['evaluations.avro', 'windows.avro'])
    """
    if form is None:
        return TOPICS
    added = [replace(TOPICS[name], name=formatted(name, form), readers=(), need="format") for name in FORMATTED]
    return TOPICS | {topic.name: topic for topic in added}


RUN = Topic("run", "kind of record", Run, "compact", 24 * 365, "none")
"""The topic of run records. A replay R has it under the prefix `run.R.`, with its own topics of the names above."""
