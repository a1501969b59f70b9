"""Decoders: a record holds any number of events, and each of them stands for itself whatever happens to the others."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from arrays import ArrayDecoder, array
from conftest import SharedBroker, produce, read_to_end
from faults import BEHIND, Traffic, environment, set_offset
from hypothesis import given
from hypothesis import strategies as st
from services import Service, Services, eventually
from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.metrics.catalogue import Catalogue, Scored
from ragweir.metrics.scores.performance import METRICS
from ragweir.metrics.view import View
from ragweir.schemas.codec.decoder import MAX_EVENTS, Decoder, JsonDecoder
from ragweir.schemas.codec.json import encode
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation, Source
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.dead_letters.letters import Letter
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.loop.drive import drive
from ragweir.streams.runtime.records import EventPosition, Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

PLACE = ("t", 0)
HORIZON = 20
MAP = FieldMap.parse('event_id = "id"\nquery = "q"\nresponse = "a"')

# Two processes of a worker that reads arrays. The first kills itself once, with the outputs and offsets of its first
# transaction on the broker and only the commit missing.
WORKER = """
import os, signal, sys
from arrays import ArrayDecoder
from ragweir.streams.services.evaluate import agent as evaluate
from ragweir.streams.commands import main
from ragweir.streams.runtime.loop import kafka_runtime

dies = sys.argv.pop(1) == "dies"
evaluate.JsonDecoder = lambda *_: ArrayDecoder()

class Dying(kafka_runtime.Transactions):
    writes = False

    def write(self, emissions):
        self.writes = self.writes or bool(emissions)
        super().write(emissions)

    def _retry(self, step):
        if dies and step == self._producer.commit_transaction and self.writes:
            self._producer.flush(10)
            os.kill(os.getpid(), signal.SIGKILL)
        super()._retry(step)

kafka_runtime.Transactions = Dying
main()
"""


class Failing(Catalogue):
    """Cannot score an event whose id says so."""

    @override
    def score(self, view: View) -> Scored:
        if view.interaction.event_id.startswith("boom"):
            raise ZeroDivisionError
        return super().score(view)


def agent(horizon: int = 0, catalogue: type[Catalogue] = Catalogue) -> EvaluateAgent:
    decoders = {"t": ArrayDecoder()}
    return EvaluateAgent(EvaluateConfig(catalogue(METRICS), decoders=decoders, duplicate_horizon=horizon))


def record(offset: int, *event_ids: str | None) -> Record:
    return Record(*PLACE, offset, b"key", array(*event_ids), None)


def evaluated(outcome: Outcome) -> list[tuple[int, int, str]]:
    """Where the events were read that were evaluated, and their ids."""
    values = [json.loads(each.value or b"") for each in outcome.emissions if each.topic == "evaluations"]
    return [(value["source"]["offset"], value["source"].get("index", 0), value["event_id"]) for value in values]


def letters(outcome: Outcome) -> list[DeadLetter]:
    return [DeadLetter.from_headers(each.headers) for each in outcome.emissions if each.topic == "dead-letter"]


# The contract.


class Raising(ArrayDecoder):
    """Fails behind the events of a record."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @override
    def events(self, value: bytes | None) -> Iterator[Interaction | Rejected]:
        yield from super().events(value)
        raise self.error


class BrokenMap(FieldMap):
    """Fails for every event."""

    @override
    def __call__(self, data: object, row: int | None = None) -> dict[str, Any]:
        raise ValueError("secret")


class Endless(Decoder):
    """Finds more and more."""

    @override
    def events(self, value: bytes | None) -> Iterable[Rejected]:
        return (Rejected("invalid", str(number)) for number in count())


DECODERS = (
    JsonDecoder(),
    JsonDecoder(mapping=MAP),
    JsonDecoder(mapping=BrokenMap({"event_id": "a", "query": "b", "response": "c"})),
    ArrayDecoder(),
    Raising(ValueError("secret")),
    Raising(Rejected("not_json", "no more")),
    Endless(),
)


def said(found: Iterable[Interaction | Rejected]) -> list[bytes | tuple[str, str]]:
    """What comes of a record, in a form that can be compared."""
    return [(each.error_class, each.message) if isinstance(each, Rejected) else encode(each) for each in found]


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: type(decoder).__name__)
@given(
    st.none() | st.binary() | st.sampled_from([array("a", None, "b"), array(), b'{"id": 1, "q": "", "a": ""}', b"{}"])
)
def test_every_decoder_holds_the_contract(decoder: Decoder, value: bytes | None) -> None:
    """Whatever the bytes are: only events and rejections, no more than so many, and the same ones again."""
    found = said(decoder.decode(value))
    assert len(found) <= MAX_EVENTS + 1
    assert "secret" not in repr(found)
    assert said(decoder.decode(value)) == found


def test_what_was_read_before_an_error_stands() -> None:
    (first, second, last) = Raising(ValueError("secret")).decode(array("a", None))
    assert isinstance(first, Interaction)
    assert isinstance(second, Rejected)
    assert isinstance(last, Rejected)
    assert (last.error_class, last.message) == ("unreadable", "decoding raised ValueError")
    *_, last = Raising(Rejected("not_json", "no more")).decode(array("a"))
    assert said([last]) == [("not_json", "no more")]


def test_no_more_events_are_read_than_one_transaction_can_take() -> None:
    ids = [f"e{number}" for number in range(MAX_EVENTS + 2)]
    *found, last = ArrayDecoder().decode(array(*ids))
    assert [event.event_id for event in found if isinstance(event, Interaction)] == ids[:MAX_EVENTS]
    assert isinstance(last, Rejected)
    assert last.error_class == "too_large"
    assert len(list(ArrayDecoder().decode(array(*ids[:MAX_EVENTS])))) == MAX_EVENTS


def test_running_out_of_memory_is_no_reason_to_reject_a_record() -> None:
    with pytest.raises(MemoryError):
        list(Raising(MemoryError()).decode(array("a")))


# The agent.


def test_the_events_of_a_record_are_settled_in_their_order_each_with_its_index() -> None:
    own = agent()
    records = [record(7, "a", None, "b", None), record(8, None, "c"), record(9, "d")]
    outcome = own.handle(records)
    assert [each.topic for each in outcome.emissions] == [
        *("evaluations", "dead-letter", "evaluations", "dead-letter"),
        *("dead-letter", "evaluations"),
        "evaluations",
    ]
    assert evaluated(outcome) == [(7, 0, "a"), (7, 2, "b"), (8, 1, "c"), (9, 0, "d")]
    assert [(each.source_offset, each.source_index) for each in letters(outcome)] == [(7, 1), (7, 3), (8, None)]
    assert outcome.settled == records
    assert outcome.counts["ragweir_events_in_total",] == 3
    assert outcome.counts["ragweir_evaluations_total", "scored"] == 4
    assert outcome.counts["ragweir_dead_letters_total", "invalid"] == 3
    identities = [dict(each.headers)["ce_id"] for each in outcome.emissions]
    assert len(set(identities)) == len(identities)


def test_an_index_of_0_is_written_nowhere() -> None:
    """The one event of a record, and the first of several, have the bytes that they always had."""
    first, letter = agent().handle([record(7, "a"), record(8, None)]).emissions
    assert b'"source":{"topic":"t","partition":0,"offset":7},' in (first.value or b"")
    assert b"index" not in (first.value or b"")
    assert dict(letter.headers)["ce_id"] == b"t/0/8"
    assert not any("index" in name for name, _ in letter.headers)


def test_an_index_is_written_and_read_back() -> None:
    source = Source(topic="t", partition=0, offset=7, index=3)
    assert encode(source) == b'{"topic":"t","partition":0,"offset":7,"index":3}'
    _, second = agent().handle([record(7, "a", "b")]).emissions
    read = Evaluation.model_validate_json(second.value or b"")
    assert read.source == Source(topic="t", partition=0, offset=7, index=1)
    assert encode(read) == second.value


def test_the_bytes_of_a_record_are_kept_once() -> None:
    """A record of so many wrong events must not become so many times its size in dead letters."""
    outcome = agent().handle([record(7, "a", *[None] * 100)])
    value = array("a", *[None] * 100)
    kept = [each for each in outcome.emissions if each.topic == "dead-letter"]
    assert [each.value for each in kept] == [value, *[b""] * 99]
    assert [each.length for each in letters(outcome)] == [None, *[len(value)] * 99]
    assert {each.key for each in kept} == {b"key"}


def test_a_record_without_events_is_settled_and_only_counted_as_read() -> None:
    outcome = agent().handle([record(7), record(8, "a"), record(9)])
    assert evaluated(outcome) == [(8, 0, "a")]
    assert len(outcome.emissions) == 1
    assert outcome.counts["ragweir_events_in_total",] == len(outcome.settled) == 3


def test_an_event_that_cannot_be_evaluated_takes_no_other_with_it() -> None:
    outcome = agent(catalogue=Failing).handle([record(7, "a", "boom-1", "b", "boom-2")])
    assert evaluated(outcome) == [(7, 0, "a"), (7, 2, "b")]
    assert [(each.source_index, each.error_class, each.message) for each in letters(outcome)] == [
        (1, "unreadable", "evaluating raised ZeroDivisionError"),
        (3, "unreadable", "evaluating raised ZeroDivisionError"),
    ]


def test_a_dead_letter_for_one_event_of_several_is_not_sent_again() -> None:
    """Sent again as a whole, the record would have its other events evaluated twice."""
    outcome = agent().handle([record(7, "a", None), record(8, None)])
    found = [
        Letter(
            Record("d", 0, 0, None, each.value, 0, each.headers),
            DeadLetter.from_headers(each.headers),
            "evaluate",
        )
        for each in outcome.emissions
        if each.topic == "dead-letter"
    ]
    assert [each.redrivable for each in found] == [False, True]


# Duplicates.


def expected(ids: dict[EventPosition, str]) -> list[tuple[int, int, str]]:
    """By the rule itself: the events of which none with the same id stands before them, within the horizon."""
    last: dict[str, int] = {}
    found = []
    for (offset, index), event_id in ids.items():
        if offset - last.get(event_id, -HORIZON - 1) > HORIZON:
            found.append((offset, index, event_id))
        last[event_id] = offset
    return found


def traffic(chance: random.Random) -> tuple[list[Record], dict[EventPosition, str]]:
    """Records of no, one or several events, some of which cannot be read, and the ids of the others."""
    offset, records, ids = 0, [], {}
    for _ in range(150):
        offset += chance.choice((1, 1, 1, 2, 5))
        events = [f"e{chance.randrange(60)}" if chance.random() < 0.8 else None for _ in range(chance.randrange(5))]
        records.append(record(offset, *events))
        ids |= {(offset, index): event_id for index, event_id in enumerate(events) if event_id is not None}
    return records, ids


@pytest.mark.parametrize("seed", range(20))
def test_what_is_evaluated_follows_from_positions_alone_whatever_aborts_and_restarts_there_are(seed: int) -> None:
    chance = random.Random(seed)
    records, ids = traffic(chance)
    own, at, found = agent(HORIZON), 0, []
    while at < len(records):
        start = records[at - 1].offset + 1 if at else 0
        if chance.random() < 0.2:  # Another process takes over. It is given what stands before, and no more than that.
            own = agent(HORIZON)
            before: Sequence[Record] = [each for each in records[:at] if each.offset >= start - HORIZON]
            own.on_assigned(Assignment(PLACE, start, start, preceding=before))
        batch = records[at : at + chance.randrange(1, 20)]
        outcome = own.handle(batch)
        if chance.random() < 0.7:
            own.on_commit()
            at += len(batch)
            found += evaluated(outcome)
        else:
            own.on_abort()
    assert found == expected(ids)
    within = [offset for offset, index in ids if (offset, index) not in {each[:2] for each in found}]
    assert len(found) < len(ids)
    assert within, "nothing was tried"


def test_the_second_of_one_id_in_a_record_is_a_duplicate_and_the_first_never_of_itself() -> None:
    own, one = agent(HORIZON), record(7, "a", "b", "a")
    for _ in range(2):
        outcome = own.handle([one])
        assert evaluated(outcome) == [(7, 0, "a"), (7, 1, "b")]
        assert outcome.counts["ragweir_duplicates_total",] == 1
        own.on_abort()
    other = agent(HORIZON)
    other.on_assigned(Assignment(PLACE, 7, 7, preceding=[]))
    assert evaluated(other.handle([one])) == [(7, 0, "a"), (7, 1, "b")]


def test_every_event_of_a_record_that_the_broker_rejects_still_occurred() -> None:
    own = agent(HORIZON)
    own.dead_letter(record(7, "a", None, "b"), "too large")
    own.on_commit()
    assert evaluated(own.handle([record(8, "a", "b", "c")])) == [(8, 2, "c")]


# Offset recovery.


def test_an_evaluation_tells_which_event_of_which_record_it_was_made_of() -> None:
    own, one = agent(), record(7, "a", None, "b")
    told = [
        event[:3]
        for each in own.handle([one]).emissions
        for event in own.recovery.origins(Record("e", 0, 0, None, each.value, 0))
    ]
    assert told == [(PLACE, (7, 0), "a"), (PLACE, (7, 2), "b")]
    assert list(own.recovery.identities(one)) == [((7, 0), "a"), ((7, 2), "b")]


# The runtimes.


def test_a_file_is_read_as_a_topic_is() -> None:
    lines = [array("a", None, "b"), array(), array("b", "c")]
    own = agent(HORIZON)
    run = drive(own, enumerate(lines, 1), "t")
    found = [each for _, outcome in run for each in evaluated(outcome)]
    assert found == [(1, 0, "a"), (1, 2, "b"), (3, 1, "c")]


@pytest.mark.heavy
def test_a_worker_that_dies_in_a_transaction_settles_each_event_of_each_record_once(
    kafka: SharedBroker, prefix: str, services: Services
) -> None:
    """On a real Kafka; then the group's offset is set back, and the evaluations tell where to go on."""
    streams = Traffic(kafka.bootstrap, prefix, partitions=1)
    values, events, wrong = [], {}, []
    for offset in range(60):
        # In the middle of each fifth record stands an id for the second time; nothing is in each seventh.
        ids: list[str | None] = [None, f"{offset}-1", f"{offset}-2", None, f"{offset}-4"][: 0 if offset % 7 == 3 else 5]
        if ids and offset % 5 == 0:
            ids[2] = ids[1]
        values.append(array(*ids))
        wrong += [(offset, index) for index, each in enumerate(ids) if each is None]
        events |= {(offset, ids.index(each)): each for each in ids if each is not None}
    chosen = environment(streams, batch__max_events="7", input__duplicate_horizon="100") | {
        "PYTHONPATH": str(Path(__file__).parents[1])
    }

    def started(how: str) -> Service:
        return services.start("evaluate", "--slot", "0", before=("-c", WORKER, how), variables=chosen)

    def settled() -> None:
        found = [json.loads(each.value()) for each in read_to_end(kafka.bootstrap, f"{prefix}evaluations")]
        places = [((each["source"]["offset"], each["source"].get("index", 0)), each["event_id"]) for each in found]
        assert sorted(places) == sorted(events.items())
        headers = [dict(each.headers()) for each in read_to_end(kafka.bootstrap, f"{prefix}dead-letter")]
        said = [DeadLetter.from_headers(each.items()) for each in headers]
        assert sorted((each.source_offset, each.source_index or 0) for each in said) == sorted(wrong)

    produce(kafka.bootstrap, streams.topic, values, partition=0)
    streams.published[0] = len(values)
    assert started("dies").ended() < 0
    assert read_to_end(kafka.bootstrap, f"{prefix}evaluations", "read_uncommitted"), "it died too early"
    worker = started("lives")
    streams.settled()
    assert worker.stop() == 0
    settled()
    set_offset(kafka.bootstrap, f"{prefix}evaluate", streams.topic, 0, 11)
    worker = started("lives")
    (told,) = eventually(lambda: worker.logged(BEHIND, level="error"), "it goes on behind what is written")
    # The last record holds no event, so that no output tells of it, but the progress group does.
    assert (told["committed"], told["goes_on_at"]) == (11, len(values))
    produce(kafka.bootstrap, streams.topic, [array("last")], partition=0)
    streams.published[0] += 1
    events[len(values), 0] = "last"
    streams.settled()
    assert worker.stop() == 0
    settled()


def test_an_event_without_a_time_is_given_the_default_one_and_flagged() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    record = Record("t", 0, 1, None, b'{"event_id": "1", "query": "q", "response": "r"}', None)
    config = EvaluateConfig(Catalogue([]), default_time=when)
    [(event, time)] = EvaluateAgent(config).read(record)
    assert (time, event.flags) == (when, ("time_defaulted",))
    [rejected] = EvaluateAgent(replace(config, default_time=None)).read(record)
    assert rejected.error_class == "no_time"
