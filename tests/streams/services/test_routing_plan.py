"""The planner: rows from past windows, without a broker."""

import math
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import orjson
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import ConfigurationError
from ragweir.metrics.aggregation.summary import Scheme, Summary, to_record
from ragweir.metrics.routing_share import threshold
from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import ANCHORS, LedgerEntry, ledger_key, shares_entry
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.schemas.window import OVERFLOW, EstimateSums, MetricSummary, Window
from ragweir.schemas.window_key import ProgressKey, WindowKey, encode_window_key
from ragweir.schemas.window_record import parse_window
from ragweir.streams.commands.options import interval
from ragweir.streams.runtime.kafka.reader import Watch
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.planner.row_plan import LEAD, Planned, effective_at, is_late, plan
from ragweir.streams.services.planner.share import Cost, cost_of, planned_share
from ragweir.streams.services.planner.share_estimate import estimate_share
from ragweir.streams.services.planner.traffic import Period, Traffic, latest_windows, traffic_of
from ragweir.streams.services.shared.routing_rows import RowTable
from ragweir.streams.settings import Settings

NOW = datetime(2026, 11, 22, 13, 30, tzinfo=UTC)
PERIOD = Period.closed(NOW, timedelta(days=1))
RISKS = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
SHARE, FLOOR_SHARE = 0.1, 0.25


def watch(_doing: str, _total: int) -> object:
    return lambda _: None


WATCH: Watch = watch  # type: ignore[assignment]


def window(
    application: str | None,
    risks: Sequence[float | None],
    start: datetime = PERIOD.start,
    part: int = 0,
    **fields: object,
) -> Window:
    """A part of a window with events of these risks; with None as application it does not distinguish them."""
    values = [risk for risk in risks if risk is not None]
    metrics = {"unsupported_risk": MetricSummary.model_validate(_texts(to_record(Summary.of(values, RISKS))))}
    return Window(
        window="1m",
        start=start,
        end=start + timedelta(minutes=1),
        dimensions={} if application is None else {"application": application, "model": "m"},
        partition=0,
        part=part,
        events=len(risks),
        metrics=metrics if values else {},
        **fields,  # type: ignore[arg-type]
    )


def _texts(record: dict[str, object]) -> dict[str, object]:
    histogram = record["histogram"]
    assert isinstance(histogram, dict)
    bins = {str(number): count for number, count in histogram["bins"].items()}
    return {**record, "histogram": {**histogram, "bins": bins}}


def record(each: Window, offset: int = 0) -> Record:
    key = encode_window_key(WindowKey(each.start, each.dimensions, each.partition or 0, each.part or 0))
    return Record("windows", 0, offset, key, encode(each), 0)


def traffic(*windows: Window, period: Period = PERIOD) -> dict[str | None, Traffic]:
    return traffic_of((parse_window(encode(each)) for each in windows), period)


def planned(
    found: dict[str | None, Traffic], rows: Iterable[RoutingRow] = (), now: datetime = NOW, share: float = SHARE
) -> dict[str | None, Planned]:
    return {each.application: each for each in plan(found, rows, PERIOD, now, share, FLOOR_SHARE)}


def mean_probability(row: RoutingRow, risks: Sequence[float | None]) -> float:
    values = [risk for risk in risks if risk is not None]
    bins = iter(RISKS.bins(np.array(values)).tolist())
    return math.fsum(row.probability(None if risk is None else next(bins)) for risk in risks) / len(risks)


# Traffic.


def test_events_are_counted_by_application_with_those_without_a_risk() -> None:
    found = traffic(
        window("a", [0.1, 0.1, 0.9, None]),
        window("a", [0.105], part=7),
        window("", [0.5]),
        window(OVERFLOW, [0.5] * 9),
    )
    assert {name: (own.events, dict(own.bins)) for name, own in found.items()} == {
        "a": (5, {10: 3, 90: 1}),
        None: (1, {50: 1}),
    }


def test_only_closed_days_count() -> None:
    minute = timedelta(minutes=1)
    inside = window("a", [0.1], PERIOD.start), window("a", [0.1], PERIOD.end - minute, 1)
    outside = window("a", [0.1], PERIOD.start - minute, 2), window("a", [0.1], PERIOD.end, 3)
    for windows in ((*inside, *outside), (*outside, *inside)):
        assert traffic(*windows)["a"].events == 2
    hourly = Period.closed(NOW, timedelta(hours=1))
    assert (hourly.end, hourly.days) == (NOW.replace(minute=0), 7)


def test_the_latest_revision_of_a_part_counts_and_foreign_records_do_not() -> None:
    first, second = window("a", [0.1]), window("a", [0.1, 0.9])
    records = [
        record(first),
        record(second, 1),
        record(window("a", [0.3], part=1), 2),
        record(window("a", [0.3], part=1), 3)._replace(value=None),
        Record("windows", 0, 4, encode_window_key(ProgressKey(0)), b"{}", 0),
        Record("windows", 0, 5, b"garbage", b"garbage", 0),
        Record("windows", 0, 6, None, None, 0),
        record(window("b", [0.3]), 7)._replace(value=b'{"window":'),
    ]
    found = traffic_of(latest_windows("windows", records, PERIOD, WATCH), PERIOD)
    assert {name: own.events for name, own in found.items()} == {"a": 2}


def test_windows_without_applications_are_an_error_that_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match=r"windows\.dimensions .* \"application\""):
        traffic(window(None, [0.5]))
    assert traffic(window(None, [0.5]), window("a", [0.5])).keys() == {"a"}, "those from before the setting"
    assert traffic() == {}


def test_bins_that_no_row_can_have_are_left_out() -> None:
    odd = orjson.loads(encode(window("a", [0.5])))
    odd["metrics"]["unsupported_risk"]["histogram"]["bins"] = {"-4": 5, "50": 1, "100": 7, "99": 1}
    found = traffic_of([parse_window(orjson.dumps(odd))], PERIOD)
    assert dict(found["a"].bins) == {50: 1, 99: 1}


# Rows.


def test_three_applications_get_a_row_each_with_the_same_share() -> None:
    """Each has its own level of risk: one threshold over all would starve the first and read all of the last."""
    rng = random.Random(1)
    risks = {
        name: [round(min(1.0, max(0.0, rng.gauss(level, 0.1))), 3) for _ in range(2_000)]
        for name, level in (("low", 0.2), ("middle", 0.5), ("high", 0.8))
    }
    found = planned(traffic(*(window(name, own) for name, own in risks.items())))
    rows = {name: each.row for name, each in found.items()}
    for name, row in rows.items():
        assert row is not None
        assert mean_probability(row, risks[name or ""]) == pytest.approx(SHARE, abs=1e-12)
        assert (row.share, row.floor_share, row.events) == (SHARE, FLOOR_SHARE, 2_000)
        assert (row.window_start, row.window_end) == PERIOD
    assert rows["low"].bin < rows["middle"].bin < rows["high"].bin  # type: ignore[union-attr]


_RISKS = st.one_of(st.none(), st.integers(0, 100).map(lambda number: number / 100))


@given(st.lists(st.tuples(_RISKS, st.integers(1, 300)), min_size=1, max_size=9), st.floats(0, 1))
def test_the_mean_probability_is_the_share(groups: list[tuple[float | None, int]], share: float) -> None:
    """With ties, one bin, and nulls, which are only selected at random."""
    risks = [risk for risk, number in groups for _ in range(number)]
    risks *= 500 // len(risks) + 1
    row = planned(traffic(window("a", risks)), share=share)["a"].row
    assert row is not None
    assert mean_probability(row, risks) == pytest.approx(share, abs=1e-9)
    assert row.probability(None) == row.floor


def test_an_application_whose_events_are_in_one_bin_is_drawn_from_it() -> None:
    row = planned(traffic(window("a", [0.42] * 1_000)))["a"].row
    assert row is not None
    assert row.bin == 42
    assert row.probability(42) == pytest.approx(SHARE)
    assert row.probability(41) == row.floor == pytest.approx(threshold({42: 1_000}, 1_000, SHARE, FLOOR_SHARE).floor)


def test_without_any_risk_all_are_drawn_at_random() -> None:
    row = planned(traffic(window("a", [None] * 600)))["a"].row
    assert row is not None
    assert (row.bin, row.floor) == (-1, pytest.approx(SHARE))


def test_few_events_make_no_row() -> None:
    found = planned(traffic(window("few", [0.5] * 499), window("enough", [0.5] * 500)))
    assert [(each.state, each.row is None) for each in found.values()] == [("new", False), ("few_events", True)]


@pytest.mark.parametrize("name", ['","2026', "é\u202e\x00", "x" * 120, "[]", " ", "null"])
def test_any_name_of_an_application_is_a_key_of_its_own(name: str) -> None:
    row = planned(traffic(window(name, [0.5] * 500)))[name].row
    assert row is not None
    key = encode_row_key(row.application, row.effective_at)
    table = RowTable()
    table.add([Record("control", 0, 0, key, encode(row), 0)])
    assert table.held == [row]


# Rows that there are.


def test_an_equal_row_is_not_appended_again() -> None:
    found = traffic(window("a", [0.1] * 400 + [0.8] * 200))
    row = planned(found)["a"].row
    assert row is not None
    for later in (timedelta(0), timedelta(hours=3), timedelta(days=1)):
        assert planned(found, [row], NOW + later)["a"].state == "unchanged"
    assert planned(found, [row.model_copy(update={"application": "b"})])["a"].state == "new"
    assert planned(found, [row], share=0.2)["a"].state == "new"
    assert planned(traffic(window("a", [0.1] * 300 + [0.8] * 300)), [row])["a"].state == "new"


def test_no_row_has_the_key_of_another() -> None:
    found = traffic(window("a", [0.1] * 600))
    rows: list[RoutingRow] = []
    for share in (0.1, 0.2, 0.1):
        each = planned(found, rows, share=share)["a"]
        assert each.state == "new"
        assert each.row is not None
        rows.append(each.row)
    first = effective_at(NOW)
    assert [row.effective_at for row in rows] == [first, first + timedelta(hours=1), first + timedelta(hours=2)]


def test_a_row_of_the_far_future_does_not_count_as_present() -> None:
    found = traffic(window("a", [0.1] * 600))
    row = planned(found)["a"].row
    assert row is not None
    last = row.model_copy(update={"effective_at": datetime(9999, 12, 31, 23, tzinfo=UTC)})
    assert planned(found, [last])["a"].state == "new"


def test_a_row_takes_effect_an_hour_after_its_append_at_a_full_hour() -> None:
    for minute in range(120):
        now = NOW + timedelta(minutes=minute, seconds=30)
        at = effective_at(now)
        assert at - now >= LEAD + timedelta(minutes=9)
        assert at - now < LEAD + timedelta(minutes=71)
        assert (at.minute, at.second) == (0, 0)
    row = planned(traffic(window("a", [0.1] * 600)))["a"].row
    assert row is not None
    assert not is_late(row, NOW)
    assert is_late(row, row.effective_at - LEAD)


def test_foreign_records_of_control_are_ignored() -> None:
    row = planned(traffic(window("a", [0.1] * 600)))["a"].row
    assert row is not None
    key, value = encode_row_key(row.application, row.effective_at), encode(row)
    garbage: list[tuple[bytes | None, bytes | None]] = [
        (key, None),
        (None, value),
        (b"[", value),
        (key, b"{}"),
        (key, b"[" * 100_000),
        (encode_row_key("other", row.effective_at), value),
        (key, value.replace(b'"share":0.1', b'"share":"x"')),
        (key, value.replace(b'"bin":', b'"bin":1e9,"x":')),
        (b"\xff", b"\xff"),
    ]
    table = RowTable()
    assert len(table.add(Record("control", 0, 0, each, value, 0) for each, value in garbage)) == len(garbage)
    assert table.held == []


# Money.


def ledger(*entries: LedgerEntry) -> list[Record]:
    return [Record("judge.ledger", 0, n, ledger_key(each), encode(each), 0) for n, each in enumerate(entries)]


def entry(day: str, **fields: int) -> LedgerEntry:
    return LedgerEntry(day=day, application="", tenant="", partition=0, **fields)


def test_the_cost_is_that_of_the_ledgers_latest_entries() -> None:
    records = ledger(
        entry("2026-11-20", spent=100, events=1),
        entry("2026-11-20", spent=6_000, events=4),
        entry("2026-11-21", spent=4_000, events=6),
        entry("2026-11-01", spent=9_999, events=9),
        shares_entry("2026-11-21", 6),
        entry("2026-11-21", spent=7_000, events=450).model_copy(update={"application": ANCHORS}),
    )
    assert cost_of([*records, Record("judge.ledger", 0, 9, b"x", b"x", 0)], "2026-11-15") == Cost(0.001, 10)
    assert cost_of([], "2026-11-15") is None
    assert cost_of(ledger(entry("2026-11-21", spent=5)), "2026-11-15") is None


def test_the_share_follows_the_budget_once_a_cost_is_known() -> None:
    def share(cost: Cost | None, events: float, budget: float | None = 5.0, *, derived: bool = True) -> float:
        routing = {"share": 0.07, "share_from_budget": derived}
        return planned_share(
            Settings.model_validate({"routing": routing, "judge": {"daily_budget_usd": budget or "none"}}), cost, events
        )

    cost = Cost(0.001, 10)
    assert share(cost, 50_000) == pytest.approx(0.1)
    assert share(cost, 100) == 1.0
    assert share(cost, 0) == 1.0
    assert share(None, 50_000) == share(cost, 50_000, budget=None) == share(cost, 50_000, derived=False) == 0.07


def test_more_money_finds_more_and_narrows_the_interval() -> None:
    rng = random.Random(2)
    own = traffic(window("a", [round(rng.random(), 3) for _ in range(70_000)]))["a"]
    half, one, two = (estimate_share(own, 7.0, share, 0.25, 0.002, ["1m", "1h"]) for share in (0.05, 0.1, 0.2))
    assert half.finds < one.finds < two.finds
    assert one.finds > 0.1, "better than random choice"
    widths = [each.widths["1d"] for each in (half, one, two)]
    assert all(width is not None for width in widths)
    assert widths == sorted(widths, reverse=True)  # type: ignore[type-var]
    assert one.widths["1m"] is None, "7 events a minute"
    assert (one.judged_per_day, one.usd_per_day) == (pytest.approx(1_000), pytest.approx(2.0))
    everything = estimate_share(own, 7.0, 1.0, 0.25, None, ["1m"])
    assert (everything.finds, everything.usd_per_day) == (pytest.approx(1.0), None)


@pytest.mark.parametrize("floor_share", [0.25, 0.9, 1.0])
def test_a_risk_that_says_nothing_finds_the_share_that_is_judged(floor_share: float) -> None:
    own = traffic(window("a", [number / 1_000 for number in range(1_000)]))["a"]
    found = estimate_share(own, 7.0, 0.4, floor_share, None, [], auroc=0.5)
    assert found.finds == pytest.approx(0.4)


def test_the_share_of_bad_answers_is_the_judges_where_it_has_judged() -> None:
    sums = {name: 0.0 for name in EstimateSums.model_fields if name not in ("suite", "result", "undefined")}
    judged = {**sums, "suite": "rubric", "count": 10, "drawn": 10, "weight": 100.0, "weighted_sum": 70.0}
    found = traffic(window("a", [0.5], estimates={"judge_faithfulness": judged}), window("b", [0.5]))
    assert found["a"].bad == pytest.approx(0.3)
    assert found["b"].bad is None


@pytest.mark.parametrize("text", ["", "7h", "2d", "30m", "1w", "90m", "-1h"])
def test_an_interval_divides_a_day(text: str) -> None:
    if text == "90m":
        assert interval(text) == timedelta(minutes=90)
        return
    with pytest.raises(typer.BadParameter):
        interval(text)
