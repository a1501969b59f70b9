"""The history of windows: what a topic of them holds, merged into all sizes, in order, and in bounded memory."""

import gc
import random
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from conftest import SharedBroker, create_topic

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.metrics.aggregation.merger import WindowMerger
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.packed_scores import row_of
from ragweir.schemas.window import OVERFLOW, EstimateSums, Progress, Window, duration_s
from ragweir.streams.analysis.backfill.output_formats import JsonLines, OutputFormat, write
from ragweir.streams.analysis.backfill.windows import UnusedReason, windows
from ragweir.streams.runtime.kafka import compaction as latest
from ragweir.streams.runtime.kafka.compaction import CompactedRecords
from ragweir.streams.runtime.kafka.reader import OnProgress
from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.services.aggregate.window_times import start_of
from ragweir.streams.services.aggregate.windowing import Windowing, of_all_sizes
from ragweir.streams.services.shared.dimensions import admission_limits
from ragweir.streams.settings import Settings, WindowSettings, load

SIZES = ("1m", "3m", "5m", "1h")
DIMENSIONS = ("application", "labels.region")
PARTITIONS = 3
BEGIN = datetime(2026, 1, 1, 10, 41, tzinfo=UTC)
TOTALS = Aggregator(Catalogue(everything()))
MINUTE = timedelta(minutes=1)

Keyed = tuple[bytes, bytes | None]


def evaluations(seed: int, count: int = 600) -> list[Evaluation]:
    """Two hours with a gap, of two catalogue versions; one in five is judged besides."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        minute = draw.choice((*range(50), *range(90, 120)))
        suite = SuiteDecision(suite="rubric", status=draw.choice(("selected", "not_selected")), probability=0.2)
        own = Evaluation(
            event_id=str(number),
            event_time=BEGIN + timedelta(minutes=minute, milliseconds=draw.randrange(60_000)),
            application=draw.choice(("a", "b", None)),
            labels={"region": draw.choice(('e"u', "us"))},
            scores={"context_support": draw.choice((None, draw.random())), "total_latency_ms": draw.uniform(0, 1e4)},
            categories={"recall_warning": draw.choice((None, "HIT_RETRIEVAL_LIMIT"))},
            decision=Decision(suites=(suite,)),
            catalogue_version="1" if minute < 44 else draw.choice("12"),
        )
        made.append(own)
        if draw.random() < 0.2:
            decision = Decision(suites=(suite.model_copy(update={"status": "judged"}),))
            scores = {"judge_relevance": draw.random()}
            made.append(own.model_copy(update={"stage": "judged", "decision": decision, "scores": scores}))
    return made


def labels_of(own: Evaluation) -> Labels:
    return own.application or "", own.labels["region"]


def contents_of(own: list[Evaluation]) -> WindowAggregate:
    """All of them, summed up at once: nothing is merged."""
    return TOTALS.aggregate([row_of(each) for each in own], [""] * len(own))[""]


def plain(own: list[Evaluation]) -> Iterator[tuple[Any, ...]]:
    """Every window by its own evaluations."""
    for size in SIZES:
        length = timedelta(seconds=duration_s(size))
        groups: defaultdict[tuple[datetime, Labels], list[Evaluation]] = defaultdict(list)
        for each in own:
            groups[start_of(each.event_time, length), labels_of(each)].append(each)
        for (start, labels), members in groups.items():
            fields = contents_of(members).fields(whole=True)
            for metric in fields["metrics"].values():
                metric["histogram"]["bins"] = {str(each): count for each, count in metric["histogram"]["bins"].items()}
            yield start + length, length, labels, size, start, fields


def modelled(found: Iterable[MergedWindow]) -> list[Window]:
    """The windows as a reader of their records has them."""
    return [Window.model_validate_json(each.encode()) for each in found]


def must_be_plain(found: list[Window], own: list[Evaluation]) -> None:
    """The same windows with the same contents, ascending by end, then length, then label set."""
    expected = sorted(plain(own), key=lambda window: window[:3])
    assert len(found) == len(expected)
    for window, (end, _, labels, size, start, fields) in zip(found, expected, strict=True):
        assert (window.end, tuple(window.dimensions.values()), window.window, window.start) == (
            end,
            labels,
            size,
            start,
        )
        assert (window.partition, window.part, window.revision, window.closed) == (None, None, None, True)
        # By way of JSON: fields that a model was made of and the model differ in kinds of numbers, not in values.
        assert orjson.loads(encode(window)).items() >= orjson.loads(orjson.dumps(fields)).items()
        for metric in window.metrics.values():
            assert list(metric.histogram.bins) == sorted(metric.histogram.bins, key=int)


def record(own: list[Evaluation], partition: int, part: int, size: str = "1m") -> tuple[bytes, bytes]:
    """A part of a base window as the aggregate agent writes it."""
    start = start_of(own[0].event_time, MINUTE)
    dimensions = dict(zip(DIMENSIONS, labels_of(own[0]), strict=True))
    window = Window(
        window=size,
        start=start,
        end=start + timedelta(seconds=duration_s(size)),
        dimensions=dimensions,
        partition=partition,
        part=part,
        revision=len(own),
        **contents_of(own).fields(),
    )
    return orjson.dumps([start, dimensions, partition, part], option=orjson.OPT_UTC_Z), encode(window)


def topic_of(own: list[Evaluation], seed: int) -> list[tuple[int, Keyed]]:
    """Partitions and records: up to three parts of a window in a partition, each in revisions, some of them removed.

    The order of keys is any; that of a key's own records is kept. Partitions tell their progress in between.
    """
    draw = random.Random(seed)
    parts: defaultdict[tuple[Any, ...], list[Evaluation]] = defaultdict(list)
    for each in own:
        place = draw.randrange(PARTITIONS), draw.randrange(3)
        parts[start_of(each.event_time, MINUTE), labels_of(each), *place].append(each)
    histories: list[list[tuple[int, Keyed]]] = []
    for (_, _, partition, part), members in parts.items():
        cuts = sorted({draw.randint(1, len(members)), draw.randint(1, len(members)), len(members)})
        revisions: list[Keyed] = [record(members[:cut], partition, part) for cut in cuts]
        if draw.random() < 0.2:
            revisions.insert(draw.randrange(len(revisions)), (revisions[0][0], None))
        histories.append([(partition, each) for each in revisions])
        if draw.random() < 0.1:  # What was never meant to be: it goes again.
            key, value = record(members, partition, part + 10)
            histories.append([(partition, (key, value)), (partition, (key, None))])
    for partition in range(PARTITIONS):
        told = Progress(partition=partition, next_offset=1, watermark=BEGIN, idle=False)
        histories.append([(partition, (orjson.dumps(["progress", partition]), encode(told)))] * 3)
    turns = [history for history in histories for _ in history]
    draw.shuffle(turns)
    following = {id(history): iter(history) for history in histories}
    return [next(following[id(history)]) for history in turns]


def publish(kafka: SharedBroker, prefix: str, records: list[tuple[int, Keyed]]) -> None:
    topic = create_topic(kafka.bootstrap, f"{prefix}windows", PARTITIONS, {"cleanup.policy": "compact,delete"})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for partition, (key, value) in records:
        producer.produce(topic, value, key, partition)
    assert producer.flush(30) == 0


def settings(kafka: SharedBroker, **more: Any) -> Settings:
    own = {"sizes": SIZES, "dimensions": DIMENSIONS, **more}
    return load(None, {"kafka": {"bootstrap_servers": kafka.bootstrap}, "windows": own})


class Watched:
    """What is told of progress."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.steps: Counter[str] = Counter()

    def __call__(self, what: str, size: int) -> OnProgress:
        self.sizes[what] = size

        def moved(step: int) -> None:
            self.steps[what] += step

        return moved


# The topic.


def test_a_topic_comes_to_the_windows_of_its_evaluations(kafka: SharedBroker, prefix: str) -> None:
    """Parts, partitions, revisions and tombstones in any order: every size holds what its evaluations come to."""
    own = evaluations(1)
    publish(kafka, prefix, topic_of(own, 2))
    watched, left_out = Watched(), Counter[UnusedReason]()
    found = list(windows(settings(kafka), prefix, watched, left_out))
    must_be_plain(modelled(found), own)
    assert not left_out
    assert list(watched.sizes) == [f"{prefix}windows", "merging"]
    assert watched.steps == watched.sizes, "progress ends at its end"
    windowing = Windowing(settings(kafka).windows, TOTALS)
    for each in reversed(own):
        windowing.add(each)
    assert [window.encode() for window in found] == [window.encode() for window in windowing.windows()]


def poison(own: list[Evaluation]) -> list[Keyed]:
    """Records that are no parts of our windows: six unreadable ones, and one of other windows."""
    key, value = record(own, 0, 77)
    data = orjson.loads(value)
    start, dimensions, *place = orjson.loads(key)
    estimate = EstimateSums(
        suite="another", count=1, drawn=0, weight=1.0, weighted_sum=1.0, drawn_sum=0, spread=0, spread_sum=0,
        spread_squares=0,
    )  # fmt: skip
    return [
        (b"{", value),
        (b'["progress"]', value),
        (orjson.dumps(["9999-12-31T23:59:00Z", dimensions, *place]), value),
        (orjson.dumps(["2026-01-01T10:41:00Z", dimensions, 5, 5]), value.replace(b":41:00Z", b":47:00Z")),
        (orjson.dumps([start, dimensions, 6, 6]), b"[]"),
        (
            orjson.dumps([start, dimensions, 7, 7]),
            orjson.dumps(data | {"estimates": {"judge_relevance": estimate.model_dump()}}),
        ),
        (orjson.dumps([start, dimensions, 8, 8]), orjson.dumps(data | {"window": "30s"})),
    ]


def test_what_is_no_window_is_counted(kafka: SharedBroker, prefix: str) -> None:
    """Records that cannot be read, or merged with the others, are left out and counted; the rest is whole."""
    own = evaluations(3, 60)
    last = max(own, key=lambda each: each.event_time)
    publish(kafka, prefix, [(0, each) for each in poison([last])] + topic_of(own, 4))
    left_out = Counter[UnusedReason]()
    must_be_plain(modelled(windows(settings(kafka), prefix, Watched(), left_out)), own)
    assert left_out == {"unreadable": 6, "other_size": 1}


def test_windows_of_other_sizes_are_rejected(kafka: SharedBroker, prefix: str) -> None:
    """A topic that was written with another base size is rejected in a sentence; one without windows has none."""
    publish(kafka, prefix, topic_of(evaluations(5, 30), 6))
    with pytest.raises(PermanentError, match=r"are not of 30s; set windows\.sizes"):
        list(windows(settings(kafka, sizes=("30s", "1m")), prefix, Watched()))
    empty = f"{prefix}empty."
    create_topic(kafka.bootstrap, f"{empty}windows")
    assert list(windows(settings(kafka), empty, Watched())) == []
    with pytest.raises(PermanentError, match="there is no topic"):
        list(windows(settings(kafka), f"{prefix}none.", Watched()))


def test_a_full_disk_is_said(kafka: SharedBroker, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the temporary folder takes no more, the sentence says what to set."""
    publish(kafka, prefix, topic_of(evaluations(5, 30), 6))
    monkeypatch.setattr(latest, "_SETUP", f"{latest._SETUP} pragma max_page_count = 4;")
    monkeypatch.setattr(CompactedRecords.__init__, "__defaults__", (1_000,))
    with pytest.raises(PermanentError, match=r"\(database or disk is full\); set TMPDIR"):
        list(windows(settings(kafka), prefix, Watched()))


# Merging.


def base(minute: int, *applications: str, version: str = "1", events: int = 1) -> tuple[datetime, dict[Labels, Any]]:
    return BEGIN + minute * MINUTE, {(each,): WindowAggregate(events, versions={version}) for each in applications}


def one_dimension(**more: Any) -> WindowSettings:
    return WindowSettings.model_validate({"sizes": ("1m", "5m"), "dimensions": ("application",), **more})


def test_a_window_is_given_once_nothing_more_can_come() -> None:
    """A larger window comes with the first base window at or past its end, and before that one's own."""
    read: list[int] = []

    def bases() -> Iterator[tuple[datetime, dict[Labels, Any]]]:
        for minute in (0, 3, 4, 21):
            read.append(minute)
            yield base(minute, "a")

    found = [(len(read), each.size, (each.end - BEGIN) // MINUTE) for each in of_all_sizes(bases(), one_dimension())]
    assert found == [(2, "1m", 1), (3, "1m", 4), (3, "5m", 4), (4, "1m", 5), (4, "5m", 9), (4, "1m", 22), (4, "5m", 24)]


def test_base_windows_must_ascend() -> None:
    """One that comes twice or too late is an error: its larger windows may be gone."""
    for minutes in ((3, 3), (3, 2)):
        with pytest.raises(ValueError, match="comes after"):
            list(of_all_sizes((base(minute, "a") for minute in minutes), one_dimension()))


def test_every_size_keeps_to_its_cap() -> None:
    """The busiest label sets of the first base window stay, others find no place; nothing is lost."""
    bases = [base(minute, *(f"{minute}-{each}" for each in range(9)), "z", events=2) for minute in range(4, 9)]
    for _, sets in bases:
        sets["z",].events = 50
    found = modelled(of_all_sizes(bases, one_dimension(max_series=3)))
    assert Counter(window.window for window in found) == {"1m": 4 + 4 * 2, "5m": 4}
    assert sum(window.events for window in found) == 2 * 5 * (9 * 2 + 50)
    five = {window.dimensions["application"]: window.events for window in found if window.window == "5m"}
    assert five == {"z": 250, "4-0": 2, "4-1": 2, OVERFLOW: 86}
    assert bases[0][1]["z",].events == 50, "what was given stays as it is"


def test_history_is_what_was_shown_live() -> None:
    """Over the cap too: every window is the one that `export` showed when it closed."""
    chosen = one_dimension(max_series=2)
    closing = WindowMerger(
        chosen.sizes, chosen.dimensions, TOTALS.decoder(), grace_s=0, limits=admission_limits(chosen)
    )
    draw = random.Random(7)
    bases = [base(minute, *draw.sample("abcdef", 4)) for minute in range(40)]
    for _, sets in bases:
        for contents in sets.values():
            contents.events = draw.randrange(9)
    live = {}
    for start, sets in bases:
        for (application,), contents in sets.items():
            dimensions = {"application": application}
            window = Window(
                window="1m", start=start, end=start + MINUTE, dimensions=dimensions, partition=0, part=0,
                **contents.fields(),
            )  # fmt: skip
            key = orjson.dumps([start, dimensions, 0, 0], option=orjson.OPT_UTC_Z)
            closing.take(key, encode(window), start.timestamp())
        told = Progress(partition=0, next_offset=1, watermark=start + MINUTE, idle=False)
        closing.take(b'["progress",0]', encode(told), start.timestamp())
        for size, closed in closing.advance(0).items():
            for labels, contents in closed.sets.items():
                live[size, closed.end_s, labels] = contents.events
    found = {
        (window.window, int(window.end.timestamp()), tuple(window.dimensions.values())): window.events
        for window in modelled(of_all_sizes(bases, chosen))
    }
    assert len(live) > 100
    assert live.items() <= found.items()
    assert {end for _, end, _ in found.keys() - live.keys()} == {int((BEGIN + 44 * MINUTE).timestamp())}, "still open"


def test_merged_windows_have_all_catalogue_versions() -> None:
    """A window mixes what its base windows were computed by."""
    bases = [base(0, "a"), base(1, "a", version="2"), base(4, "a", version="2")]
    found = [(each.window, each.catalogue_versions) for each in modelled(of_all_sizes(bases, one_dimension()))]
    assert found == [
        ("1m", ("1",)),
        ("1m", ("2",)),
        ("5m", ("1", "2")),
        ("1m", ("2",)),
        ("5m", ("2",)),
    ]


# Memory.


def held(count: int) -> int:
    """The most accumulators alive at any window's turn, while so many base windows are merged."""
    before = sum(type(each) is WindowAggregate for each in gc.get_objects())
    most = 0
    bases = (base(minute, "a", "b", "c") for minute in range(count))
    for number, _ in enumerate(of_all_sizes(bases, one_dimension(sizes=("1m", "5m", "1h")))):
        if number % 40 == 0:
            most = max(most, sum(type(each) is WindowAggregate for each in gc.get_objects()) - before)
    return most


@pytest.mark.heavy
def test_merging_holds_one_window_of_each_size() -> None:
    """Held are the accumulators of one window per size, and the base window that was read: however many there are."""
    assert held(120) == held(80) <= 3 * 3 + 3 + 3


def filled(folder: Path, keys: int) -> int:
    """The peak of memory while so many keys of 4 kB are kept, in three revisions, and read."""
    folder.mkdir()
    draw = random.Random(1)
    tracemalloc.start()
    kept = CompactedRecords(folder, memory_bytes=100_000)
    for number in range(3 * keys):
        value = None if number == 3 * keys - 1 else str(number).encode() + draw.randbytes(4_000)
        kept.put(number % keys, b"key", value)
    assert len(kept) == keys - 1
    for number, (start_s, values) in enumerate(kept.by_start()):
        assert (start_s, [value[:-4_000] for value in values]) == (number, [str(2 * keys + number).encode()])
    kept.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_keeping_the_latest_takes_no_memory_of_its_own(tmp_path: Path) -> None:
    """Of 8 MB of records as little is held as of 1 MB; the last revision of each is there, in order."""
    assert filled(tmp_path / "8", 2_000) < 1.2 * filled(tmp_path / "1", 250)


# Files.


class Sizes(OutputFormat):
    """Another format."""

    end = b"end"

    def lines(self, window: MergedWindow) -> bytes:
        return window.size.encode()


def five() -> Iterator[MergedWindow]:
    return of_all_sizes([base(minute, "a") for minute in (0, 1, 4)], one_dimension())


def test_one_pass_writes_every_file(tmp_path: Path) -> None:
    """Each format gets all windows, a link stays a link, and nothing else is left in the folder."""
    link, target, other = tmp_path / "link", tmp_path / "target", tmp_path / "other"
    link.symlink_to(target)
    assert write(iter(five()), {link: JsonLines(), other: Sizes()}) == 5
    assert target.read_bytes().splitlines() == [window.encode() for window in five()]
    assert other.read_bytes() == b"1m1m5m1m5mend"
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, other, target]
    write(five(), {Path("/dev/null"): Sizes()})
    assert Path("/dev/null").is_char_device()


def test_what_fails_changes_no_file(tmp_path: Path) -> None:
    """When windows end in an error, or a file cannot be written, files are as they were."""
    file = tmp_path / "file"
    file.write_text("before")

    def failing() -> Iterator[Window]:
        yield from five()
        raise PermanentError("the broker is gone")

    with pytest.raises(PermanentError):
        write(failing(), {file: JsonLines()})
    with pytest.raises(FileNotFoundError):
        write(five(), {file: JsonLines(), tmp_path / "none" / "file": JsonLines()})
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]
