"""A schema is tried in a process of its own, before the worker reads it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ragweir.errors import Rejected, TransientError
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.registry.decoder import RegistryDecoder
from ragweir.schemas.registry.schema import Read, Schema
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.registry import schemas, trial
from ragweir.streams.runtime.registry.schemas import RegistrySchemas
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.shared.from_settings import schema_reader
from ragweir.streams.settings import Settings

pytestmark = pytest.mark.slow


def record(*fields: Any, **more: Any) -> Schema:
    named = [{"name": f"f{number}", "type": field} for number, field in enumerate(fields)]
    return Schema("AVRO", json.dumps({"type": "record", "name": "E", "fields": named, **more}))


def fixed(number: int) -> dict[str, Any]:
    return {"type": "fixed", "name": f"F{number}", "size": 1}


# Each type, and each use of one, makes a full name of half a megabyte.
SPACE = "a" * 500_000
MUCH_MEMORY = record(*map(fixed, range(300)), namespace=SPACE)
MUCH_TIME = record(fixed(0), ["F0"] * 30_000, {"type": "array", "items": "null"}, namespace=SPACE)
GOOD = Schema(
    "AVRO",
    json.dumps(
        {
            "type": "record",
            "name": "Event",
            "fields": [{"name": name, "type": "string"} for name in ("event_id", "query", "response")],
        }
    ),
)
ARRAY = record({"type": "array", "items": "null"})
NOTHING = Schema("AVRO", "{")


@pytest.fixture
def read() -> Callable[[int, Schema], Read | Rejected]:
    return schema_reader(Settings(), "avro")


def test_a_schema_that_takes_all_memory_or_for_ever_does_not_stop_a_worker(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[int, Schema], Read | Rejected]
) -> None:
    """Its records are dead letters, and the ones behind them are evaluated."""
    monkeypatch.setattr(trial, "CPU_SECONDS", 0)  # Rounded up to one.
    monkeypatch.setattr(schemas, "INTERVAL_SECONDS", 0.001)
    known = {1: MUCH_MEMORY, 2: MUCH_TIME, 3: GOOD}
    registry = RegistrySchemas(known.__getitem__, read)
    agent = EvaluateAgent(EvaluateConfig(Catalogue(everything()), decoders={"t": RegistryDecoder(registry)}))
    records = [
        Record("t", 0, each, None, b"\0\0\0\0" + bytes([each]) + b"\x02a\x02b\x02c", 1_700_000_000_000)
        for each in sorted(known)
    ]
    assert list(agent.preparation.waiting(records)) == records
    assert all(map(registry.reader, known))
    assert not agent.preparation.waiting(records)
    emissions = agent.handle(records).emissions
    assert [emission.topic for emission in emissions] == ["dead-letter", "dead-letter", "evaluations"]
    reasons = [DeadLetter.from_headers(emission.headers).message for emission in emissions[:2]]
    assert reasons == [
        "schema 1 cannot be used: it needs more memory than a schema may take",
        "schema 2 cannot be used: it needs more CPU time than a schema may take",
    ]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param(ARRAY, "schema 7 E cannot be used: an array whose items have no bytes", id="refused"),
        pytest.param(NOTHING, "schema 7 cannot be used: reading it raised JSONDecodeError", id="no schema"),
        pytest.param(Schema("JSON", "{}"), "schema 7 is of the type JSON", id="of another type"),
    ],
)
def test_a_trial_says_why_a_schema_is_rejected(schema: Schema, why: str) -> None:
    rejected = trial.tried(7, schema, "avro")
    assert isinstance(rejected, Rejected)
    assert rejected.error_class == "unknown_schema"
    assert str(rejected).startswith(why)


@pytest.mark.parametrize("form", ["avro", "protobuf", "jsonschema"])
def test_a_good_schema_of_each_format_passes(form: str) -> None:
    kinds = {"avro": GOOD, "protobuf": Schema("PROTOBUF", "message A {}"), "jsonschema": Schema("JSON", "{}")}
    assert trial.tried(7, kinds[form], form) is None


# Processes that end, or do not, while they read a schema.
BEGIN = "import os, sys, time; os.write(1, b'r'); "


def processes(monkeypatch: pytest.MonkeyPatch, code: str) -> list[Sequence[str]]:
    """Let a process do something else than read a schema; return the list of those that are started."""
    started: list[Sequence[str]] = []

    def command(*arguments: str) -> list[str]:
        started.append(arguments)
        return python_command("-c", code)

    monkeypatch.setattr(trial, "python_command", command)
    return started


@pytest.mark.parametrize(
    ("code", "why", "tries"),
    [
        pytest.param(BEGIN + "os.kill(os.getpid(), 11)", "it ends the process with SIGSEGV", 1, id="a crash"),
        pytest.param(BEGIN + "os.kill(os.getpid(), 9)", "it ends the process with SIGKILL", 2, id="from outside"),
        pytest.param(BEGIN + "time.sleep(3600)", "it takes longer than 1 s", 1, id="sleeps"),
    ],
)
def test_a_schema_on_which_a_process_dies_is_rejected(
    monkeypatch: pytest.MonkeyPatch, code: str, why: str, tries: int
) -> None:
    started = processes(monkeypatch, code)
    monkeypatch.setattr(trial, "WALL_SECONDS", 1.0 if "sleep" in code else 30.0)
    assert str(trial.tried(7, GOOD, "avro")) == f"schema 7 cannot be used: {why}"
    assert len(started) == tries


def test_a_process_that_does_not_start_is_no_fault_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    processes(monkeypatch, "raise SystemExit(3)")
    with pytest.raises(TransientError, match="does not start"):
        trial.tried(7, GOOD, "avro")
