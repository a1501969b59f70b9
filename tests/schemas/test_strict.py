"""Strict decoding gives the same interaction as the general way, or leaves the event to it."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from poison import GOOD, PARTS, POISON, REPAIRED, event

from bench.interactions import interactions
from ragweir.schemas.codec import intake, strict
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.codec.json import decode, parse
from ragweir.schemas.interaction import Interaction

FULL: dict[str, Any] = GOOD | {
    "started_at": 1_764_000_000_001,
    "first_token_at": "2025-11-24T18:00:00.5+02:00",
    "labels": {"region": "eu"},
    "expected": ["Ada", "Lovelace"],
    "answerable": True,
    "history": [{"role": "user", "text": "Hello"}],
    "feedback": {"score": 1, "label": "thumbs_up"},
    "contexts": [{"text": "Ada wrote it.", "chunk_id": "c1", "score": 0.5, "rank": 1, "page": 3}, {"page": "iv"}],
    "retrieval": {"bm25_limit": 10, "relevant_ids": ["c1"]},
    "spans": [{"kind": "llm", "started_at": 1_764_000_000_123, "ended_at": "2025-11-24T16:00:01Z"}],
    "usage": {"input_tokens": 3, "cost_usd": 1e-4},
    "expected_tools": ["lookup"],
    "assembly": {"dialect": "openinference", "spans": 4, "flags": ["spans_missing", "incomplete"]},
}
"""An event that strict decoding accepts, with each part of an interaction whose values have types."""

ONE = ("feedback", "retrieval", "usage", "assembly")
NEEDED: Mapping[str, dict[str, Any]] = {"history": {"role": "user", "text": ""}, "spans": {"kind": "llm"}}

VALUES = (
    *(
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-0.0",
        "0.0",
        "1",
        "1.0",
        "1.5",
        "-1",
        "2",
        "1e5",
        "1E-7",
        "5e-324",
        "1e400",
    ),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *("18446744073709551615", "18446744073709551616", f"1{'0' * 40}", "1.7976931348623157e308", "0.1", "NaN", "01"),
    *("123456789.123456789123456789", "2.2250738585072011e-308", "9007199254740992.9999", "1764000000000.0"),
    *("1764000000", "1764000000000", "1764000000000000", "1764000000000000000", "946684799999", "946684800000"),
    *(
        "4102444799999",
        "4102444800000",
        "99999999999",
        "-1764000000000",
        '"1764000000000"',
        '"20261121"',
        '"2026-11-21"',
    ),
    *(
        '"2026-11-21T10:00:00Z"',
        '"2026-11-21t10:00:00.123456789z"',
        '"2026-11-21T23:59:60Z"',
        '"2026-11-21 10:00+05:30"',
    ),
    *('"1999-12-31T23:59:59Z"', '"2100-01-01T00:00:00Z"', '"2099-12-31T23:00:00-05:00"', '"0001-01-01T00:00:00+01:00"'),
    *(
        '"2026-02-30T00:00:00Z"',
        '"2026-W47-6"',
        '"2026-11-21T10:00:00,5Z"',
        '""',
        '"a"',
        '"1"',
        '"1.0"',
        '" 2 "',
        '"true"',
    ),
    *('"HIGH"', '"llm"', '"LLM"', '"incomplete"', f'"{"x" * 64}"', f'"{"x" * 65}"', f'"{"é" * 200}"', f'"{"é" * 201}"'),
    *(r'"\u0000"', r'"\ud83d\ude00"', r'"\ud83d"', r'"\udc00\ud83d"', '"\U0001f600é\u2028"', '"a\x01"', r'"\/\b\f"'),
    *(
        "[]",
        '["a"]',
        "[1]",
        "[null]",
        "[[]]",
        '["a",1]',
        "[{}]",
        '[{"text":null}]',
        '[{"kind":"llm","kind":1}]',
        "[true]",
    ),
    *("{}", '{"a":"b"}', '{"a":1}', '{"a":true}', '{"a":null}', '{"":""}', '{"a":"b","a":"c"}', '{"a":{"b":[0.5]}}'),
    *('["incomplete","incomplete"]', '["several_roots","attributes_cut"]', "[" * 1_030 + "]" * 1_030, '{"extra":1}'),
)
"""JSON values, and texts that are none."""

PATHS = [
    *Interaction.model_fields,
    "unknown",
    *(f"{name}.{field}" for name, part in PARTS.items() for field in (*part.model_fields, "unknown")),
]


def placed(path: str, value: str, base: Mapping[str, Any] = GOOD) -> bytes:
    """An event with the text of a JSON value at a path."""
    mark = "b6589fc6"
    fields = deepcopy(dict(base))
    name, _, field = path.partition(".")
    part = NEEDED.get(name, {}) | {field: mark}
    fields[name] = mark if not field else part if name in ONE else [part]
    return orjson.dumps(fields).replace(f'"{mark}"'.encode(), value.encode("utf-8", "surrogatepass"))


def full_text(read: Interaction) -> tuple[str, tuple[str, ...], list[str]]:
    """All that can be seen of an interaction: the values with their types, the flags and the fields' order."""
    return repr(read), read.flags, list(read.__dict__)


def check_bytes(value: bytes) -> bool:
    """Compare the two ways for bytes, and for what the general parser reads of them; true if both are strict."""
    direct = strict.from_json(value, DEFAULT_MAX_ITEMS)
    if direct is not None:
        assert full_text(direct) == full_text(intake.read(parse(value)))
    try:
        data = orjson.loads(value)
    except ValueError:
        assert direct is None
        return False
    parsed = check_data(data)
    return direct is not None and parsed


def check_data(data: object) -> bool:
    """Compare the two ways for data, which neither changes; true if it is read strictly."""
    before = repr(data)
    found = strict.from_data(data, DEFAULT_MAX_ITEMS)
    assert repr(data) == before
    if found is not None:
        assert full_text(found) == full_text(intake.read(data))
        assert found == intake.read(data)
    return found is not None


def test_ordinary_events_are_read_strictly() -> None:
    """The events that this module is about take the fast way: the comparisons below compare something."""
    for value in (orjson.dumps(FULL), *interactions(20)):
        assert check_bytes(value)
    assert full_text(decode(orjson.dumps(FULL))) == full_text(intake.read(FULL))


@pytest.mark.slow
def test_every_type_of_field_is_read_strictly() -> None:
    """For each field there is a value that the fast way accepts, in data at least."""
    found = {
        path for path in PATHS for value in VALUES if _loads(value) and check_data(orjson.loads(placed(path, value)))
    }
    assert found == set(PATHS)
    in_bytes = {path for path in PATHS for value in VALUES if strict.from_json(placed(path, value), {}) is not None}
    general = {path for path in PATHS if path.endswith("unknown") or path.startswith(("extractions.", "aggregation."))}
    assert found - in_bytes == general | {"extra"}


def _loads(value: str) -> bool:
    try:
        orjson.loads(value)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_every_value_of_every_field_is_the_same(path: str) -> None:
    """Each value at each place gives the same interaction in both ways, alone and in a full event."""
    for value in VALUES:
        check_bytes(placed(path, value))
        check_bytes(placed(path, value, FULL))


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(VALUES)), max_size=5))
def test_values_of_several_fields_are_the_same(changes: list[tuple[str, str]]) -> None:
    """Values in several fields give the same interaction, also times in different units and equal names."""
    value = orjson.dumps(FULL)
    for path, text in changes:
        value = value[:-1] + b"," + placed(path, text, {})[1:]
    check_bytes(value)


@given(
    st.sampled_from([orjson.dumps(FULL), next(interactions(1)), event(extra={"a": 1}, b=2)]),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=3),
)
@example(b"\xef\xbb\xbf" + orjson.dumps(FULL), [(0, 0, b"")])
@example(orjson.dumps(FULL), [(9_999, 0, b"\n\t ")])
@example(orjson.dumps(FULL), [(9_999, 0, b"\x00")])
@example(orjson.dumps(FULL), [(9_999, 0, b"{}")])
def test_damaged_bytes_are_the_same(value: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    """Bytes that the general parser rejects are never read strictly, and others are read as by it."""
    for at, removed, put in changes:
        at = min(at, len(value))  # noqa: PLW2901
        value = value[:at] + put + value[at + removed :]
    check_bytes(value)


@pytest.mark.parametrize(
    "value", [*[each.value for each in POISON], *REPAIRED.values()], ids=lambda value: str(value)[:40]
)
def test_poison_is_never_read_strictly(value: bytes | None) -> None:
    """An event that is rejected or repaired is left to the general way."""
    assert value is None or len(value) > 100_000 or strict.from_json(value, DEFAULT_MAX_ITEMS) is None


def test_an_instance_is_as_pydantic_makes_it() -> None:
    """Copies, comparisons, dumps and flags of the fast way's instances work, and one's changes leave others alone."""
    first, second = (decode(orjson.dumps(FULL)) for _ in range(2))
    general = intake.read(FULL)
    changed = first.with_flags({"cut:spans"}, {"tenant": "t"})
    assert (changed.flags, changed.tenant, first.flags, first.tenant) == (("cut:spans",), "t", second.flags, None)
    assert first == second == general == first.model_copy(deep=True)
    assert changed.model_fields_set == general.model_fields_set | Interaction.model_fields.keys()
    assert first.model_dump() == general.model_dump()
    assert hash((first.contexts or ())[0]) == hash((general.contexts or ())[0])
    first.labels["x"] = "y"
    first.extra["x"] = "y"
    assert (second.labels, second.extra) == (general.labels, {})
    with pytest.raises(ValueError, match="frozen"):
        first.tenant = "t"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        _ = first.unknown  # type: ignore[attr-defined]
