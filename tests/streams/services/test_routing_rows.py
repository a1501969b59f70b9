"""Rows of routing: the one of an event follows from its time alone, and foreign records have no effect."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import orjson
import pytest

from ragweir.metrics.aggregation.summary import Scheme
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.routing_share import risk_bin
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import SuiteDecision
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.shared.routing_rows import (
    DRAW_RANGE,
    ROUTING_AHEAD,
    ROUTING_FORGOTTEN,
    RoutingRows,
    RowTable,
    Selection,
    revision_of,
)
from ragweir.streams.settings import RoutingSettings

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def row(hours: float, application: str | None = "docs", floor: float = 0.02, bin: int = 80) -> RoutingRow:
    return RoutingRow(
        application=application,
        effective_at=NOW + hours * HOUR,
        share=0.1,
        floor_share=0.25,
        bin=bin,
        at_bin=0.5,
        floor=floor,
    )


def record(row: RoutingRow, written: datetime | None = None, **changed: object) -> Record:
    written = row.effective_at - HOUR if written is None else written
    key = encode_row_key(row.application, row.effective_at)
    plain = Record("control", 0, 0, key, encode(row), int(written.timestamp() * 1_000))
    return plain._replace(**changed)  # type: ignore[arg-type]


def chosen(rows: RoutingRows, hours: float, application: str | None = "docs") -> str | None:
    selection, _ = rows.at(application, NOW + hours * HOUR)
    return None if selection is None else selection.revision


def test_an_event_has_the_last_row_that_is_effective_whatever_the_order_of_records() -> None:
    records = [record(row(hours, application)) for hours in (1, 3, 5) for application in ("docs", "chat", None)]
    for seed in range(5):
        random.Random(seed).shuffle(records)
        table = RowTable()
        assert table.add(records) == []
        rows = table.rows()
        found = [chosen(rows, hours) for hours in (0.9, 1, 2.9, 3, 100)]
        first, third, fifth = (revision_of(NOW + hours * HOUR) for hours in (1, 3, 5))
        assert found == [None, first, first, third, fifth]
        assert chosen(rows, 3, None) == third
        assert chosen(rows, 3, "other") is None


@pytest.mark.parametrize(
    "foreign",
    [
        record(row(1), value=None),
        record(row(1), value=b"{"),
        record(row(1), value=b"[" * 100_000),
        record(row(1), value=encode(row(1)) + b" " * 20_000),
        record(row(1), value=orjson.dumps({**orjson.loads(encode(row(1))), "bin": 100})),
        record(row(1), value=orjson.dumps({**orjson.loads(encode(row(1))), "floor": 2})),
        record(row(1), key=None),
        record(row(1), key=b"[]"),
        record(row(1), key=encode_row_key("docs", NOW)),
        record(row(1), key=encode_row_key("chat", NOW + HOUR)),
        record(row(1), written=NOW + 0.5 * HOUR),
    ],
)
def test_foreign_and_late_records_have_no_effect(foreign: Record) -> None:
    table = RowTable()
    assert len(table.add([foreign])) == 1
    assert chosen(table.rows(), 2) is None


def test_an_event_ahead_of_what_was_read_is_flagged() -> None:
    table = RowTable()
    table.add([record(row(1))])
    rows = table.rows(NOW + 2 * HOUR)
    assert rows.at("docs", NOW + 1.9 * HOUR)[1] == ""
    assert rows.at("docs", NOW + 2 * HOUR)[1] == ROUTING_AHEAD
    assert rows.known(NOW + 3 * HOUR).at("docs", NOW + 2 * HOUR)[1] == ""


def test_too_many_rows_forget_the_oldest_and_say_so() -> None:
    table = RowTable(most=10)
    table.add([record(row(hours)) for hours in range(100)])
    rows = table.rows()
    assert len(rows) == 10
    assert chosen(rows, 99) == revision_of(NOW + 99 * HOUR)
    assert rows.at("docs", NOW + 5 * HOUR) == (None, ROUTING_FORGOTTEN)


@pytest.mark.slow
def test_events_are_selected_as_often_as_their_probability_says() -> None:
    """Of a million events, the selected of each probability within four standard errors."""
    draws = random.Random(7)
    selection = Selection("r", 80, 0.5, 0.02)
    for risk in (0.9, 0.805, 0.1, None):
        number, selected, probability = 250_000, 0, 0.0
        for _ in range(number):
            draw = draws.randrange(DRAW_RANGE)
            choice = selection.choice(risk, draw)
            probability = choice.probability
            # The draw decides, and the reasons say so.
            is_selected = draw < probability * DRAW_RANGE
            assert is_selected == bool(choice.because)
            selected += is_selected
        error = (probability * (1 - probability) / number) ** 0.5
        assert abs(selected / number - probability) <= 4 * error


def test_a_decision_has_the_digest_of_its_row() -> None:
    """Copies of a row have the same digest, other numbers of the same time another; settings have none."""
    event = Interaction(event_id="1", application="docs", query="Who?", response="Ada.")

    def digests(*written: RoutingRow, floor: float = 0.0) -> list[str | None]:
        table = RowTable()
        table.add([record(each) for each in written])
        routing = RoutingSettings(share=0.1, rules=[], floors={"rubric": floor, "context_recall": 0.5})
        router = Router(routing, Catalogue(everything()), ("rubric", "context_recall"))
        decided = router.decide(event, {"unsupported_risk": 0.9}, {}, (), table.rows().at("docs", NOW + 2 * HOUR)[0])
        return [each.row_digest for each in decided.suites]

    own = digests(row(1))
    assert own == digests(row(0, floor=0.5), row(1), row(5), floor=0.5), "a floor of the settings is no row's"
    assert own[0] is not None
    assert own[1] is None
    assert digests(row(1, "chat")) == [None, None]
    others = [row(1, floor=0.03), row(1, bin=81), row(1).model_copy(update={"at_bin": 0.25})]
    assert len({own[0], *(digests(each)[0] for each in others)}) == 4
    assert b"row_digest" not in encode(SuiteDecision(suite="a", status="selected", probability=1, row="shipped"))


def test_the_bin_is_that_of_windows() -> None:
    scheme = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
    draws = random.Random(3)
    risks = [0.0, 1.0, 0.29, 0.28999999, 0.57, 0.58, *(round(draws.random(), 6) for _ in range(20_000))]
    assert [risk_bin(risk) for risk in risks] == scheme.bins(np.array(risks)).tolist()
    assert risk_bin(None) is None
