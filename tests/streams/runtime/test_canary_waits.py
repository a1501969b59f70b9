"""A suspected record whose schema the canary does not know yet is no fault: it is tried later."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragweir.streams.runtime.protection.canary_client import CanaryClient
from ragweir.streams.runtime.records import Record

CANARY = """
import sys
from pathlib import Path
from ragweir.streams.runtime.agent_parts import Preparation
from ragweir.streams.runtime.protection import canary

class Waits(Preparation):
    def waiting(self, records):
        return [] if Path(sys.argv[1]).exists() else records

class Agent:
    preparation = Waits()

    def handle(self, records):
        if records[0].value == b"poison":
            sys.exit(3)

    def on_abort(self):
        pass

canary.run(Agent(), 1024)
"""
RECORDS = [Record("t", 0, number, None, value, 1) for number, value in enumerate([b"a", b"poison", b"b"])]


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return tmp_path / "schema"


@pytest.fixture
def client(schema: Path) -> Iterator[CanaryClient]:
    made = CanaryClient([sys.executable, "-c", CANARY, str(schema)], lambda: False)
    yield made
    made.close()


@pytest.mark.heavy
def test_a_record_that_waits_is_tried_later(client: CanaryClient, schema: Path) -> None:
    assert client.try_records(RECORDS) == 0
    assert client.try_records(RECORDS) == 0
    schema.touch()
    assert client.try_records(RECORDS) == 3
    assert [bool(client.cause(record)) for record in RECORDS] == [False, True, False]
