"""How the cost of an event grows: with its size, its contexts, the label sets of a window, and the partitions.

    .venv/bin/python -m bench.growth             # the tables, and the picture docs/growth.svg

Sizes, contexts and label sets are measured without Kafka, the token limit lifted; partitions with it. So is what the
restore of windows costs after a long history.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, cycle, islice
from pathlib import Path

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.table import Table

from bench import tables
from bench.aggregation import evaluations
from bench.interactions import interactions
from bench.peer_loops import OURS, Task
from bench.peers_kafka import measure
from bench.scoring import tokenised
from bench.timing import microseconds
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from ragweir.streams.agent import Assignment
from ragweir.streams.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.records import Record
from ragweir.streams.runtimes.restore import KafkaChangelog
from ragweir.streams.settings import Settings, WindowSettings
from tools.plot import Panel, svg

KILOBYTES = (1, 4, 16, 64, 256, 1024)
CONTEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LABEL_SETS = (1, 10, 50, 100, 200, 500, 1_000)
PARTITIONS = (1, 4, 16, 64, 256)
EVENTS = 40_000
PICTURE = Path(__file__).parents[1] / "docs" / "growth.svg"
_UNLIMITED = TextLimits(max_tokens=10**9)
_COMMIT = 1_000
"""Events of one commit of windows."""
_CONTEXT_BYTES = 500
_VOCABULARY = 20_000
_SYLLABLES = "ba co di fe gu la mo ni pe ru sa te vo wi zu".split()
_JOINING = "the of and to in is that covers which may not 12 $1,200 2.5% Dec 9, 2025".split()


def _vocabulary(rng: random.Random) -> list[str]:
    words = ("".join(rng.choices(_SYLLABLES, k=rng.randrange(2, 5))) for _ in range(_VOCABULARY))
    return [word.title() if rng.random() < 0.1 else word for word in words]


class _Writer:
    """Text with new words as it goes on, as people write: word frequencies fall with their rank."""

    def __init__(self) -> None:
        self._rng = random.Random(7)
        self._words = _vocabulary(self._rng)
        self._weights = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))

    def text(self, size: int) -> str:
        """About that many characters."""
        rng = self._rng
        words = rng.choices(self._words, cum_weights=self._weights, k=size // 7)
        for place in range(0, len(words), 2):
            words[place] = rng.choice(_JOINING)
        for place in range(12, len(words), 13):
            words[place] += "."
        return " ".join(words)[:size]


@dataclass(frozen=True, slots=True)
class Growth:
    """What grows, and what it costs: per amount the CPU microseconds of an event, and other figures by name."""

    title: str
    amount: str
    costs: Sequence[tuple[int, float]]
    beside: Sequence[tuple[str, Sequence[float]]] = ()
    per_amount: bool = True
    """Whether the cost of each is told too: where that stays level, growth is linear."""

    def table(self) -> Table:
        """One row per amount."""
        result = Table(title=self.title, title_justify="left")
        named = [f"µs per event and {self.amount}"] if self.per_amount else []
        for name in (self.amount, "µs per event", *(name for name, _ in self.beside), *named):
            result.add_column(name, justify="right")
        for place, (amount, cost) in enumerate(self.costs):
            others = [f"{values[place]:,.0f}" for _, values in self.beside]
            each = [f"{cost / amount:,.1f}"] if self.per_amount else []
            result.add_row(f"{amount:,}", f"{cost:,.1f}", *others, *each)
        return result

    def panel(self) -> Panel:
        """The same as a chart."""
        return Panel(
            self.title, self.amount, "CPU µs per event", {"measured": self.costs}, log_across=True, log_up=True
        )


def _event(kilobytes: int) -> Interaction:
    writer, size = _Writer(), kilobytes * 1024
    contexts = [writer.text(size * 14 // 100) for _ in range(5)]
    # Half of the answer is taken from the contexts.
    response = "".join(text[: size // 50] for text in contexts) + writer.text(size // 10)
    fields = {"event_id": "1", "query": writer.text(size // 50), "response": response}
    fields |= {"expected": response[: size // 25], "contexts": [{"text": text, "score": 0.5} for text in contexts]}
    return decode(orjson.dumps(fields), max_bytes=1 << 30)


def sizes() -> Growth:
    """By kilobytes of the event, five contexts each."""
    catalogue = Catalogue(everything())
    costs, reading = [], []
    for kilobytes in KILOBYTES:
        events = [_event(kilobytes)] * max(64 // kilobytes, 1)
        reading.append(microseconds(partial(_each, tokenised, events), len(events)))
        costs.append((kilobytes, microseconds(partial(_each, catalogue.score, events), len(events))))
    return Growth("Scoring, by the size of the event", "KB", costs, [("of that tokenising", reading)])


def contexts() -> Growth:
    """By the number of contexts; beyond `limits.max_contexts` they are left out."""
    catalogue, writer = Catalogue(everything()), _Writer()
    texts = [writer.text(_CONTEXT_BYTES) for _ in range(max(CONTEXTS))]
    fields = {"event_id": "1", "query": writer.text(90), "expected": writer.text(150)}
    fields["response"] = f"{texts[0][:300]} {writer.text(300)}"
    costs = []
    for count in CONTEXTS:
        each = [{"text": text, "score": 0.5, "rank": place} for place, text in enumerate(texts[:count], 1)]
        events = [decode(orjson.dumps(fields | {"contexts": each}))] * max(16 // count, 1)
        costs.append((count, microseconds(partial(_each, catalogue.score, events), len(events))))
    title = f"Scoring, by contexts of {_CONTEXT_BYTES} bytes; at most {_UNLIMITED.max_contexts} are read"
    return Growth(title, "contexts", costs)


def _each(work: Callable[[View], object], events: Iterable[Interaction]) -> None:
    for event in events:
        work(View(event, _UNLIMITED))


def label_sets() -> Growth:
    """By the label sets among the events of one commit; beyond `windows.max_series` they are counted together."""
    config = AggregateConfig(Aggregator(Catalogue(everything())))
    costs, written = [], []
    for count in LABEL_SETS:
        records = list(_labelled(count))
        agent = AggregateAgent(config)
        agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
        emitted: list[int] = []

        def commit(
            agent: AggregateAgent = agent, records: list[Record] = records, emitted: list[int] = emitted
        ) -> None:
            emitted.append(len(agent.handle(records).emissions))
            agent.on_commit()

        costs.append((count, microseconds(commit, len(records))))
        written.append(emitted[-1])
    title = f"Windows, by label sets in a commit of {_COMMIT:,}; at most {WindowSettings().max_series} are kept apart"
    return Growth(title, "label sets", costs, [("records written", written)], per_amount=False)


def _commit(agent: AggregateAgent, records: Sequence[Record]) -> int:
    emitted = len(agent.handle(records).emissions)
    agent.on_commit()
    return emitted


def _labelled(count: int) -> Iterator[Record]:
    """Evaluations of one minute, spread over so many label sets."""
    for number, value in enumerate(evaluations(_COMMIT)):
        fields = orjson.loads(value) | {"application": f"app-{number % count}", "model": "m"}
        stamp = int(datetime.fromisoformat(fields["event_time"]).timestamp() * 1_000)
        yield Record("evaluations", 0, number, None, orjson.dumps(fields), stamp)


def partitions(events: int = EVENTS) -> Growth:
    """By the partitions of input and output: one worker on Kafka, null work, so that it is the runtime's own cost."""
    costs, rates = [], []
    values = list(interactions(min(events, 2_000)))
    with local_kafka() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for count in PARTITIONS:
            task = Task(broker.bootstrap, f"growth{count}.", f"growth{count}.input", "null", events)
            names = [task.source, *(f"{task.prefix}{name}" for name in ("evaluations", "dead-letter"))]
            for future in admin.create_topics([NewTopic(name, count) for name in names]).values():
                future.result(60)
            _fill(broker.bootstrap, task.source, values, events)
            measured = measure(OURS, task)
            if measured.why:
                raise RuntimeError(f"{count} partitions: {measured.why}")
            costs.append((count, measured.cpu_s / measured.events * 1e6))
            rates.append(measured.events / measured.seconds)
            admin.delete_topics(names)
    title = f"Kafka to Kafka, null work, {events:,} events, by partitions"
    return Growth(title, "partitions", costs, [("events/s", rates)], per_amount=False)


_PER_MINUTE = 4
"""Events of one minute of a history, each of them a commit."""


def restore(days: int) -> Table:
    """Restoring one partition of windows after so many days of little traffic, with and without the offset.

    The history is written in large transactions, with fewer end marks than the agent counts, so that its offset is too
    high and the next restore reads everything. That worker goes on for three hours, with a transaction for each commit
    as the service has it.
    """
    settings = {"topics": {"prefix": "restore."}}
    config = AggregateConfig(Aggregator(Catalogue(everything())))
    events = [orjson.loads(value) for value in evaluations(100)]
    start, total = datetime.fromisoformat("2026-01-01T00:00Z"), days * 1_440
    with local_kafka() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("restore.windows", 1)])["restore.windows"].result(60)
        made = Settings.model_validate(settings | {"kafka": {"bootstrap_servers": broker.bootstrap}})
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": "restore",
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        producer.init_transactions(30)

        def restored(offset: int) -> tuple[AggregateAgent, int, float]:
            changelog = KafkaChangelog(made, "windows", 0, lambda: False, lambda: None)
            agent = AggregateAgent(config)
            began = time.perf_counter()
            agent.on_assigned(Assignment(("restore.evaluations", 0), offset or None, offset, changelog))
            return agent, changelog.read, time.perf_counter() - began

        def work(agent: AggregateAgent, first: int, last: int, commits: int) -> None:
            for number in range(first, last):
                at = start + timedelta(seconds=60 / _PER_MINUTE * number)
                fields = {**events[number % len(events)], "event_time": at, "application": "a", "model": "m"}
                stamp = int(at.timestamp() * 1_000)
                record = Record("restore.evaluations", 0, number, None, orjson.dumps(fields), stamp)
                if number % commits == 0:
                    producer.begin_transaction()
                for emission in agent.handle([record]).emissions:
                    producer.produce("restore.windows", emission.value, emission.key, emission.partition)
                producer.poll(0)
                agent.on_commit()
                if number % commits == commits - 1 or number == last - 1:
                    producer.commit_transaction(60)

        history, end = total * _PER_MINUTE, (total + 180) * _PER_MINUTE
        agent, _, _ = restored(0)
        work(agent, 0, history, 1_000)
        agent, everything_read, full_s = restored(history)
        work(agent, history, end, 1)
        _, read, seconds = restored(end)
    columns = ("days", "commits", "read without the offset", "s", "read with it", "s")
    result = Table(*columns, title="Restoring one partition of windows from Kafka", title_justify="left")
    result.add_row(str(days), f"{end:,}", f"{everything_read:,}", f"{full_s:.1f}", f"{read:,}", f"{seconds:.1f}")
    return result


def _fill(bootstrap: str, topic: str, values: Sequence[bytes], events: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4", "log_level": 0})
    for number, value in enumerate(islice(cycle(values), events)):
        producer.produce(topic, value, f"bench-{number}".encode())
        if number % 1_000 == 0:
            producer.poll(0.01)
    if producer.flush(60):
        raise RuntimeError("the broker did not take the events")


def table() -> Table:
    """Growth with size, for `make bench`."""
    return sizes().table()


def main() -> None:
    """Print the tables and make the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--events", type=int, default=EVENTS, help="per row of the table of partitions; 0 leaves it out"
    )
    parser.add_argument("--days", type=int, default=30, help="history before a restore; 0 leaves it out")
    parser.add_argument("--markdown", action="store_true", help="print tables as markdown")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes")
    chosen = parser.parse_args()
    found: list[Growth] = []
    where = tables.machine()

    def each() -> Iterator[Table]:
        if chosen.days:
            yield restore(chosen.days)
        works = [sizes, contexts, label_sets, *([partial(partitions, chosen.events)] if chosen.events else [])]
        for work in works:
            found.append(work())
            yield found[-1].table()

    tables.show(each(), as_markdown=chosen.markdown)
    notes = ("CPU time, without Kafka of the least disturbed of many rounds. All axes are logarithmic.", where)
    picture = svg("What an event costs as things grow", notes, [each.panel() for each in found])
    chosen.picture.write_text(picture, encoding="utf-8")
    print(f"\n{chosen.picture}")


if __name__ == "__main__":
    main()
