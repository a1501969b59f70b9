"""Keys of our compacted topics: one codec writes and reads them, and their bytes never change."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragweir.schemas.judging import LedgerEntry, LedgerKey, ledger_key, parse_ledger_key
from ragweir.schemas.window_key import ProgressKey, WindowKey, encode_window_key, parse_window_key

PLACES = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(timezones=st.just(UTC))
WINDOW_KEYS = st.builds(WindowKey, TIMES, st.dictionaries(st.text(), st.text()), PLACES, PLACES)

FOREIGN = (
    None,
    b"",
    b"event-1",
    b"null",
    b"{}",
    b"[]",
    b"[null]",
    b'["progress"]',
    b'["progress",null]',
    b'["progress","0"]',
    b'["progress",0,0]',
    b'["watermark",0]',
    b'["progress",{},0,0]',
    b'["yesterday",{},0,0]',
    b'["0000-01-01T00:00:00Z",{},0,0]',
    b"[0,{},0,0]",
    b'["2026-11-21T12:00:00Z",[],0,0]',
    b'["2026-11-21T12:00:00Z",{},0]',
    b'["2026-11-21T12:00:00Z",{},0,0,0]',
    b'["2026-11-21T12:00:00Z",{},0,0',
)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (ProgressKey(0), b'["progress",0]'),
        (
            WindowKey(datetime(2026, 11, 21, 12, 5, tzinfo=UTC), {"model": "m", "application": "für"}, 3, 1_234),
            '["2026-11-21T12:05:00Z",{"application":"für","model":"m"},3,1234]'.encode(),
        ),
        (WindowKey(datetime(1, 1, 1, tzinfo=UTC), {}, 0, -6), b'["0001-01-01T00:00:00Z",{},0,-6]'),
        (
            WindowKey(datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC), {"": '"\\'}, 0, 0),
            rb'["2026-01-01T00:00:00.250000Z",{"":"\"\\"},0,0]',
        ),
    ],
)
def test_the_bytes_of_a_key_are_those_that_stand_in_topics(key: WindowKey | ProgressKey, written: bytes) -> None:
    assert encode_window_key(key) == written
    assert parse_window_key(written) == key


@given(WINDOW_KEYS | st.builds(ProgressKey, PLACES))
@example(WindowKey(datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), {"progress": "0"}, 0, 0))
def test_a_key_that_is_read_is_the_key_that_was_written(key: WindowKey | ProgressKey) -> None:
    found = parse_window_key(encode_window_key(key))
    assert found == key
    assert type(found) is type(key)


@given(WINDOW_KEYS)
def test_the_order_of_dimensions_changes_no_byte(key: WindowKey) -> None:
    """A part that is written under two keys would be counted twice."""
    turned = key._replace(dimensions=dict(reversed(key.dimensions.items())))
    assert encode_window_key(turned) == encode_window_key(key)


@pytest.mark.parametrize("key", FOREIGN)
def test_a_foreign_key_is_an_error_of_one_kind(key: bytes | None) -> None:
    with pytest.raises(ValueError, match="neither the key of a window nor that of"):
        parse_window_key(key)


@given(st.text(), st.text(), st.text(), PLACES)
def test_a_ledger_key_that_is_read_is_the_key_that_was_written(
    day: str, application: str, tenant: str, partition: int
) -> None:
    entry = LedgerEntry(day=day, application=application, tenant=tenant, partition=partition)
    assert parse_ledger_key(ledger_key(entry)) == LedgerKey(day, application, tenant, partition)


@pytest.mark.parametrize("key", [None, b"", b"{}", b"[]", b'["2026-11-21","",""]', b'["2026-11-21","","",0,0]'])
def test_a_foreign_ledger_key_is_an_error(key: bytes | None) -> None:
    with pytest.raises(ValueError, match="not the key of a ledger"):
        parse_ledger_key(key)
