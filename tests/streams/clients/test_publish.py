"""Publishing from an application, without a broker: what is recorded, dropped and counted, and what never happens."""

import asyncio
import gc
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import orjson
import pytest
from commands import environment, program
from confluent_kafka import KafkaError, Message
from hypothesis import given, settings
from hypothesis import strategies as st
from services import eventually
from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.codec import intake
from ragweir.schemas.codec.json import decode
from ragweir.schemas.feedback import feedback_of
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.times import parse_time
from ragweir.streams.clients.publish import publisher as publisher_module
from ragweir.streams.clients.publish import recorders, sender
from ragweir.streams.clients.publish.backlog import Backlog, CapturedEvent, CapturedSpan
from ragweir.streams.clients.publish.drop_log import DropLog
from ragweir.streams.clients.publish.encoding import encode
from ragweir.streams.clients.publish.publisher import Publisher
from ragweir.streams.clients.publish.recorders import InteractionRecorder
from ragweir.streams.clients.publish.snapshot import snapshot
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import KafkaSettings, PublisherSettings, PublishSettings

NOWHERE = "127.0.0.1:1"
WHOLE = {"event_id": "1", "query": "Who?", "response": "Ada."}
DAY_NS = 86_400 * 10**9


class Collected:
    """Keeps what recorders give it."""

    def __init__(self) -> None:
        self.events: list[CapturedEvent] = []

    def capture(self, make: Callable[[], CapturedEvent]) -> None:
        self.events.append(make())

    def recorder(self, **fields: Any) -> InteractionRecorder:
        return InteractionRecorder(self, fields)

    @property
    def spans(self) -> tuple[CapturedSpan, ...]:
        (event,) = self.events
        return event.spans


class FaultyProducer:
    """A client whose calls do what a test injects; everything else about Kafka is tested on a real one."""

    def __init__(self, produce: Callable[[], None]) -> None:
        self._produce = produce
        self.values: list[bytes] = []
        self.topics: list[str] = []

    def produce(self, topic: str, value: bytes, *_: Any, on_delivery: Callable[[Any, Any], None], **__: Any) -> None:
        self.topics.append(topic)
        self._produce()
        self.values.append(value)
        on_delivery(None, None)

    def poll(self, timeout: float) -> int:
        time.sleep(timeout)
        return 0

    def flush(self, _: float) -> int:
        return 0

    def purge(self) -> None:
        pass

    def __len__(self) -> int:
        return 0


@pytest.fixture
def publishers() -> Iterator[list[Publisher]]:
    """Publishers that are closed at the end of the test."""
    made: list[Publisher] = []
    yield made
    for publisher in made:
        publisher.close(timeout=0)


def faulty(
    monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher], produce: Callable[[], None], **options: Any
) -> tuple[Publisher, FaultyProducer]:
    """A publisher with a faulty client."""
    producer = FaultyProducer(produce)
    monkeypatch.setattr(sender, "build", lambda *_: producer)
    publisher = Publisher(bootstrap_servers=NOWHERE, **options)
    publishers.append(publisher)
    return publisher, producer


# In the caller's thread.


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.mark.slow
def test_a_publisher_without_events_costs_an_application_nothing() -> None:
    """Until the first event: the standard library and no thread. After it: no numpy, typer, rich or aiohttp."""
    code = f"""
import sys, threading, time
import ragweir
ragweir.publish, ragweir.feedback, ragweir.Publisher
foreign = {{"pydantic", "orjson", "confluent_kafka", "structlog"}} & sys.modules.keys()
assert not foreign, foreign
assert threading.active_count() == 1
publisher = ragweir.Publisher(bootstrap_servers="{NOWHERE}", exit_timeout_s=0.0)
with publisher.publish(query="Who?") as event:
    event.response = "Ada."
publisher.publish({{}})
publisher.feedback("thumbs", "up", event_id="e1")
publisher.feedback()
while publisher.stats.dropped["invalid"] < 2:
    time.sleep(0.01)
assert "confluent_kafka" in sys.modules
foreign = {{"numpy", "typer", "rich", "aiohttp", "pandas", "polars", "duckdb"}} & sys.modules.keys()
assert not foreign, foreign
assert threading.active_count() == 2
"""
    done = program(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


SLOW_SIGN_IN = """
import threading, time
forking = threading.Event()
forking.wait()
time.sleep(0.3)
def token(): return "", 0.0
"""
FORK = """
import os, sys, time
import ragweir
publisher = ragweir.Publisher(bootstrap_servers="127.0.0.1:1", exit_timeout_s=0.0)
publisher.publish({})
while not hasattr(sys.modules.get("slow_sign_in"), "forking"):
    time.sleep(0.001)
os.register_at_fork(before=sys.modules["slow_sign_in"].forking.set)  # It is called before those registered earlier.
child = os.fork()
if not child:
    os._exit(not hasattr(sys.modules["slow_sign_in"], "token"))
assert os.waitpid(child, 0)[1] == 0, "the child has half of a module"
"""


@pytest.mark.heavy
def test_a_fork_waits_for_the_import_of_the_function_that_signs_in(tmp_path: Path) -> None:
    """A child with half of a module could neither use it nor import it again."""
    (tmp_path / "slow_sign_in.py").write_text(SLOW_SIGN_IN)
    (tmp_path / "ragweir.toml").write_text('kafka.oauth = "slow_sign_in:token"')
    own = environment() | {"PYTHONPATH": str(tmp_path)}
    done = program(sys.executable, "-c", FORK, env=own, folder=tmp_path)
    assert done.returncode == 0, done.stderr


FORKS = """
import os, socket, threading
import ragweir
from ragweir.streams.clients.publish import publisher as module
module._LOOK_UP_S = 2.0
publisher = ragweir.Publisher(bootstrap_servers="127.0.0.1:1", exit_timeout_s=0.0)

def look_up():
    socket.getaddrinfo("127.0.0.1", None, flags=socket.AI_ADDRCONFIG)

def look_up_for_ever():
    while True:
        look_up()

for _ in range(4):
    threading.Thread(target=look_up_for_ever, daemon=True).start()
for _ in range(1000):  # until the lock was held at a fork
    if not os.fork():
        locked = threading.Thread(target=look_up, daemon=True)
        locked.start()
        locked.join(2.0)
        if not locked.is_alive():
            os._exit(3)
        publisher.publish({})
        publisher.flush(4)
        raise SystemExit
    status = os.waitstatus_to_exitcode(os.wait()[1])
    if status != 3:
        os._exit(status)
os._exit(4)
"""


@pytest.mark.slow
def test_a_child_that_can_look_up_no_address_drops_its_events_and_ends() -> None:
    """It was forked while another thread held the lock of the C library's getaddrinfo, which nobody opens in it."""
    done = program(sys.executable, "-c", FORKS)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert "forked while another thread looked up an address" in done.stderr


@pytest.mark.parametrize("answer", ["delivered", "lost"])
def test_a_fork_waits_until_the_first_client_has_connected(answer: str) -> None:
    """Before that, its threads look up addresses."""
    backlog = Backlog(10, 1_000)
    assert backlog.reached.is_set(), "no client is made"
    made = sender.Sender(PublisherSettings(kafka=KafkaSettings(bootstrap_servers=NOWHERE)), backlog)
    assert not backlog.reached.is_set()
    if answer == "delivered":
        made._on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), cast("Message", None))
    else:
        made.on_error(KafkaError(KafkaError._TRANSPORT))
    assert backlog.reached.is_set()
    made.stop()
    assert not hasattr(made, "_producer"), "a client that is left to a collection may end in a child"


class Hostile:
    """Raises wherever Python lets a class run code."""

    def __raise(self, *_: Any) -> Any:
        raise RuntimeError("hostile")

    __str__ = __repr__ = __len__ = __iter__ = __getattr__ = __sizeof__ = __bool__ = __hash__ = __eq__ = __raise
    __class__ = property(__raise)  # type: ignore[assignment]


class HostileDict(dict[str, Any]):
    """A dict that raises as well."""

    def __raise(self, *_: Any) -> Any:
        raise RuntimeError("hostile")

    __iter__ = __len__ = items = keys = __getitem__ = get = __raise


def _cycle() -> dict[str, Any]:
    cycle: dict[str, Any] = {"query": "", "response": "", "event_id": "c"}
    cycle["extra"] = {"again": [cycle, cycle]}
    return cycle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


HUGE = "x" * 100_000_000
HOSTILE_EVENTS: dict[str, tuple[object, str]] = {
    "nothing": (None, "invalid"),
    "a number": (17, "invalid"),
    "text": ("query", "invalid"),
    "bytes": (b"{}", "invalid"),
    "a class": (int, "invalid"),
    "an object that raises": (Hostile(), "invalid"),
    "an empty mapping": ({}, "invalid"),
    "no response": ({"query": "Who?"}, "invalid"),
    "an id that is none": ({**WHOLE, "event_id": 1.5}, "invalid"),
    "an id of 201 characters": ({**WHOLE, "event_id": "x" * 201}, "invalid"),
    "a query that is none": ({**WHOLE, "query": ["Who?"]}, "invalid"),
    "a field that raises": ({**WHOLE, "contexts": [Hostile()]}, "invalid"),
    "a field without a form in JSON": ({**WHOLE, "extra": {"x": object()}}, "invalid"),
    "bytes in a field": ({**WHOLE, "extra": {"x": b"x"}}, "invalid"),
    "half of a surrogate pair": ({**WHOLE, "response": "\ud800"}, "invalid"),
    "a key that is no text": ({**WHOLE, "extra": {(1, 2): 3}}, "invalid"),
    "an integer of 100 digits": ({**WHOLE, "extra": {"x": 10**100}}, "invalid"),
    "a cycle": (_cycle(), "invalid"),
    "100,000 levels": ({**WHOLE, "extra": {"x": _deep()}}, "invalid"),
    "100 MB": ({**WHOLE, "response": HUGE}, "too_large"),
    "a name of 100 MB": ({**WHOLE, HUGE: 1}, "too_large"),
    "10 million numbers": ({**WHOLE, "extra": {"x": [0] * 10_000_000}}, "too_large"),
    "2 MB": ({**WHOLE, "response": "x" * 2_000_000}, "too_large"),
    "a mapping that raises": (HostileDict(WHOLE), "published"),
    "a mapping that is no dict": (MappingProxyType(WHOLE), "published"),
    "fields of wrong types": ({**WHOLE, "contexts": 7, "spans": "no", "usage": [], "labels": 3}, "published"),
    "numbers of numpy": ({**WHOLE, "contexts": [{"text": "", "score": np.float32(0.5)}]}, "published"),
}


@pytest.mark.parametrize("name", HOSTILE_EVENTS)
def test_whatever_is_passed_is_published_or_counted_as_dropped(
    name: str, monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """No value raises in the caller's thread or ends the publisher's: the event after it is published."""
    event, fate = HOSTILE_EVENTS[name]
    publisher, producer = faulty(monkeypatch, publishers, lambda: None)
    publisher.publish(event)  # type: ignore[call-overload]
    publisher.publish({**WHOLE, "event_id": "after"})
    assert publisher.flush(60)
    counts = {reason: count for reason, count in publisher.stats.dropped.items() if count}
    assert counts == ({} if fate == "published" else {fate: 1})
    assert publisher.stats.published == len(producer.values) == 2 - len(counts)
    assert decode(producer.values[-1]).event_id == "after"


HOSTILE_FEEDBACK: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "nothing": ((), {}, "invalid"),
    "no value": (("thumbs",), {"event_id": "e1"}, "invalid"),
    "no target": (("thumbs", "up"), {}, "invalid"),
    "two targets": (("thumbs", "up"), {"event_id": "e1", "trace_id": "t1"}, "invalid"),
    "a name with control characters": (("th\x1bumbs", "up"), {"event_id": "e1"}, "invalid"),
    "a value that raises": (("thumbs", Hostile()), {"event_id": "e1"}, "invalid"),
    "a value of a wrong type": (("thumbs", ["up"]), {"event_id": "e1"}, "invalid"),
    "a value that is no number": (("thumbs", float("nan")), {"event_id": "e1"}, "invalid"),
    "an id that is an object": (("thumbs", "up"), {"event_id": object()}, "invalid"),
    "a comment of 100 MB": (("thumbs", "up"), {"event_id": "e1", "comment": HUGE}, "too_large"),
    "a comment of 2 MB": (("thumbs", "up"), {"event_id": "e1", "comment": "x" * 2_000_000}, "too_large"),
    "taken back": (("thumbs", None), {"event_id": "e1"}, "published"),
    "a value of numpy": (("edited", np.float32(0.5)), {"trace_id": "t1", "span_id": "s1"}, "published"),
    "a time of the caller's": (("thumbs", True), {"event_id": 7, "time": "2026-11-21T10:00:00Z"}, "published"),
}


@pytest.mark.parametrize("name", HOSTILE_FEEDBACK)
def test_whatever_is_passed_as_feedback_is_published_or_counted_as_dropped(
    name: str, monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """Feedback has the promises of interactions; it has the time of the call unless it names one."""
    given, fields, fate = HOSTILE_FEEDBACK[name]
    monkeypatch.setattr("ragweir.streams.clients.publish.publisher.machine.time_ns", lambda: 1_764_000_000_000_000_000)
    publisher, producer = faulty(monkeypatch, publishers, lambda: None)
    publisher.feedback(*given, **fields)
    publisher.publish({**WHOLE, "event_id": "after"})
    assert publisher.flush(60)
    counts = {reason: count for reason, count in publisher.stats.dropped.items() if count}
    assert counts == ({} if fate == "published" else {fate: 1})
    assert producer.topics == (["rag.feedback"] if fate == "published" else []) + ["rag.interactions"]
    if fate == "published":
        sent = feedback_of(orjson.loads(producer.values[0]))
        assert (sent.name, sent.value) == given
        assert sent.time == parse_time(fields.get("time", 1_764_000_000))


@pytest.mark.parametrize("name", HOSTILE_EVENTS)
def test_nothing_that_is_assigned_raises(
    name: str, monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """The same values in every place of a recorder: the event is published or counted, once."""
    value: Any = HOSTILE_EVENTS[name][0]
    publisher, _ = faulty(monkeypatch, publishers, lambda: None)
    with publisher.publish(query=value, event_id=value, tool=value) as event, event.llm(value) as call:
        call.error = value
        event.response = event.contexts = event.labels = event.spans = event.unknown = value
        event.usage(input_tokens=value, other=value)
        event.usage(input_tokens=value, cost_usd=value)
        with event.tool(value):
            pass
    assert publisher.flush(60)
    stats = publisher.stats
    assert stats.published + sum(stats.dropped.values()) == 1


def test_an_exception_in_the_callers_thread_is_counted(
    monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """Code of the application that runs there, and an end of memory or of the stack, do not reach the application."""
    publisher, producer = faulty(monkeypatch, publishers, lambda: None)
    publisher.publish(HostileDict(WHOLE), application="a")  # type: ignore[call-overload]
    publisher.publish(WHOLE)
    assert publisher.flush(60)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(publisher_module, "snapshot", fail)
    with publisher.publish(query="Who?", response="Ada."):
        pass
    assert publisher.stats.dropped["invalid"] == 2
    assert len(producer.values) == publisher.stats.published == 1


class Hang:
    """A call of the client that waits until it is released."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        self.released.wait(60)


def test_a_caller_does_not_wait_for_a_producer_that_hangs(
    monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """While a call of the client hangs, the queue takes its number of events and the rest are dropped at once."""
    hang = Hang()
    publisher, producer = faulty(monkeypatch, publishers, hang, queue_events=10)
    publisher.publish(WHOLE)
    assert hang.entered.wait(60)
    for _ in range(100):
        with publisher.publish(query="Who?", response="Ada."):
            pass
    assert not hang.released.is_set()
    assert publisher.stats.dropped["queue_full"] == 90
    assert publisher.stats.waiting == 11
    assert not publisher.flush(0.01)
    hang.released.set()
    assert publisher.flush(60)
    assert len(producer.values) == publisher.stats.published == 11


def test_the_queue_is_bounded_by_memory(monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]) -> None:
    """Few large events fill the queue as many small ones do."""
    hang = Hang()
    publisher, _ = faulty(monkeypatch, publishers, hang, queue_bytes=4_000_000)
    publisher.publish(WHOLE)
    assert hang.entered.wait(60)
    for number in range(10):
        publisher.publish({**WHOLE, "response": str(number) * 900_000})
    assert publisher.stats.dropped["queue_full"] == 6
    assert 3_600_000 < publisher.stats.queued_bytes <= 4_000_000
    hang.released.set()
    assert publisher.flush(60)
    assert publisher.stats.queued_bytes == 0


def test_an_error_of_the_encoder_or_the_client_drops_one_event(
    monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """An exception nobody thought of is counted, and the next event is sent."""
    errors: list[Exception] = [RuntimeError("client"), MemoryError(), RecursionError()]

    def produce() -> None:
        if errors:
            raise errors.pop()

    publisher, producer = faulty(monkeypatch, publishers, produce)
    for number in range(4):
        publisher.publish({**WHOLE, "event_id": str(number)})
    assert publisher.flush(60)
    assert [decode(value).event_id for value in producer.values] == ["3"]
    monkeypatch.setattr(sender, "encode", lambda *_: 1 / 0)
    publisher.publish(WHOLE)
    assert publisher.flush(60)
    monkeypatch.setattr(sender, "encode", encode)
    publisher.publish(WHOLE)
    assert publisher.flush(60)
    assert len(producer.values) == publisher.stats.published == 2
    assert publisher.stats.dropped["invalid"] == 4


def test_the_application_may_change_what_it_has_published(
    monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """Lists and objects are copied: what is appended to them afterwards is not sent."""
    hang = Hang()
    publisher, producer = faulty(monkeypatch, publishers, hang)
    publisher.publish(WHOLE)
    assert hang.entered.wait(60)
    history = [{"role": "user", "text": "Who?"}]
    with publisher.publish(query="When?", response="1843.", history=history):
        pass
    history[0]["text"] = "changed"
    history.append({"role": "user", "text": "later"})
    hang.released.set()
    assert publisher.flush(60)
    sent = decode(producer.values[-1]).history
    assert sent is not None
    assert [turn.text for turn in sent] == ["Who?"]


def test_a_finaliser_or_a_signal_handler_may_publish(
    monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """Code that interrupts a thread inside of the queue's lock publishes without waiting for itself."""
    publisher, _ = faulty(monkeypatch, publishers, lambda: None)

    def interrupted() -> None:
        with publisher._lock, publisher._backlog._lock:
            publisher.publish(WHOLE)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert publisher.flush(60)
    assert publisher.stats.published == 1


def test_events_after_the_end_are_counted(monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]) -> None:
    """A closed publisher takes nothing, and says so."""
    publisher, producer = faulty(monkeypatch, publishers, lambda: None)
    publisher.publish(WHOLE)
    assert publisher.close(60)
    publisher.publish(WHOLE)
    assert publisher.stats.dropped["after_close"] == 1
    assert len(producer.values) == publisher.stats.published == 1
    assert not any(thread.name == "ragweir-publish" and thread.is_alive() for thread in threading.enumerate())


def test_many_threads_lose_no_count(monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]) -> None:
    """Each event of eight threads is published or counted as dropped."""
    publisher, producer = faulty(monkeypatch, publishers, lambda: None, queue_events=50)

    def work(_: int) -> None:
        for _ in range(500):
            publisher.publish(WHOLE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert publisher.flush(60)
    stats = publisher.stats
    assert stats.published == len(producer.values)
    assert stats.published + stats.dropped["queue_full"] == 4_000
    assert stats.waiting == stats.queued_bytes == 0


# What is recorded.


class Clocks:
    """Two clocks: the wall clock can be set, the other only advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ns = 1_764_000_000 * 10**9
        self.monotonic_ns = 0
        monkeypatch.setattr(machine.clocks, "time_ns", lambda: self.wall_ns)
        monkeypatch.setattr(machine.clocks, "monotonic_ns", lambda: self.monotonic_ns)

    def advance(self, milliseconds: int) -> None:
        self.wall_ns += milliseconds * 10**6
        self.monotonic_ns += milliseconds * 10**6


def test_durations_are_right_while_the_wall_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are those of the wall clock at the start plus durations of a clock that nobody sets."""
    clocks, collected = Clocks(monkeypatch), Collected()
    start = clocks.wall_ns
    with collected.recorder() as event:
        clocks.advance(5)
        with event.retrieval("wiki"):
            clocks.advance(100)
        clocks.wall_ns -= DAY_NS
        with event.llm("m"):
            clocks.advance(300)
            event.first_token()
            clocks.advance(700)
            event.first_token()
    (captured,) = collected.events
    assert captured.started_ns == start
    assert captured.ended_ns == start + 1_105 * 10**6
    assert captured.first_token_ns == start + 405 * 10**6
    spans = [(each.kind, each.started_ns - start, (each.ended_ns or 0) - start) for each in captured.spans]
    assert spans == [("retrieval", 5 * 10**6, 105 * 10**6), ("llm", 105 * 10**6, 1_105 * 10**6)]


def test_times_reach_the_interaction_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoded event has the times to the microsecond, and nothing in it had to be repaired."""
    clocks, collected = Clocks(monkeypatch), Collected()
    with collected.recorder(query="Who?", response="Ada.") as event, event.llm("m"):
        clocks.monotonic_ns += 1_234_567_890
    sent = decode(encode(collected.events[0], PublishSettings(), 10_000).value)
    assert sent.started_at
    assert sent.ended_at
    assert (sent.ended_at - sent.started_at).total_seconds() == 1.234567
    assert sent.spans
    assert (sent.spans[0].started_at, sent.spans[0].ended_at) == (sent.started_at, sent.ended_at)
    assert not sent.flags


def test_spans_know_the_span_around_them() -> None:
    """A parent is the innermost open span of the same thread or task and the same interaction."""
    collected, other = Collected(), Collected()
    with collected.recorder() as event, event.tool("outer"), other.recorder() as inner_event:
        with inner_event.llm("other"), event.llm("inner"):
            pass
        with event.api("second"):
            pass
    parents = {span.name: span.parent_id for span in collected.spans}
    assert parents == {"outer": None, "inner": 1, "second": 1}
    assert [span.parent_id for span in other.spans] == [None]


def test_parallel_tasks_and_threads_have_their_own_parents(collected: Collected) -> None:
    """Spans of tasks that run in turns nest within their own task only; a new thread has no open span."""

    async def search(event: InteractionRecorder, name: str) -> None:
        async with event.retrieval(name):
            await asyncio.sleep(0)
            with event.embedding(f"{name} embedding"):
                await asyncio.sleep(0)

    async def answer() -> None:
        async with collected.recorder() as event:
            with event.tool("search"):
                await asyncio.gather(search(event, "a"), search(event, "b"))
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(lambda: event.api("thread").__enter__().__exit__(None, None, None)).result()

    asyncio.run(answer())
    spans = {span.name: span for span in collected.spans}
    by_number = {span.id: span.name for span in collected.spans}
    parents = {name: by_number.get(span.parent_id or 0) for name, span in spans.items()}
    assert parents == {
        "search": None,
        "a": "search",
        "b": "search",
        "a embedding": "a",
        "b embedding": "b",
        "thread": None,
    }


@pytest.mark.slow
def test_a_task_that_stays_keeps_no_event_alive(collected: Collected) -> None:
    """A context that was copied within a span, as tasks do, does not hold the interaction's texts."""
    with collected.recorder() as event, event.llm():
        context = copy_context()
    recorder_type, kept = type(event), id(event)
    del event
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is recorder_type and id(each) == kept]
    assert len(context) > 0


def test_an_exception_becomes_the_error_and_is_raised_on(collected: Collected) -> None:
    """The class of an exception is recorded in the span and the interaction; its message, which may quote, is not."""
    with pytest.raises(TimeoutError, match="secret"), collected.recorder(query="Who?") as event, event.tool("t"):
        raise TimeoutError("secret")
    sent = decode(encode(collected.events[0], PublishSettings(), 10_000).value)
    assert (sent.error, sent.response) == ("TimeoutError", "")
    assert sent.spans
    assert sent.spans[0].error == "TimeoutError"
    assert b"secret" not in encode(collected.events[0], PublishSettings(), 10_000).value


def test_a_stream_may_end_in_another_context(collected: Collected) -> None:
    """A generator that a server resumes in copies of a context, as web frameworks do, ends without an error."""

    def stream() -> Iterator[str]:
        with collected.recorder() as event, event.llm("m"):
            yield "A"
            yield "da"

    tokens = stream()
    assert [copy_context().run(next, tokens) for _ in range(2)] == ["A", "da"]
    with pytest.raises(StopIteration):
        copy_context().run(next, tokens)
    assert collected.spans[0].ended_ns is not None


def test_tokens_of_several_calls_are_summed(collected: Collected) -> None:
    """Each count is the sum of those given; one that is no number stays, so that the evaluation is flagged."""
    with collected.recorder(query="", response="") as event:
        event.usage(input_tokens=800, output_tokens=90)
        event.usage(input_tokens=12, cost_usd=0.25, cached_tokens=7)
    assert collected.events[0].fields["usage"] == {"input_tokens": 812, "output_tokens": 90, "cost_usd": 0.25}
    odd = Collected()
    with odd.recorder(query="", response="") as event:
        event.usage(input_tokens=1)
        event.usage(input_tokens="many")  # type: ignore[arg-type]
    assert decode(encode(odd.events[0], PublishSettings(), 1000).value).flags == ("unreadable:usage.input_tokens",)


def test_spans_without_end_are_cut_and_flagged(collected: Collected) -> None:
    """An endless agent does not fill the memory, and the evaluation says that spans are missing."""
    with collected.recorder(query="", response="") as event:
        for _ in range(10_000):
            with event.tool("t"):
                pass
    assert len(event._spans) == 2_000
    assert decode(encode(collected.events[0], PublishSettings(), 10**6).value).flags == ("cut:spans",)


def test_the_kinds_of_spans_are_those_of_the_schema(collected: Collected) -> None:
    """Every method records a kind that evaluate knows."""
    with collected.recorder(query="", response="") as event:
        for record in (event.llm, event.tool, event.api, event.retrieval, event.embedding, event.rerank):
            with record("n"):
                pass
    assert not decode(encode(collected.events[0], PublishSettings(), 10_000).value).flags


# What is sent.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=5), below, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Interaction.model_fields, JSON)))
def test_no_event_is_poison(fields: dict[str, Any]) -> None:
    """An event is rejected before it is sent, or evaluate reads it."""
    event = CapturedEvent({**WHOLE, **fields}, captured_ns=1_764_000_000 * 10**9)
    try:
        record = encode(event, PublishSettings(application="a", labels={"region": "eu"}), 10_000)
    except Rejected:
        return
    assert decode(record.value).event_id.encode() == record.key


def test_defaults_fill_what_an_event_leaves_out() -> None:
    """Fields of the event win over defaults, label by label."""
    defaults = PublishSettings(application="bot", environment="prod", pipeline_version="7", labels={"a": "1", "b": "1"})
    fields = {**WHOLE, "environment": "test", "pipeline_version": None, "labels": {"b": "2"}}
    sent = decode(encode(CapturedEvent(fields, captured_ns=0), defaults, 10_000).value)
    assert (sent.application, sent.environment, sent.pipeline_version) == ("bot", "test", "7")
    assert sent.labels == {"a": "1", "b": "2"}


def test_as_many_spans_are_recorded_as_it_takes_to_flag_a_cut() -> None:
    """The limit of recorded spans is above the one of read spans."""
    assert intake.DEFAULT_MAX_ITEMS["spans"] < recorders._MAX_SPANS


@pytest.mark.slow
@settings(max_examples=40)
@given(JSON)
def test_a_copy_equals_its_original(value: object) -> None:
    """Copying changes nothing that JSON can tell, and shares no list or object."""
    copy, size = snapshot(value, 10**6)
    assert size >= 0
    assert json.dumps(copy) == json.dumps(value)
    if isinstance(value, list | dict):
        assert copy is not value


def _nested(levels: int) -> list[Any]:
    """Return lists in a list, so many levels in all."""
    found: list[Any] = []
    for _ in range(levels - 1):
        found = [found]
    return found


def test_an_event_may_be_nested_a_hundred_levels_deep() -> None:
    assert snapshot(_nested(100), 100_000)[0] == _nested(100)
    with pytest.raises(Rejected, match="nested more than 100 levels deep"):
        snapshot(_nested(101), 100_000)


def test_the_memory_of_names_counts_as_that_of_values() -> None:
    """An application may put data into the names of fields, such as one label for each document."""
    short, long = {"a": 1}, {"a" * 5_000: 1}
    sizes = [snapshot([value, {"inner": value}], 100_000)[1] for value in (short, long)]
    assert sizes[1] - sizes[0] == 2 * 4_999
    assert snapshot(long, snapshot(long, 100_000)[1])[0] == long
    with pytest.raises(Rejected, match="memory"):
        snapshot(long, snapshot(long, 100_000)[1] - 1)


# Settings and logs.


def _problem(publisher: Publisher, caplog: pytest.LogCaptureFixture) -> str:
    publisher.publish(WHOLE)
    assert publisher.flush(60)
    assert publisher.stats.dropped["not_delivered"] == 1
    eventually(lambda: caplog.messages, "the problem is logged")
    return caplog.messages[0]


def test_settings_come_from_arguments_then_environment_then_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]
) -> None:
    """The same names and precedence as for ragweir's commands; mistakes in other groups do not matter here."""
    file = tmp_path / "ragweir.toml"
    file.write_text(
        "[publish]\napplication = 'file'\nenvironment = 'file'\ntopic = 'file'\n[judge]\nno_such_setting = 1\n"
    )
    monkeypatch.setenv("RAGWEIR_PUBLISH__ENVIRONMENT", "environment")
    monkeypatch.setenv("RAGWEIR_PUBLISH__TOPIC", "environment")
    publisher, producer = faulty(monkeypatch, publishers, lambda: None, settings_file=file, topic="argument")
    topics: list[str] = []
    monkeypatch.setattr(
        FaultyProducer,
        "produce",
        lambda _, topic, value, *__, **___: topics.append(topic) or producer.values.append(value),
    )
    publisher.publish(WHOLE)
    eventually(lambda: producer.values, "the event is sent")
    sent = decode(producer.values[0])
    assert (sent.application, sent.environment, topics) == ("file", "environment", ["argument"])


def test_a_wrong_setting_is_logged_and_its_events_are_counted(
    publishers: list[Publisher], caplog: pytest.LogCaptureFixture
) -> None:
    """The application runs on; the log names the setting."""
    publisher = Publisher(bootstrap_servers=NOWHERE, client={"no.such.property": 1})
    publishers.append(publisher)
    assert "no.such.property" in _problem(publisher, caplog)


def test_a_settings_file_that_is_missing_is_logged(
    tmp_path: Path, publishers: list[Publisher], caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was named must exist."""
    publisher = Publisher(settings_file=tmp_path / "none.toml")
    publishers.append(publisher)
    assert "there is no settings file" in _problem(publisher, caplog)


def test_a_reason_is_logged_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Each reason has its own minute; what was dropped in between is in the next line."""
    now = [0.0]
    drops = DropLog(lambda: now[0])
    for seconds, dropped in ((0, 1), (1, 5), (59, 100), (60, 150), (61, 151)):
        now[0] = seconds
        drops.report({"queue_full": dropped, "invalid": int(seconds >= 59)}, {"invalid": "no\x1b[2J response"})
    assert [message.split(":")[0] for message in caplog.messages] == [
        "1 events dropped (queue_full, 1 in all)",
        "1 events dropped (invalid, 1 in all)",
        "149 events dropped (queue_full, 150 in all)",
    ]
    assert caplog.messages[1].endswith("of the last one: no?[2J response")
    drops.report({"queue_full": 152}, {}, final=True)
    assert caplog.messages[-1].startswith("2 events dropped")


class Raising(logging.Filter):
    """A filter of the application that fails."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("logging is broken")


def test_broken_logging_does_not_stop_publishing(monkeypatch: pytest.MonkeyPatch, publishers: list[Publisher]) -> None:
    """An exception in the application's logging leaves the thread alive."""
    publisher, producer = faulty(monkeypatch, publishers, lambda: None)
    logger, broken = logging.getLogger("ragweir.publish"), Raising()
    logger.addFilter(broken)
    try:
        for _ in range(3):
            publisher.publish({})
            assert publisher.flush(60)
            publisher.publish(WHOLE)
            assert publisher.flush(60)
    finally:
        logger.removeFilter(broken)
    assert len(producer.values) == 3
