"""The topic table: from it topics are created, documented and tested."""

from dataclasses import dataclass

from pydantic import BaseModel

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import JudgeRequest, LedgerEntry
from ragweir.schemas.run import Run
from ragweir.schemas.window import Window

MAX_EVENT_BYTES = 1024 * 1024


def max_record_bytes(max_event_bytes: int = MAX_EVENT_BYTES) -> int:
    """The largest record that our topics and producers allow: an evaluation or dead letter is larger than its event.

    >>> max_record_bytes(1024 * 1024)
    2162688
    """
    return 2 * max_event_bytes + 64 * 1024


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its name without the prefix, what it holds and for how long."""

    name: str
    key: str
    model: type[BaseModel]
    cleanup: str
    retention_h: int
    text: str
    """Which text of users and documents it holds: for the table of what is kept where."""
    config: tuple[tuple[str, str], ...] = ()
    """Further settings of the topic on the broker."""


_JUDGED_TEXT = "query, response, contexts, expected of the events selected"

TOPICS = {
    topic.name: topic
    for topic in (
        Topic("interactions", "event_id", Interaction, "delete", 24 * 7, "query, response, contexts, all of the event"),
        Topic("redrive", "event_id", Interaction, "delete", 24 * 7, "query, response, contexts, all of the event"),
        Topic("evaluations", "event_id", Evaluation, "delete", 24 * 30, "none, unless output.include_text is on"),
        Topic("judge.requests", "event_id", JudgeRequest, "delete", 24 * 7, _JUDGED_TEXT),
        Topic("judge.retry", "event_id", JudgeRequest, "delete", 24 * 7, _JUDGED_TEXT),
        Topic("judge.deferred", "event_id", JudgeRequest, "delete", 24 * 7, _JUDGED_TEXT),
        Topic(
            "judge.ledger",
            "day, application, tenant, partition",
            LedgerEntry,
            "compact,delete",
            24 * 40,
            "none",
            # The days of the budget are the brokers': a worker's own clock may be wrong.
            (("message.timestamp.type", "LogAppendTime"),),
        ),
        Topic(
            "windows",
            "start, dimensions, partition, part",
            Window,
            "compact,delete",
            24 * 30,
            "none",
            # Each window is written about once a second while it is open: only closed segments are compacted.
            (("segment.ms", "600000"), ("min.cleanable.dirty.ratio", "0.2")),
        ),
        Topic("dead-letter", "as received", DeadLetter, "delete", 24 * 14, "the refused record's bytes"),
    )
}

RUN = Topic("run", "kind of record", Run, "compact", 24 * 365, "none")
"""Only replays have it: under `run.R.`, beside topics of their own that are called as above."""
