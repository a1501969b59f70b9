"""Schemas are asked for in the background: found, missing, or waited for while the registry is away."""

import threading
import time

import pytest
from services import until

from ragweir.errors import Interrupted, PermanentError, RegistryUnavailable, RegistryUnusable, Rejected
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.registry.decoder import RegistryDecoder
from ragweir.schemas.registry.schema import Read, Schema
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.registry import schemas as module
from ragweir.streams.runtime.registry.client import SchemaNotFound
from ragweir.streams.runtime.registry.schemas import RegistrySchemas
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig


def made(_: int, schema: Schema) -> Read:
    return lambda data: (schema.text, data)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.001)


def test_a_schema_is_asked_for_once() -> None:
    asked: list[int] = []

    def fetch(schema_id: int) -> Schema:
        asked.append(schema_id)
        return Schema("AVRO", str(schema_id))

    schemas = RegistrySchemas(fetch, made)
    assert not schemas.ready(7)
    until(lambda: schemas.ready(7))
    read = schemas.reader(7)
    assert not isinstance(read, Rejected)
    assert read(b"a") == ("7", b"a")
    assert schemas.reader(8)
    assert asked == [7, 8]


@pytest.mark.slow
def test_a_worker_that_waits_for_the_registry_is_alive_and_stops_when_told() -> None:
    """As when it is assigned a partition, and reads the records before its start."""

    is_away = True

    def fetch(schema_id: int) -> Schema:
        if is_away:
            raise RegistryUnavailable("away")
        return Schema("AVRO", str(schema_id))

    beats = 0

    def stopped() -> bool:
        nonlocal beats
        beats += 1
        return beats == 3

    schemas = RegistrySchemas(fetch, made)
    decoder = RegistryDecoder(schemas)
    decoder.start(stopped)
    with pytest.raises(Interrupted):
        list(decoder.decode(b"\0\0\0\0\7abc"))
    assert beats == 3
    # The thread that asks would log in the middle of other tests.
    is_away = False
    until(lambda: not schemas._asked)


@pytest.mark.slow
def test_a_missing_schema_is_asked_for_half_a_minute_and_then_unknown_for_ten() -> None:
    now_s, asked = 0.0, 0

    def fetch(_: int) -> Schema:
        nonlocal asked
        asked += 1
        raise SchemaNotFound

    schemas = RegistrySchemas(fetch, made, lambda: now_s)
    assert not schemas.ready(7)
    until(lambda: asked)
    while now_s < 29.5:
        now_s += 0.5
        with schemas._changed:
            schemas._changed.notify_all()
        time.sleep(0.01)
        assert not schemas.ready(7)
    # Not every time that it might be.
    assert 3 < asked < 12
    now_s = 30.1
    with schemas._changed:
        schemas._changed.notify_all()
    until(lambda: schemas.ready(7))
    rejected = schemas.reader(7)
    assert isinstance(rejected, Rejected)
    assert str(rejected) == "schema 7 is not in the registry"
    before = asked
    now_s = 89.0
    assert schemas.ready(7)
    assert asked == before
    # It may be registered meanwhile, which no record waits for.
    now_s = 91.0
    assert schemas.ready(7)
    until(lambda: asked > before and not schemas._asked)
    assert schemas.ready(7)
    now_s += 601.0
    assert not schemas.ready(7)


def test_a_registry_that_is_away_is_waited_for() -> None:
    now_s, away = 0.0, True

    def fetch(schema_id: int) -> Schema:
        if away:
            raise RegistryUnavailable("it answers 503")
        return Schema("AVRO", str(schema_id))

    schemas = RegistrySchemas(fetch, made, lambda: now_s)
    for _ in range(100):
        now_s += 10
        assert not schemas.ready(7)
        with schemas._changed:
            schemas._changed.notify_all()
        time.sleep(0.001)
    away = False

    def found() -> bool:
        nonlocal now_s
        now_s += 1
        with schemas._changed:
            schemas._changed.notify_all()
        return schemas.ready(7)

    until(found)
    assert not isinstance(schemas.reader(7), Rejected)


def test_a_registry_that_rejects_is_no_matter_of_waiting() -> None:
    def fetch(_: int) -> Schema:
        raise RegistryUnusable("it may not read")

    schemas = RegistrySchemas(fetch, made)
    with pytest.raises(PermanentError, match="may not read"):
        schemas.reader(7)
    with pytest.raises(PermanentError, match="may not read"):
        schemas.ready(8)


@pytest.mark.slow
def test_forged_ids_take_bounded_memory() -> None:
    schemas = RegistrySchemas(lambda schema_id: Schema("AVRO", str(schema_id)), made)
    for schema_id in range(3_000):
        schemas.ready(schema_id, schema_id % 30)
    assert len(schemas._asked) <= 1_000
    assert len(schemas._given_up) <= 20_000
    until(lambda: len(schemas._known) == 1_000)
    for schema_id in range(5_000, 5_500):
        schemas.reader(schema_id)
    assert len(schemas._known) == 1_000
    assert len(schemas._missing) <= 1_000


@pytest.mark.slow
def test_forged_ids_hold_a_partition_for_a_minute_in_all() -> None:
    """Three thousand of them, 15 KB: each held it for half a minute. The other partition waits for its own."""
    now_s, asked = 0.0, set[int]()

    def fetch(schema_id: int) -> Schema:
        asked.add(schema_id)
        if schema_id == 9_999:
            raise RegistryUnavailable("it answers 503")
        raise SchemaNotFound

    schemas = RegistrySchemas(fetch, made, lambda: now_s)
    forged, held_s = list(range(3_000)), 0.0
    # As a runtime reads a batch: what waits holds what is behind it, and is read again.
    while forged:
        waits = [not schemas.ready(schema_id, ("t", 0)) for schema_id in forged]
        settled = forged[: waits.index(True)] if any(waits) else forged
        assert all(isinstance(schemas.reader(schema_id), Rejected) for schema_id in settled)
        forged = forged[len(settled) :]
        held_s, now_s = held_s + 0.5, now_s + 0.5
        assert held_s < 100
    until(lambda: len(asked) >= 100)
    assert "redrive the record" in str(schemas.reader(2_999))
    # A schema for which the other partition waits is asked for, and a registry that is away has no limit.
    for _ in range(200):
        assert not schemas.ready(9_999, ("t", 1))
        until(lambda: 9_999 in asked)
        now_s += 1.0


def test_all_schemas_of_a_batch_are_asked_for_at_once() -> None:
    """Also those behind a record that waits."""
    asked: list[int] = []

    def fetch(schema_id: int) -> Schema:
        asked.append(schema_id)
        raise SchemaNotFound

    decoder = RegistryDecoder(RegistrySchemas(fetch, made))
    agent = EvaluateAgent(EvaluateConfig(Catalogue(everything()), decoders={"t": decoder}))
    records = [Record("t", 0, each, None, b"\0\0\0\0" + bytes([each]), 1) for each in range(20)]
    assert agent.preparation.waiting(records) == records
    until(lambda: len(set(asked)) == 20)


def test_look_ups_are_at_most_ten_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    pause = threading.Event()
    monkeypatch.undo()

    def sleep(seconds: float) -> None:
        if threading.current_thread().name == "registry":  # Threads of other tests may still run.
            pauses.append(seconds)
        pause.wait(0.001)

    monkeypatch.setattr(machine.clocks, "sleep", sleep)
    schemas = RegistrySchemas(lambda schema_id: Schema("AVRO", str(schema_id)), made)
    for schema_id in range(20):
        schemas.reader(schema_id)
    assert len(pauses) >= 19
    assert set(pauses) == {0.1}
