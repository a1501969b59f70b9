"""Duplicates: an id that occurred shortly before on the same partition is evaluated once, whatever crashes."""

import json
import os
import random
import signal
from collections.abc import Iterator, Mapping, Sequence

import pytest
from conftest import SharedBroker, produce, read_to_end
from faults import Traffic, environment
from services import Services, eventually

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.scores.performance import METRICS
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

PLACE = ("t", 0)
HORIZON = 20


def agent(horizon: int = HORIZON) -> EvaluateAgent:
    return EvaluateAgent(EvaluateConfig(Catalogue(METRICS), duplicate_horizon=horizon))


def event(event_id: str) -> bytes:
    return json.dumps({"event_id": event_id, "query": "q", "response": "r", "ended_at": 1_700_000_000_000}).encode()


def evaluated(outcome: Outcome) -> list[int]:
    """The offsets of what was evaluated."""
    values = [json.loads(each.value or b"") for each in outcome.emissions if each.topic == "evaluations"]
    return [value["source"]["offset"] for value in values]


def expected(ids: Mapping[int, str], horizon: int = HORIZON) -> list[int]:
    """By the rule itself: the offsets of which no readable record with the same id stands within the horizon before."""
    last: dict[str, int] = {}
    found = []
    for offset, event_id in ids.items():
        if offset - last.get(event_id, -horizon - 1) > horizon:
            found.append(offset)
        last[event_id] = offset
    return found


def traffic(chance: random.Random) -> tuple[list[Record], dict[int, str]]:
    """Records with gaps in their offsets, some of them unreadable, and the ids of the others."""
    offset, records, ids = 0, [], {}
    for _ in range(300):
        offset += chance.choice((1, 1, 1, 2, 5))
        value = b"{}"
        if chance.random() < 0.9:
            ids[offset] = f"e{chance.randrange(30)}"
            value = event(ids[offset])
        records.append(Record(*PLACE, offset, None, value, None))
    return records, ids


def never() -> Iterator[Record]:
    """Records that nobody may read."""
    pytest.fail("what stands before is read")
    yield


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(2, 20))])
def test_what_is_evaluated_follows_from_places_alone_whatever_aborts_and_restarts_there_are(seed: int) -> None:
    chance = random.Random(seed)
    records, ids = traffic(chance)
    own, at, found = agent(), 0, []
    while at < len(records):
        start, fate = records[at - 1].offset + 1 if at else 0, chance.random()
        if fate < 0.2:  # Another process takes over. It is given what stands before, and no more than that.
            own = agent()
            before: Sequence[Record] = [each for each in records[:at] if each.offset >= start - HORIZON]
            own.on_assigned(Assignment(PLACE, start, start, preceding=iter(before)))
        elif fate < 0.3:  # The partition goes before its records were handled, and comes back at once.
            own.on_revoked([PLACE])
            own.on_assigned(Assignment(PLACE, start, start, preceding=never() if at else iter(())))
        batch = records[at : at + chance.randrange(1, 40)]
        outcome, cut = Outcome(), chance.randrange(len(batch) + 1)
        for part in (batch[:cut], batch[cut:]):  # Under a backlog a transaction has several batches.
            outcome.extend(own.handle(part))
        committed = chance.random() < 0.7
        own.on_commit() if committed else own.on_abort()
        if committed:
            at += len(batch)
            found += evaluated(outcome)
            missing = [each.offset for each in batch if each.offset in ids and each.offset not in evaluated(outcome)]
            assert outcome.counts["ragweir_duplicates_total",] == len(missing)
    assert found == expected(ids)
    assert len(found) < len(ids), "nothing was tried"


def test_a_batch_that_was_aborted_is_not_remembered_when_its_partition_comes_back() -> None:
    own, first = agent(), Record(*PLACE, 5, None, event("a"), None)
    own.handle([first])
    own.on_abort()
    own.on_revoked([PLACE])
    own.on_assigned(
        Assignment(PLACE, 6, 6, preceding=iter([first]))
    )  # Meanwhile another worker has committed that same record.
    assert evaluated(own.handle([Record(*PLACE, 6, None, event("a"), None)])) == []


def test_an_id_counts_up_to_the_horizon_and_on_its_own_partition_only() -> None:
    places = [("t", 0, 0), ("t", 0, HORIZON), ("t", 0, 2 * HORIZON + 1), ("t", 1, 3), ("u", 0, 3)]
    own = agent()
    found = [evaluated(own.handle([Record(*place, None, event("a"), None)])) for place in places]
    assert [bool(each) for each in found] == [True, False, True, True, True]


def test_a_record_that_is_rejected_by_the_broker_still_occurred() -> None:
    own = agent()
    own.dead_letter(Record(*PLACE, 0, None, event("a"), None), "too large")
    own.on_commit()
    assert evaluated(own.handle([Record(*PLACE, 1, None, event("a"), None)])) == []


def test_without_a_horizon_nothing_is_a_duplicate() -> None:
    records = [Record(*PLACE, offset, None, event("a"), None) for offset in range(3)]
    assert evaluated(agent(0).handle(records)) == [0, 1, 2]


def test_memory_is_bounded_by_the_horizon() -> None:
    own = agent()
    for offset in range(10 * HORIZON):
        own.handle([Record(*PLACE, offset, None, event(f"e{offset}"), None)])
        own.on_commit()
    (ids,) = own._duplicates._partitions.values()
    assert len(ids.ids) <= HORIZON
    assert not ids.pending


@pytest.mark.heavy
def test_kills_change_nothing_about_which_events_are_evaluated(
    kafka: SharedBroker, prefix: str, services: Services
) -> None:
    """On a real Kafka, with a worker that is killed again and again and has to read back what stood before."""
    chance, horizon = random.Random(7), 60
    streams = Traffic(kafka.bootstrap, prefix, partitions=2)
    ids: dict[int, dict[int, str]] = {}
    for partition in (0, 1):
        ids[partition] = {offset: f"e{chance.randrange(200)}" for offset in range(600)}
        produce(kafka.bootstrap, streams.topic, [event(each) for each in ids[partition].values()], partition=partition)
        streams.published[partition] = 600
    chosen = environment(streams, input__duplicate_horizon=str(horizon), batch__max_events="10")
    service = services.start("evaluate", "--workers", "1", variables=chosen)
    for left in (1_000, 700, 400, 100):
        eventually(lambda left=left: streams.left() <= left, f"{left} are left")
        os.kill(killed := service.pid(0), signal.SIGKILL)
        eventually(lambda killed=killed: service.pid(0) != killed, "it was started again")
    streams.settled()
    found: dict[int, list[int]] = {0: [], 1: []}
    for message in read_to_end(kafka.bootstrap, f"{prefix}evaluations"):
        source = json.loads(message.value())["source"]
        found[source["partition"]].append(source["offset"])
    assert {partition: sorted(each) for partition, each in found.items()} == {
        partition: expected(each, horizon) for partition, each in ids.items()
    }
