"""The parts of ragweir that use Kafka: each is a user of its own where Kafka has ACLs, with the rights that it needs.

The topic table names for each topic the parts that read and write it. deploy/kafka/acls.sh is generated from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Need = Literal["", "judge", "traces", "otlp", "format", "feedback", "blame", "console"]
"""The settings with which a part runs, or a topic is used: always, with a judge, with traces as the input, with
`output.otlp`, with `output.format`, with `feedback.enabled`, with `blame.enabled`, or with `console.enabled`."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part; without further values it only writes."""

    name: str
    """The name of the command; the user is `ragweir-NAME`."""
    need: Need = ""
    group: bool = False
    """True if it reads its inputs in a consumer group of its name."""
    progress: bool = False
    """True if it commits its offsets to a second group as well, to detect a reset."""
    alone: bool = False
    """True if it reads topics without a group."""
    transactions: bool = False
    """True if it writes in transactions."""


PARTS = {
    part.name: part
    for part in (
        Part("publish"),
        Part("evaluate", group=True, progress=True, alone=True, transactions=True),
        Part("key", "traces", group=True, transactions=True),
        Part("join", "traces", group=True, alone=True, transactions=True),
        Part("judge", "judge", group=True, progress=True, alone=True, transactions=True),
        Part("aggregate", group=True, alone=True, transactions=True),
        Part("match", "feedback", group=True, alone=True, transactions=True),
        Part("tally", "feedback", group=True, alone=True, transactions=True),
        Part("planner", "judge", alone=True, transactions=True),
        Part("export", alone=True),
        Part("console", "console", alone=True),
        Part("operator"),
    )
}
"""The parts by name, in the order of the data flow. The operator is a person, who may also read and create all topics
of the table."""
