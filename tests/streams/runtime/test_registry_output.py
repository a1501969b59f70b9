"""The schemas of outputs in a registry are looked up before a worker starts."""

from collections.abc import Callable, Iterator
from itertools import count

import orjson
import pytest
from fake_kafka import VirtualClocks

from ragweir.errors import PermanentError
from ragweir.streams.playground.serving import Reply, Request, serving
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Emission
from ragweir.streams.runtime.registry.output import OutputForms
from ragweir.streams.settings import Settings

pytest.importorskip("fastavro")
IDS = {"/subjects/rag.evaluations.avro-value": 7, "/subjects/rag.windows.avro-value": 9}


class Registry:
    """Answers, after some requests that it fails, with the id of a subject's schema."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.asked = failures, list[str]()

    def __call__(self, request: Request) -> Reply:
        self.asked.append(request.path)
        if len(self.asked) <= self.failures:
            return Reply(503, b"{}")
        number = IDS.get(request.path)
        return Reply(404, b'{"error_code": 40403}') if number is None else Reply(200, orjson.dumps({"id": number}))


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> VirtualClocks:
    own = VirtualClocks()
    monkeypatch.setattr(machine, "clocks", own)
    return own


def never(calls: Iterator[int]) -> Callable[[], bool]:
    """Never stop a look-up, which asks for it now and then."""
    return lambda: next(calls) > 1_000 and pytest.fail("it does not end")


def started(registry: Registry, stopped: Callable[[], bool] | None = None, *outputs: str) -> OutputForms:
    with serving(registry) as server:
        settings = Settings(output={"format": "avro"}, registry={"url": server.url})
        forms = OutputForms(settings, outputs or ("evaluations", "windows", "dead-letter"), pytest.fail)
        forms.start(stopped or never(count()))
    return forms


def test_each_schema_is_looked_up_once() -> None:
    registry = Registry()
    forms = started(registry)
    assert sorted(registry.asked) == sorted(IDS)
    tombstone = Emission("windows", b'["2026-11-21T12:00:00Z",{},0,0]', None, ())
    assert [each.topic for each in forms.added([tombstone])] == ["windows", "windows.avro"]


def test_only_the_schemas_of_outputs_are_looked_up() -> None:
    registry = Registry()
    assert started(registry, None, "windows").topics == {"windows.avro": "rag.windows.avro"}
    assert registry.asked == ["/subjects/rag.windows.avro-value"]


def test_a_registry_that_is_away_is_waited_for(clocks: VirtualClocks) -> None:
    registry = Registry(failures=3)
    began = clocks.monotonic()
    started(registry)
    assert clocks.monotonic() - began == pytest.approx(3.0, abs=0.1)
    assert sorted(set(registry.asked)) == sorted(IDS)


def test_a_worker_that_is_to_stop_waits_no_longer() -> None:
    registry = Registry(failures=1_000)
    started(registry, lambda: len(registry.asked) >= 2)
    assert len(registry.asked) == 2


def test_a_schema_that_is_not_registered_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(IDS, "/subjects/rag.windows.avro-value")
    with pytest.raises(PermanentError, match=r"schema of rag.windows.avro: run `ragweir topics create`"):
        started(Registry())
