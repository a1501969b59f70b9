"""The windows at the end of a replay have the bytes that plain merging gives, written by the model of the record."""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.past_windows import by_records, part
from ragweir.metrics.aggregation.cardinality import Admission, Labels, admit_sets, merge_sets
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import Chance
from ragweir.metrics.aggregation.summary import Scheme, Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.codec.json import encode
from ragweir.schemas.window import Window, duration_s
from ragweir.schemas.window_record import parse_window
from ragweir.streams.runtime.kafka.compaction import CompactedRecords
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.window_times import start_of
from ragweir.streams.services.aggregate.windowing import of_all_sizes
from ragweir.streams.services.shared.dimensions import admission_limits
from ragweir.streams.services.shared.from_settings import aggregator
from ragweir.streams.settings import Settings, WindowSettings

BEGIN = datetime(2026, 1, 1, 10, 41, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RATIO, OTHER = Scheme(0.0, 1.0, 1_000_000, 1_000_000), Scheme(None, None, 1_000, 1)
HUGE = 1e13
"""A value whose square is written as text, since no float is exact."""
CAPPED = {"sizes": ("1m", "3m", "5m", "1h", "3h", "6h"), "max_series": 3, "new_series_per_hour": 4, "hold_h": 1}


def contents(draw: random.Random) -> WindowAggregate:
    """An aggregate of every kind of field."""
    own = WindowAggregate(events=draw.randrange(1, 9), late=draw.randrange(2), versions={draw.choice("12")})
    own.metrics = {
        name: Summary.of([draw.choice((-0.0, 1.0, draw.random())) for _ in range(draw.randrange(1, 5))], RATIO)
        for name in draw.sample(("context_support", "refusal", "token_f1"), 2)
    }
    own.metrics["total_latency_ms"] = Summary.of([draw.choice((HUGE, draw.uniform(0, 1e4)))], OTHER)
    own.categories = {"recall_warning": {draw.choice(("HIT_RETRIEVAL_LIMIT", "LOW")): 1}}
    own.decisions = {"rubric": {"selected": 1, draw.choice(("judged", "failed")): 1}}
    own.chances = {"rubric": Chance(draw.random(), draw.randrange(3))}
    own.estimates = {"judge_relevance": Estimate(EstimatedMetric("rubric"))}
    own.estimates["judge_relevance"].add(draw.random(), draw.choice((1.0, draw.random())))
    return own


def parts(seed: int, minutes: int, partitions: int = 2) -> Iterator[Record]:
    draw = random.Random(seed)
    for minute in sorted(draw.sample(range(minutes), minutes // 2)):
        for name in draw.sample('ab"üdefg', draw.randrange(1, 5)):
            labels = {"application": name, "model": "m", "pipeline_version": ""}
            for partition in range(draw.randrange(1, 1 + partitions)):
                yield part(BEGIN + minute * MINUTE, labels, (partition, minute), contents(draw))


def settings(**windows: Any) -> Settings:
    return Settings(windows=WindowSettings.model_validate(windows))


def plainly(own: Iterable[Record], settings: Settings) -> Iterator[bytes]:
    """The windows of parts, each size merged from the base windows."""
    decoder = aggregator(settings).decoder()
    bases: defaultdict[datetime, dict[Labels, WindowAggregate]] = defaultdict(dict)
    for value in {record.key: record.value for record in own}.values():
        window = parse_window(value or b"")
        labels = tuple(window.dimensions.get(name, "") for name in settings.windows.dimensions)
        start = datetime.fromisoformat(window.start)
        bases[start].setdefault(labels, WindowAggregate()).merge(decoder.decode(window))
    return map(encode, models_of_all_sizes(bases, settings.windows))


def models_of_all_sizes(
    bases: Mapping[datetime, dict[Labels, WindowAggregate]], settings: WindowSettings
) -> Iterator[Window]:
    """The windows of every size, each size merged from the base windows by itself."""
    admission = Admission(admission_limits(settings))
    found: dict[tuple[datetime, timedelta, str], dict[Labels, WindowAggregate]] = {}
    for start, sets in sorted(bases.items()):
        kept, _ = admit_sets(sets, admission, int(start.timestamp()))
        for size in settings.sizes:
            length = timedelta(seconds=duration_s(size))
            end = start_of(start, length) + length
            merge_sets(found.setdefault((end, length, size), {}), kept, settings.max_series)
    for (end, length, size), sets in sorted(found.items(), key=lambda each: each[0]):
        for labels, merged in sorted(sets.items()):
            for summary in merged.metrics.values():
                summary.bins = dict(sorted(summary.bins.items()))
            yield Window(
                window=size,
                start=end - length,
                end=end,
                dimensions=dict(zip(settings.dimensions, labels, strict=True)),
                partition=None,
                part=None,
                closed=True,
                **merged.fields(whole=True),
            )


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("seed", "windows"), [(1, {}), (2, CAPPED), (3, CAPPED), (4, CAPPED | {"hold_h": 3}), (5, {"sizes": ("1m", "1d")})]
)
def test_the_bytes_are_those_of_plain_merging(seed: int, windows: dict[str, Any]) -> None:
    """In every size, over the cap on label sets and beyond the hours that windows are held, too."""
    own = list(parts(seed, 400))
    found = list(by_records(own, settings(**windows)))
    assert found == list(plainly(own, settings(**windows)))
    assert len({orjson.loads(each)["window"] for each in found}) == len(settings(**windows).windows.sizes)
    assert (b"__overflow__" in b"".join(found)) == ("max_series" in windows)


def test_label_sets_move_into_overflow_of_long_windows_only() -> None:
    """A window longer than windows are held has a label set in overflow that smaller ones in it keep apart."""
    chosen = WindowSettings.model_validate(CAPPED)
    draw = random.Random(1)
    bases: dict[datetime, dict[Labels, WindowAggregate]] = {
        BEGIN + timedelta(hours=2 * hour): {(f"{hour}{name}", "", ""): contents(draw) for name in "ab"}
        for hour in range(3)
    }
    merged = list(of_all_sizes(bases.items(), chosen))
    assert [each.encode() for each in merged] == [encode(each) for each in models_of_all_sizes(bases, chosen)]
    over = {each.size for each in merged if "__overflow__" in each.dimensions.values()}
    assert over == {"3h", "6h"}


def test_what_was_read_is_not_changed() -> None:
    """Aggregates are shared by windows, and copied before they are merged."""
    draw = random.Random(1)
    bases = {BEGIN + minute * MINUTE: {("a", "", ""): contents(draw)} for minute in range(130)}
    before = [own.fields() for sets in bases.values() for own in sets.values()]
    first = [each.encode() for each in of_all_sizes(bases.items(), settings().windows)]
    held = list(of_all_sizes(bases.items(), settings().windows))
    assert [each.encode() for each in held] == first, "windows that are kept change when larger ones are merged"
    assert [own.fields() for sets in bases.values() for own in sets.values()] == before


def test_records_on_disk_are_those_in_memory(tmp_path: Path) -> None:
    """Records that exceed the buffer, tombstones of written ones included, are read as if it held them all."""
    draw, found = random.Random(1), []
    history = [
        (draw.randrange(20), bytes([draw.randrange(5)]), draw.choice((None, b"x" * 50, b"y"))) for _ in range(999)
    ]
    for name, size in (("small", 500), ("large", 1_000_000)):
        (tmp_path / name).mkdir()
        kept = CompactedRecords(tmp_path / name, size)
        for each in history:
            kept.put(*each)
        found.append((len(kept), [(start, list(values)) for start, values in kept.by_start()]))
        kept.close()
    assert found[0] == found[1]
    assert found[0][0] > 40


HOSTILE = (
    *("null", "true", "-1", "-0.0", "5.0", "1e999", "NaN", "[]", "{}", "1e-400", "7", "0.1"),
    *('"5"', '"1_0"', '""', '"-"', '"1.2.3"', '"٣"', '"-3.25"', '"12345678901234567890.5"', "123456789012345678901234"),
)
FIELDS = ("events", "count", "sum", "sum_squares", "min", "bin", "least", "weight", "drawn")


def record_with(field: str, value: str) -> bytes:
    """A record with a value of a field, which need not be valid JSON."""
    data = orjson.loads(next(parts(1, 10)).value or b"")
    summary = data["metrics"]["total_latency_ms"]
    places = {"events": data, "least": data["chances"]["rubric"], "bin": summary["histogram"]["bins"]}
    places |= dict.fromkeys(("weight", "drawn"), data["estimates"]["judge_relevance"])
    places.get(field, summary)["7" if field == "bin" else field] = "@"
    return orjson.dumps(data).replace(b'"@"', value.encode())


@pytest.mark.parametrize("field", FIELDS)
def test_reading_is_no_laxer_than_the_model(field: str) -> None:
    """Every record that is read has the values that the model reads; others may be rejected."""
    accepted = 0
    for value in HOSTILE:
        own = record_with(field, value)
        try:
            found = parse_window(own)
        except ValueError:
            continue
        accepted += 1
        assert plain(found) == plain(Window.model_validate_json(own)), value
    assert accepted


def plain(window: Any) -> Any:
    """The fields that were varied."""
    summary, estimate = window.metrics["total_latency_ms"], window.estimates["judge_relevance"]
    numbers = (summary.count, summary.sum, summary.sum_squares, summary.min, estimate.weight, estimate.drawn)
    bins = {int(number): count for number, count in summary.histogram.bins.items()}
    return (window.events, window.chances["rubric"].least, bins, *map(repr, numbers))
