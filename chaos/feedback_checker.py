"""Feedback as it has to be joined, by the documented rules only, and its comparison with what match and tally wrote.

Anchors are compared with it, as both are in the same runs.

Each piece that is accepted is keyed to its answer once, waits for it, or is unmatched with a class: `crowded` once more
waits than a worker may hold, and evaluations that are newer by `GRACE_S` were read. It must be keyed if its answer was
evaluated by then. Of each answer, name and giver the newest counts. A run is shorter than the horizon.
"""

from __future__ import annotations

import hmac
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from confluent_kafka import Message

from chaos.anchors import AnchorTally
from chaos.events import POISON
from chaos.feedback_events import KEY
from chaos.findings import Findings
from chaos.reading import headers_of

MOST_WAITING, GRACE_S = 4_000, 30
"""The most feedback that waits in a worker, and the time by which evaluations must be newer than feedback that is given
up: 50,000, and ten minutes, in the product (see `chaos.quick_rows`). Transactions stay open for shorter."""
_MARGIN_S = 10
"""The difference of the clocks by which evaluations and feedback are stamped, with the time of a commit."""
_MS = 1_000
_EVERY_S = 1.0
GROWING = "feedback.unmatched", "feedback.waiting", "feedback"
"""The topics that can get more partitions, in the order in which they grow."""
TOPICS = *GROWING, "feedback.keyed", "feedback.joined", "feedback.windows", "judge.anchors"

Position = tuple[int, int]
"""The partition and the offset of a piece of feedback."""
Person = tuple[str, str, str | None]
"""The answer, the name, and the hash of the giver."""


class _Given(NamedTuple):
    """One piece of feedback."""

    event_id: str
    name: str
    value: Any
    giver: str | None
    time_ms: int
    received_ms: int


class _Answer(NamedTuple):
    written_ms: int
    """The timestamp of its first evaluation."""
    event_time: str
    application: str


@dataclass(slots=True)
class FeedbackChecker:
    """Collects the records of feedback, and compares them once all are read.

    `sent` returns how many were sent; None while more are to be sent.
    """

    sent: Callable[[], int | None]
    answers: dict[str, _Answer] = field(default_factory=dict)
    anchors: AnchorTally = field(default_factory=AnchorTally)
    read: int = 0
    """Number of records of `feedback`."""
    _given: dict[Position, _Given] = field(default_factory=dict)
    _unusable: set[Position] = field(default_factory=set)
    _keyed: Counter[Position] = field(default_factory=Counter)
    _unmatched: defaultdict[Position, list[str]] = field(default_factory=lambda: defaultdict(list))
    _waiting: dict[bytes, bytes | None] = field(default_factory=dict)
    _joined: dict[bytes, Mapping[str, Any]] = field(default_factory=dict)
    _windows: dict[bytes, Mapping[str, Any]] = field(default_factory=dict)
    _open: dict[Position, _Given] = field(default_factory=dict)
    """Feedback that is neither keyed nor unmatched."""
    _asked_at: float = 0.0
    _is_complete: bool = False

    # Reading.

    def take(self, topic: str, message: Message) -> None:
        """Take a record of one of `TOPICS`."""
        key, value = message.key() or b"", message.value()
        match topic:
            case "feedback":
                self._take_given(message)
            case "feedback.keyed":
                self._keyed[self._settled(json.loads(value or b""))] += 1
            case "feedback.unmatched":
                record = json.loads(value or b"")
                self._unmatched[self._settled(record)].append(record["error_class"])
            case "feedback.waiting":
                self._waiting[key] = value
            case "feedback.joined":
                self._joined[key] = json.loads(value or b"")
            case "feedback.windows":
                self._windows[key] = json.loads(value or b"")
            case "judge.anchors":
                self.anchors.read(message)

    def _take_given(self, message: Message) -> None:
        at, received_ms = (message.partition() or 0, message.offset() or 0), message.timestamp()[1]
        self.read += 1
        if POISON in headers_of(message):
            self._unusable.add(at)
            return
        record = json.loads(message.value() or b"")
        trace_id = record.get("trace_id", "")
        event_id = record.get("event_id") or (trace_id if "unknown" in trace_id else f"e{int(trace_id, 16)}")
        giver, time_ms = record["giver"], min(record.get("time", received_ms), received_ms)
        hashed = None if giver is None else hmac.new(KEY.encode(), giver.encode(), sha256).hexdigest()[:16]
        given = _Given(event_id, record["name"], record["value"], hashed, time_ms, received_ms)
        self._given[at] = self._open[at] = given

    def _settled(self, record: Mapping[str, Any]) -> Position:
        at = record["source"]["partition"], record["source"]["offset"]
        self._open.pop(at, None)
        return at

    def evaluation(self, evaluation: Mapping[str, Any], written_ms: int) -> None:
        """Take an evaluation."""
        answer = _Answer(written_ms, evaluation["event_time"], evaluation["application"])
        self.answers.setdefault(evaluation["event_id"], answer)

    # Expecting.

    def complete(self) -> bool:
        """Return True if all is read, feedback whose answer was evaluated is joined, and anchors are judged."""
        if self.read == self.sent() and time.monotonic() > self._asked_at + _EVERY_S:
            self._asked_at = time.monotonic()
            late = any(each.event_id in self.answers for each in tuple(self._open.values()))
            self._is_complete = (
                self.anchors.is_complete and not late and self._expected_newest() == self._newest_joined()
            )
        return self._is_complete

    @property
    def progress(self) -> int:
        """A value that changes whenever there is new output."""
        return len(self._given) - len(self._open) + len(self._joined)

    def _must_match(self, given: _Given) -> bool:
        answer = self.answers.get(given.event_id)
        return answer is not None and answer.written_ms - given.received_ms < (GRACE_S - _MARGIN_S) * _MS

    def _expected_newest(self) -> dict[Person, Position]:
        """Return the newest of the feedback that was keyed, by answer, name and giver."""
        newest: dict[Person, tuple[int, int, Position]] = {}
        for at in tuple(self._keyed):
            if (given := self._given.get(at)) is not None:
                order, person = (given.time_ms, given.received_ms, at), (given.event_id, given.name, given.giver)
                newest[person] = max(order, newest.get(person, order))
        return {person: at for person, (_, _, at) in newest.items()}

    def _newest_joined(self) -> dict[Person, Position]:
        return {
            (each["event_id"], each["name"], each["giver"]): (each["source"]["partition"], each["source"]["offset"])
            for each in tuple(self._joined.values())
        }

    # Comparing.

    def compare(self, findings: Findings) -> None:
        """Add the defects of feedback, of what is joined, and of its windows."""
        self._compare_given(findings)
        self._compare_joined(findings)
        self._compare_windows(findings)
        self.anchors.compare(findings.of("anchors"))

    def _compare_given(self, findings: Findings) -> None:
        found = findings.of("feedback")
        found.expected, waits = self.read, self._positions_waiting()
        for at, given in self._given.items():
            classes, keyed = self._unmatched.get(at, []), self._keyed[at]
            found.found += bool(keyed or classes or at in waits)
            if keyed + len(classes) + (at in waits) > 1:
                found.add("duplicated", f"{at}: keyed {keyed} times, unmatched as {classes}, waiting: {at in waits}")
            elif keyed and given.event_id not in self.answers:
                found.add("wrong", f"{at} is keyed, and {given.event_id} was not evaluated")
            elif at in waits and given.event_id in self.answers:
                found.add("lost", f"{at} waits for {given.event_id}, which was evaluated")
            elif not keyed and at not in waits and (self._must_match(given) or classes != ["crowded"]):
                found.add("lost", f"{at} on {given.event_id} is not keyed, but unmatched as {classes}")
        for at in self._unusable:
            found.found += 1
            if len(self._unmatched.get(at, [])) != 1 or self._keyed[at]:
                found.add("wrong", f"{at} is no feedback: keyed {self._keyed[at]} times, {self._unmatched.get(at)}")
        for at in {*self._keyed, *self._unmatched} - self._given.keys() - self._unusable:
            found.add("wrong", f"{at} was never given")

    def _positions_waiting(self) -> set[Position]:
        held = (json.loads(value)["source"] for value in self._waiting.values() if value)
        return {(source["partition"], source["offset"]) for source in held}

    def _compare_joined(self, findings: Findings) -> None:
        found, expected = findings.of("joined feedback"), self._expected_newest()
        got = {(each["event_id"], each["name"], each["giver"]): each for each in self._joined.values()}
        found.expected, found.found = len(expected), len(got)
        for person, at in expected.items():
            given, answer, joined = self._given[at], self.answers.get(person[0]), got.get(person)
            if joined is None:
                found.add("lost", f"{person} of {at}")
                continue
            source = joined["source"]["partition"], joined["source"]["offset"]
            said = source, joined["value"], joined["event_time"], joined["dimensions"]
            wanted = at, given.value, answer and answer.event_time, {"application": answer and answer.application}
            if said != wanted:
                found.add("wrong", f"{person} is {said}, not {wanted}")
        for person in got.keys() - expected.keys():
            found.add("wrong", f"{person} was not keyed")

    def _compare_windows(self, findings: Findings) -> None:
        found = findings.of("feedback windows")
        expected: Counter[tuple[str, str, str, str]] = Counter()
        for (event_id, name, _), at in self._expected_newest().items():
            value, answer = self._given[at].value, self.answers.get(event_id)
            if value is not None and answer is not None:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                expected[_hour(answer.event_time), answer.application, name, text] += 1
        got: Counter[tuple[str, str, str, str]] = Counter()
        for window in self._windows.values():
            for name, values in window["categories"].items():
                for text, number in values.items():
                    got[_hour(window["start"]), window["dimensions"]["application"], name, text] += number
        found.expected, found.found = expected.total(), got.total()
        for key in sorted(expected.keys() | got.keys()):
            if expected[key] != got[key]:
                found.add("wrong", f"{key} is counted {got[key]} times, not {expected[key]}")

    def facts(self) -> dict[str, int]:
        """Return numbers of feedback."""
        classes = Counter(each for classes in self._unmatched.values() for each in classes)
        return {
            "records": self.read,
            "keyed": self._keyed.total(),
            "waiting": len(self._positions_waiting()),
            "joined": len(self._joined),
            **{f"unmatched_{name}": number for name, number in sorted(classes.items())},
        }


def _hour(text: str) -> str:
    at = datetime.fromisoformat(text).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H}"
