"""The rows of topic `documents` as they have to be: one of each stage for each evaluation, with its time and verdict.

The format and the verdicts are the documented ones, with no code of the product.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import Message

from chaos.findings import Findings
from chaos.oracle import EVALUATED, Oracle
from chaos.tally import Source, Tally

SCORED, JUDGED = "scored", "judged"
_BAD, _GOOD, _UNANSWERED, _UNDEFINED, _NOT_SELECTED = range(5)
_VERDICTS = 5
_COLUMNS = ("offset", "q"), ("index", "I"), ("time", "q"), ("verdict", "B")
"""The columns that are compared, with the types of arrays of their numbers."""
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_FOREIGN = -1
"""The content of a row that no event has."""


class Bound(NamedTuple):
    """The bound of a metric that divides good from bad events."""

    metric: str
    bound: float
    higher_is_better: bool

    def is_bad(self, value: float) -> bool:
        """Return whether a value is on the bad side; the bound itself is on the good one."""
        return value < self.bound if self.higher_is_better else value > self.bound


BOUNDS: Mapping[str, Bound] = MappingProxyType(
    {
        SCORED: Bound("total_latency_ms", 443.0, higher_is_better=False),
        JUDGED: Bound("judge_relevance", 0.5, higher_is_better=True),
    }
)
"""The metric by which the rows of each stage are compared; there are verdicts on others as well."""
SUITE = "rubric"
"""The suite of the judged metric."""
ROWS: Mapping[str, object] = MappingProxyType(
    {
        "blame__enabled": True,
        "slo": [
            {
                "name": stage,
                "metric": own.metric,
                "at_least" if own.higher_is_better else "at_most": own.bound,
                "objective": 0.9,
            }
            for stage, own in BOUNDS.items()
        ],
    }
)
"""Settings by which the services write rows."""


class DocumentRowChecker:
    """Collects the rows and the evaluations, and compares them once all are read.

    Args:
        findings: receives the defects.
        oracle: the oracle of the evaluations.
        topic: the full name of the topic of the interactions.
    """

    def __init__(self, findings: Findings, oracle: Oracle, topic: str) -> None:
        self._findings, self._oracle, self._topic = findings, oracle, topic
        self._rows = {stage: Tally(findings.of(_named(stage)), ordered=stage == SCORED) for stage in BOUNDS}
        self._expected: dict[str, defaultdict[int, array[int]]] = {
            stage: defaultdict(lambda: array("q")) for stage in BOUNDS
        }
        """The content that the row of each source has to have."""

    def evaluation(self, source: Source, evaluation: Mapping[str, Any]) -> None:
        """Add an evaluation, whose row has to have its time and verdict."""
        log, offset = source
        expected = self._expected[evaluation["stage"]][log]
        expected.extend([_FOREIGN] * (offset + 1 - len(expected)))
        time_us = (datetime.fromisoformat(evaluation["event_time"]) - _EPOCH) // _MICROSECOND
        expected[offset] = _content(time_us, _verdict(evaluation))

    def read(self, message: Message) -> None:
        """Add a record of rows."""
        record = json.loads(message.value() or b"")
        stage, partition, rows = record["stage"], record["partition"], record["rows"]
        found, columns, own = self._findings.of(_named(stage)), record["columns"], BOUNDS[stage]
        offset, index, time, verdicts = (_numbers(columns[name], kind) for name, kind in _COLUMNS)
        criteria = [(each["metric"], each["threshold"], each["higher_is_better"]) for each in record["criteria"]]
        if (
            json.loads(message.key() or b"null") != [self._topic, partition]
            or record["topic"] != self._topic
            or own not in criteria
            or {len(offset), len(index), len(time), len(verdicts) // len(criteria)} != {rows}
        ):
            found.add("wrong", f"record {message.partition()}/{message.offset()} is of something else")
            return
        verdict = verdicts[criteria.index(own) :: len(criteria)]
        tally, to = self._rows[stage], message.partition() or 0
        for at, part, time_us, each in zip(offset, index, time, verdict, strict=True):
            log = self._log_of(partition, at, time_us)
            tally.add((log, at), to, _content(time_us, each) if part == 0 else _FOREIGN)

    def _log_of(self, partition: int, offset: int, time_us: int) -> int:
        """Return the log of a row's event.

        If several topics were created one after the other, it is the one whose event at this offset has this time.
        All of a topic is evaluated before it is deleted, but some of it may be judged after it.
        """
        newest, *older = self._oracle.logs_of(partition)
        for log in older:
            expected = self._expected[SCORED][log]
            if offset < len(expected) and expected[offset] // _VERDICTS == time_us:
                return log
        return newest

    @property
    def progress(self) -> int:
        """The number of events with rows, of each stage."""
        return sum(each.distinct for each in self._rows.values())

    def complete(self, scored: int, judged: int) -> bool:
        """Return whether so many events have a row of either stage."""
        return self._rows[SCORED].distinct >= scored and self._rows[JUDGED].distinct >= judged

    def compare(self) -> None:
        """Add the defects of the rows of evaluate."""
        self._compare(SCORED, partial(self._oracle.expect, EVALUATED))

    def compare_judged(self, deferred: Collection[Source]) -> None:
        """Add the defects of the rows of the judge, which has none for events that wait for another day's budget."""
        self._compare(JUDGED, partial(self._oracle.expect_judged, deferred=deferred))

    def _compare(self, stage: str, wanted: Callable[[int], Any]) -> None:
        def expected(log: int) -> Any:
            contents = self._expected[stage][log]
            for offset, (is_wanted, _) in enumerate(wanted(log)):
                yield is_wanted, contents[offset] if offset < len(contents) else _FOREIGN

        self._rows[stage].compare(expected, list(self._oracle.logs))


def _named(stage: str) -> str:
    return "rows of documents" if stage == SCORED else "judged rows of documents"


def _numbers(column: str, kind: str) -> array[int]:
    found: array[int] = array(kind)
    found.frombytes(b64decode(column))
    return found


def _content(time_us: int, verdict: int) -> int:
    """Return what a row says of its event, as one number."""
    return time_us * _VERDICTS + verdict


def _verdict(evaluation: Mapping[str, Any]) -> int:
    own = BOUNDS[evaluation["stage"]]
    value = evaluation["scores"].get(own.metric)
    if evaluation["stage"] == SCORED:
        return _UNDEFINED if value is None else _BAD if own.is_bad(value) else _GOOD
    status = {each["suite"]: each["status"] for each in evaluation["decision"]["suites"]}.get(SUITE, "not_selected")
    if status == "not_selected":
        return _NOT_SELECTED
    if value is not None and status == "judged":
        return _BAD if own.is_bad(value) else _GOOD
    return _UNDEFINED if own.metric in evaluation.get("undefined", ()) else _UNANSWERED
