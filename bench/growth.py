"""Growth of an event's cost with its size, its contexts, the label sets of a window, and the partitions.

Sizes, contexts and label sets are measured without Kafka and without the token limit, partitions with Kafka. Another
table shows the restore of windows after a long history.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, cycle, islice
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Producer
from rich.table import Table

from bench import hostile
from bench.aggregation import commit, evaluations, new_agent
from bench.interactions import interactions
from bench.kafka_loops import RAGWEIR, LoopTask, measure, publish, topics
from bench.scoring import counted, countings
from bench.timing import microseconds, side_by_side
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import Counting, TextLimits, View
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.recovery.restore import KafkaChangelog
from ragweir.streams.services.aggregate.agent import AggregateAgent
from ragweir.streams.settings import Settings, WindowSettings
from tools.plot import Panel, svg
from tools.tables import machine

KILOBYTES = (1, 4, 16, 64, 256, 1024)
CONTEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LABEL_SETS = (1, 10, 50, 100, 200, 500, 1_000)
PARTITIONS = (1, 4, 16, 64, 256)
EVENTS = 40_000
_ATTACK_KILOBYTES = (64, 128, 256)
PICTURE = Path(__file__).parents[1] / "docs" / "growth.svg"
_UNLIMITED = TextLimits(max_tokens=10**9)
_COMMIT = 1_000
"""Events of one commit of windows."""
_CONTEXT_BYTES = 500
_VOCABULARY = 20_000
_SYLLABLES = "ba co di fe gu la mo ni pe ru sa te vo wi zu".split()
_JOINING = "the of and to in is that covers which may not 12 $1,200 2.5% Dec 9, 2025".split()


class _Writer:
    """Generates text in which, as in real text, word frequencies fall with their rank and new words go on coming."""

    def __init__(self) -> None:
        self._rng = rng = random.Random(7)
        words = ("".join(rng.choices(_SYLLABLES, k=rng.randrange(2, 5))) for _ in range(_VOCABULARY))
        self._words = [word.title() if rng.random() < 0.1 else word for word in words]
        self._weights = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))

    def text(self, size: int) -> str:
        """Return about that many characters."""
        rng = self._rng
        words = rng.choices(self._words, cum_weights=self._weights, k=size // 7)
        for index in range(0, len(words), 2):
            words[index] = rng.choice(_JOINING)
        for index in range(12, len(words), 13):
            words[index] += "."
        return " ".join(words)[:size]


@dataclass(frozen=True, slots=True)
class Growth:
    """CPU microseconds of an event by an amount."""

    title: str
    amount: str
    lines: Mapping[str, Sequence[tuple[int, float]]]
    """The costs by the name of what is measured, each with the amount; all lines have the same amounts."""
    other: tuple[str, Sequence[float]] | None = None
    """Another figure of each row, with its name."""
    per_amount: bool = True
    """True if the table has the cost divided by the amount: where that is level, growth is linear."""

    def table(self) -> Table:
        """Return one row per amount."""
        result = Table(self.amount, title=self.title)
        for name in self.lines:
            result.add_column(f"µs per event, {name}")
            if self.per_amount:
                result.add_column(f"per {self.amount}")
        if self.other:
            result.add_column(self.other[0])
        for row, costs in enumerate(zip(*self.lines.values(), strict=True)):
            cells = [f"{costs[0][0]:,}"]
            for amount, cost in costs:
                cells += [f"{cost:,.1f}", *([f"{cost / amount:,.1f}"] if self.per_amount else [])]
            result.add_row(*cells, *([f"{self.other[1][row]:,.0f}"] if self.other else []))
        return result

    def panel(self) -> Panel:
        """Return the same as a chart."""
        return Panel(self.title, self.amount, "CPU µs per event", self.lines, log_across=True, log_up=True)


def _event(kilobytes: int) -> Interaction:
    writer, size = _Writer(), kilobytes * 1024
    contexts = [writer.text(size * 14 // 100) for _ in range(5)]
    # Half of the response is taken from the contexts.
    response = "".join(text[: size // 50] for text in contexts) + writer.text(size // 10)
    fields: dict[str, Any] = {"event_id": "1", "query": writer.text(size // 50), "response": response}
    fields |= {"expected": response[: size // 25], "contexts": [{"text": text, "score": 0.5} for text in contexts]}
    return decode(orjson.dumps(fields), max_bytes=1 << 30)


def _each(work: Callable[[View], object], events: Iterable[Interaction], counting: Counting) -> None:
    for event in events:
        work(View(event, _UNLIMITED, counting))


def _costs(make: Callable[[int], Sequence[Interaction]], amounts: Sequence[int]) -> dict[str, list[tuple[int, float]]]:
    """Return the costs of scoring, and of counting alone, for the events of each amount by each way of counting."""
    catalogue, costs = Catalogue(everything()), dict[str, list[tuple[int, float]]]()
    for amount in amounts:
        events = make(amount)
        works = {
            name: partial(_each, work, events, counting)
            for way, counting in countings().items()
            for name, work in ((way, catalogue.score), (f"{way}, counting alone", counted))
        }
        for name, cost in side_by_side(works, len(events)).items():
            costs.setdefault(name, []).append((amount, cost))
    return costs


def sizes() -> Growth:
    """Measure by kilobytes of the event, five contexts each."""
    costs = _costs(lambda kilobytes: [_event(kilobytes)] * max(64 // kilobytes, 1), KILOBYTES)
    return Growth("Scoring, by the size of the event", "KB", costs)


def contexts() -> Growth:
    """Measure by the number of contexts; those beyond `limits.max_contexts` are not read."""
    writer = _Writer()
    texts = [writer.text(_CONTEXT_BYTES) for _ in range(max(CONTEXTS))]
    fields = {"event_id": "1", "query": writer.text(90), "expected": writer.text(150)}
    fields["response"] = f"{texts[0][:300]} {writer.text(300)}"

    def events(count: int) -> Sequence[Interaction]:
        each = [{"text": text, "score": 0.5, "rank": rank} for rank, text in enumerate(texts[:count], 1)]
        return [decode(orjson.dumps(fields | {"contexts": each}))] * max(16 // count, 1)

    title = f"Scoring, by contexts of {_CONTEXT_BYTES} bytes; at most {_UNLIMITED.max_contexts} are read"
    return Growth(title, "contexts", _costs(events, CONTEXTS))


def attacks() -> Table:
    """Return the factor of the time by which each attack grows when its size doubles, by each way of counting."""
    catalogue, ways = Catalogue(everything()), countings()
    title = f"Attack texts without the limit on tokens, {_ATTACK_KILOBYTES[-1]} KB; 2 is linear"
    columns = (name for way in ways for name in (f"ms, {way}", "to half of it", "half to a quarter"))
    result = Table("event", *columns, title=title)
    for shape, make in hostile.PRODUCTS.items():
        costs = []
        for kilobytes in _ATTACK_KILOBYTES:
            events = [decode(hostile.event(make(kilobytes * 1024)), max_bytes=1 << 30)]
            works = {way: partial(_each, catalogue.score, events, counting) for way, counting in ways.items()}
            costs.append(side_by_side(works, 1, enough_s=0.5))
        cells = []
        for way in ways:
            quarter, half, whole = (each[way] for each in costs)
            cells += [f"{whole / 1_000:,.1f}", f"{whole / half:.2f}", f"{half / quarter:.2f}"]
        result.add_row(shape, *cells)
    return result


def label_sets() -> Growth:
    """Measure by the label sets among the events of one commit; those beyond `windows.max_series` share one."""
    costs, written = [], []
    for count in LABEL_SETS:
        agent, records = new_agent(), list(_labelled(count))
        costs.append((count, microseconds(partial(commit, agent, records), len(records))))
        written.append(commit(agent, records))
    title = f"Windows, by label sets in a commit of {_COMMIT:,}; at most {WindowSettings().max_series} are kept apart"
    return Growth(title, "label sets", {"aggregate": costs}, ("records written", written), per_amount=False)


def _labelled(count: int) -> Iterator[Record]:
    """Yield evaluations of one minute, spread over that many label sets."""
    for number, value in enumerate(evaluations(_COMMIT)):
        fields = orjson.loads(value) | {"application": f"app-{number % count}", "model": "m"}
        yield _record("evaluations", number, datetime.fromisoformat(fields["event_time"]), fields)


def _record(topic: str, offset: int, at: datetime, fields: object) -> Record:
    return Record(topic, 0, offset, None, orjson.dumps(fields), int(at.timestamp() * 1_000))


def partitions(events: int = EVENTS) -> Growth:
    """Measure the runtime alone, with null work, by the partitions of input and output."""
    costs, rates = [], []
    values = list(interactions(min(events, 2_000)))
    with local_kafka() as broker:
        for count in PARTITIONS:
            task = LoopTask(broker.bootstrap, f"growth{count}.", f"growth{count}.input", "null", events)
            with topics(broker.bootstrap, task.source, *task.topics, partitions=count):
                publish(broker.bootstrap, task.source, islice(cycle(values), events))
                measured = measure(RAGWEIR, task)
            costs.append((count, measured.cpu_us))
            rates.append(measured.rate)
    title = f"Kafka to Kafka, null work, {events:,} events, by partitions"
    return Growth(title, "partitions", {"null work": costs}, ("events/s", rates), per_amount=False)


_PER_MINUTE = 4
"""Events of one minute of a history, each of them a commit."""


class _History:
    """Windows of little traffic in a topic of one partition, and their restore."""

    def __init__(self, bootstrap: str) -> None:
        fields = {"topics": {"prefix": "restore."}, "kafka": {"bootstrap_servers": bootstrap}}
        self._settings = Settings.model_validate(fields)
        self._events = [orjson.loads(value) for value in evaluations(100)]
        properties = {"transactional.id": "restore", "compression.type": "lz4", "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, **properties})
        self._producer.init_transactions(30)

    def restored(self, offset: int) -> tuple[AggregateAgent, int, float]:
        """Return an agent at this offset, the number of records that it read, and the seconds that it took."""
        changelog, agent = KafkaChangelog(self._settings, "windows", 0, lambda: False), new_agent()
        began = time.perf_counter()
        agent.on_assigned(Assignment(("restore.evaluations", 0), offset or None, offset, changelog))
        return agent, changelog.read, time.perf_counter() - began

    def write(self, agent: AggregateAgent, first: int, last: int, commits: int) -> None:
        """Write the windows after each of these events, that many commits in one transaction."""
        start = datetime.fromisoformat("2026-01-01T00:00Z")
        for number in range(first, last):
            at = start + timedelta(seconds=60 / _PER_MINUTE * number)
            event = self._events[number % len(self._events)]
            fields = {**event, "event_time": at, "application": "a", "model": "m"}
            if number % commits == 0:
                self._producer.begin_transaction()
            agent.handle([_record("restore.evaluations", number, at, fields)])
            for emission in agent.tick(0.0, (), 1).emissions:
                self._producer.produce("restore.windows", emission.value, emission.key, emission.partition or 0)
            self._producer.poll(0)
            agent.on_commit()
            if number % commits == commits - 1 or number == last - 1:
                self._producer.commit_transaction(60)


def restore(days: int) -> Table:
    """Restore one partition of windows after so many days of little traffic, with and without the stored offset.

    The history is written in large transactions, with fewer end marks than the agent counts, so that its offset is too
    high and the next restore reads everything. That agent goes on for three hours, with a transaction for each commit
    as the service has it.
    """
    end = (days * 1_440 + 180) * _PER_MINUTE
    history = days * 1_440 * _PER_MINUTE
    with local_kafka() as broker, topics(broker.bootstrap, "restore.windows", partitions=1):
        windows = _History(broker.bootstrap)
        windows.write(windows.restored(0)[0], 0, history, 1_000)
        agent, everything_read, full_s = windows.restored(history)
        windows.write(agent, history, end, 1)
        _, read, seconds = windows.restored(end)
    columns = ("days", "commits", "records read without the offset", "s", "records read with it", "s")
    result = Table(*columns, title="Restoring one partition of windows from Kafka")
    result.add_row(str(days), f"{end:,}", f"{everything_read:,}", f"{full_s:.1f}", f"{read:,}", f"{seconds:.1f}")
    return result


def tables(events: int = EVENTS, days: int = 30, picture: Path = PICTURE) -> Iterator[Table]:
    """Yield all tables of growth, and draw the picture.

    The table of partitions has so many events a row, and that of a restore so many days of history; 0 leaves it out.
    """
    yield attacks()
    if days:
        yield restore(days)
    found: list[Growth] = []
    works: list[Callable[[], Growth]] = [sizes, contexts, label_sets]
    works += [partial(partitions, events)] if events else []
    for work in works:
        found.append(work())
        yield found[-1].table()
    notes = ("CPU time, without Kafka of the least disturbed of many rounds. All axes are logarithmic.", machine())
    drawn = svg("What an event costs as things grow", notes, [each.panel() for each in found])
    picture.write_text(drawn, encoding="utf-8")
    print(f"\n{picture}")
