"""The sample interactions of the demo: fictional companies, and two pipeline versions.

`samples.jsonl` holds one interaction a line. Its times are milliseconds since the question: `took_ms` becomes
`ended_at`, `first_token_ms` becomes `first_token_at`, and a span's `from_ms` and `to_ms` become its `started_at` and
`ended_at`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import orjson

from ragweir.streams.playground.traces import orphaned

Event = dict[str, Any]

_SLOWEST, _STEPS = 1.3, 7
"""Durations vary by up to this factor, in this number of steps."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that holds no interaction, and the error class of its dead letter."""

    key: str | None
    value: bytes | None
    error_class: str


PRODUCTION, STAGING = "prod", "staging"
"""The environments of the alert drill, and of the traffic before it."""

QUESTIONS = tuple(
    "returns-window descale-machine longer-warranty burst-pipe claim-deadline roof-type late-train late-boarding "
    "garantie-dauer".split()
)
"""The questions of the alert drill: v1's answers to these are grounded, v2's are not."""

_V1_EVERY = 4
"""One answer in this number is of v1. It is coprime to the number of questions, so that each version gets all."""
BAD_DOCUMENT = "clearance-sale-2019"
"""A document of the alert drill: answers with it are not grounded while quality is dropped, of v1 too."""
_DOCUMENT_EVERY = 10
"""One answer in this number has the bad document, of v1 and v2 by turns. It is coprime to the number of questions."""
_DOCUMENT_AT = 4
_PASSAGE = {
    "chunk_id": "sale-1",
    "document_id": BAD_DOCUMENT,
    "text": "Clearance sale: all prices of this leaflet ended on 31 January 2020.",
    "score": 0.41,
    "retrieval_method": "bm25",
}
DROPPED_SHARE = 1 - 1 / _V1_EVERY
"""Share of the alert drill's answers whose quality drops."""

UNREADABLE = (
    Unreadable("demo-cut-short", b'{"event_id": "demo-cut-short", "query": "How do I', "not_json"),
    Unreadable("demo-deleted", None, "tombstone"),
    Unreadable("demo-unanswered", b'{"event_id": "demo-unanswered", "query": "Is anybody there?"}', "invalid"),
    Unreadable(
        "demo-undated", b'{"event_id": "demo-undated", "query": "", "response": "", "ended_at": "now"}', "invalid"
    ),
)

UNREADABLE_TRACES = (
    Unreadable(None, b"no export request", "unreadable"),
    Unreadable(None, None, "tombstone"),
    Unreadable(None, orphaned("demo-no-root"), "no_root"),
)
"""Records of a topic of traces that give no interaction."""


@cache
def samples() -> Sequence[Mapping[str, Any]]:
    """Return the samples as in their file."""
    lines = files("ragweir.streams.playground.demo").joinpath("samples.jsonl").read_bytes().splitlines()
    return tuple(orjson.loads(line) for line in lines)


def interaction(number: int, ended_at: datetime) -> Event:
    """Return the interaction of this number, which ends at this time; the samples repeat.

    Its event id is the sample's with the number of the repetition, `labels.sample` is the sample's, trace and span ids
    are derived from the event id, and durations vary with the number.

    >>> from datetime import UTC
    >>> event = interaction(len(samples()), datetime(2026, 11, 21, 10, tzinfo=UTC))
    >>> event["event_id"], event["labels"]["sample"], event["ended_at"]
    ('returns-window-v1-2', 'returns-window-v1', '2026-11-21T10:00:00+00:00')
    """
    turn, place = divmod(number, len(samples()))
    sample = samples()[place]
    return _ended(sample, f"{sample['event_id']}-{turn + 1}", number, ended_at)


def drill(number: int, ended_at: datetime, *, dropped: bool) -> Event:
    """Return the interaction of this number in the alert drill: every fourth is of v1, the others are of v2.

    While quality is dropped, v2 gives the ungrounded answers of its samples; else it answers as v1 does. Then, too,
    every tenth answer has the bad document, and is not grounded either. Each round of the questions is a session of
    its own.

    >>> from datetime import UTC
    >>> event = drill(1, datetime(2026, 11, 21, 10, tzinfo=UTC), dropped=False)
    >>> event["event_id"], event["pipeline_version"], event["labels"]["sample"]
    ('drill-1', 'v2', 'descale-machine-v1')
    """
    question = QUESTIONS[number % len(QUESTIONS)]
    version = "v2" if number % _V1_EVERY else "v1"
    found = {sample["event_id"]: sample for sample in samples()}
    has_document = dropped and number % _DOCUMENT_EVERY == _DOCUMENT_AT
    release = found[f"{question}-{version}"]
    answer = found[f"{question}-{'v2' if dropped and (version == 'v2' or has_document) else 'v1'}"]
    sample = {**answer, "pipeline_version": version, "model": release["model"]}
    if "session_id" in sample:
        sample["session_id"] = f"{sample['session_id']}-{number // len(QUESTIONS)}"
    if has_document:
        contexts = sample["contexts"]
        sample["contexts"] = [*contexts, {**_PASSAGE, "rank": len(contexts) + 1}]
    return _ended(sample, f"drill-{number}", number, ended_at)


def _ended(sample: Mapping[str, Any], event_id: str, number: int, ended_at: datetime) -> Event:
    """Return a sample as an interaction with this id that ends at this time."""
    sample = dict(sample)
    name = sample["event_id"]
    digest = blake2b(event_id.encode(), digest_size=24).hexdigest()
    pace = 1 + (_SLOWEST - 1) * (number % _STEPS) / (_STEPS - 1)
    started_at = ended_at - timedelta(milliseconds=sample.pop("took_ms") * pace)

    def time(since_ms: float) -> str:
        return (started_at + timedelta(milliseconds=since_ms * pace)).isoformat()

    if (first_ms := sample.pop("first_token_ms", None)) is not None:
        sample["first_token_at"] = time(first_ms)
    spans = [
        {"started_at": time(span["from_ms"]), "ended_at": time(span["to_ms"])}
        | {field: value for field, value in span.items() if field not in {"from_ms", "to_ms"}}
        for span in sample.pop("spans", ())
    ]
    return sample | {
        "event_id": event_id,
        "started_at": started_at.isoformat(),
        "ended_at": ended_at.isoformat(),
        "labels": sample.get("labels", {}) | {"sample": name},
        "trace_id": digest[:32],
        "span_id": digest[32:],
        "spans": spans,
    }


def interactions(count: int, ended_at: datetime) -> list[Event]:
    """Return a number of interactions, one a second, of which the last ends at this time."""
    return [interaction(number, ended_at - timedelta(seconds=count - 1 - number)) for number in range(count)]
