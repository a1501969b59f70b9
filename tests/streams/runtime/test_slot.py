"""A slot waits for its topics, is driven by the runtime, and says that it has stopped."""

from typing import Any

import orjson
import pytest
from fake_worker import DEAD, IN, OUT, Script, Stopped, World, after
from poison import event
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from ragweir.errors import PermanentError
from ragweir.schemas.topics import TOPICS
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.slot import run_slot
from ragweir.streams.settings import from_groups

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = {"traceId": TRACE, "spanId": "00f067aa0ba902b7", "name": "chat"}


@pytest.fixture
def ready(world: World) -> World:
    """The cluster with all topics."""
    for name in (*(f"rag.{name}" for name in TOPICS), "otlp_spans", "otlp_logs"):
        world.cluster.create(name)
    return world


def run(script: Script, service: str = "evaluate", **groups: Any) -> list[str]:
    """Run a slot until the script ends, and return its log lines."""
    settings = from_groups({"kafka": {"bootstrap_servers": "memory:9092"}, "telemetry": {"port": 0}, **groups})
    stopped = Stopped(script)
    with capture_logs([merge_contextvars]) as logs:
        run_slot(SERVICES[service], settings, 0, stopped)
    return [each["event"] for each in logs if each.get("service") == service]  # Not those of another test's thread.


@pytest.mark.slow
def test_a_slot_evaluates_until_it_is_stopped_and_says_so(ready: World) -> None:
    ready.cluster.produce(IN, event(event_id="a"), event(event_id="b"))
    lines = run(iter([lambda: len(ready.cluster.committed(OUT)) == 2]))
    assert [orjson.loads(value or b"")["event_id"] for value in ready.cluster.values(OUT)] == ["a", "b"]
    assert (lines[0], lines[-1]) == ("started", "stopped")


@pytest.mark.slow
def test_a_slot_waits_for_topics_that_are_made_a_little_later(ready: World) -> None:
    del ready.cluster.topics[IN], ready.cluster.topics[DEAD]

    def script() -> Script:
        yield after(3.0)
        ready.cluster.create(IN)
        yield after(3.0)
        ready.cluster.create(DEAD)
        ready.cluster.produce(IN, event(event_id="a"))
        yield lambda: ready.cluster.committed(OUT)

    assert run(script())[-1] == "stopped"


@pytest.mark.slow
def test_a_topic_that_stays_away_ends_a_slot(ready: World) -> None:
    del ready.cluster.topics[DEAD]
    with pytest.raises(PermanentError, match=r"there is no topic rag.dead-letter"):
        run(iter([lambda: False]))


@pytest.mark.slow
def test_a_slot_that_is_stopped_before_there_is_a_broker_handles_nothing(ready: World) -> None:
    ready.cluster.is_up = False
    lines = run(iter([after(10.0)]))
    assert lines == ["started", "no broker answers; waiting for one"]


@pytest.mark.slow
def test_a_duplicate_in_an_aborted_transaction_is_one_when_it_is_read_again(ready: World) -> None:
    ready.cluster.produce(IN, event(event_id="a"))

    def script() -> Script:
        yield lambda: ready.cluster.committed(OUT)
        del ready.cluster.topics[OUT]
        ready.cluster.produce(IN, event(event_id="a"), event(event_id="b"))
        yield after(3.0)
        ready.cluster.create(OUT)
        yield lambda: ready.cluster.committed(OUT)
        yield after(3.0)

    run(script())
    assert [orjson.loads(value or b"")["event_id"] for value in ready.cluster.values(OUT)] == ["b"]


@pytest.mark.slow
def test_a_slot_reads_the_inputs_that_there_are_if_its_service_needs_one_of_them(ready: World) -> None:
    """The spans of a platform that sends no logs."""
    del ready.cluster.topics["otlp_logs"]
    ready.cluster.produce("otlp_spans", orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}))
    script: Script = iter([lambda: any(each.key == TRACE.encode() for each in ready.cluster.committed("rag.spans"))])
    assert run(script, "key", input={"format": "otlp"}, assemble={"topics": ["otlp_logs"]})[-1] == "stopped"
