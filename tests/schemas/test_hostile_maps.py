"""Hostile events under a map that uses every rule: they cost time in proportion to their size, and raise nothing."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import Rejected
from ragweir.schemas.codec.decoder import JsonDecoder, Skipped
from ragweir.schemas.codec.json import decode, encode_json, interaction
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.mapping.literals import PARSERS, parse_python
from ragweir.schemas.codec.mapping.unmatched import unmatched_paths

EVERY_RULE = FieldMap.parse(
    """
where = { path = "cell", parse = "any", then = "a[].b", absent = true }
event_id = { hash = ["cell", "docs", "id"] }
query = { first = ["q", { path = "cell", text = true }] }
response = { first = [{ path = "cell", parse = "any", text = true, then = "[-1]" }, "q"] }
tenant = { path = "cell", split = ",", then = "[-1]" }
"labels.cell" = { path = "cell", parse = "any", entries = true, text = true }
ended_at = { path = "docs[0].s", unit = "s", after = "docs[0].k" }
expected = { first = [{ path = "cell", parse = "python", then = "[][][]" }, { path = "cell", parse = "json" }, "id"] }
"contexts[].text" = "docs[].parts[].t"
"contexts[].score" = { path = "docs[].s", translate = { "1" = 1 }, otherwise = 0 }
"contexts[].feedback.x" = "docs[].parts"
"spans[].kind" = { constant = "tool" }

["spans[].name"]
path = "docs[]"
where = [{ path = "k", in = ["a", 1] }, { path = "z", absent = true }]
then = { first = ["n", { path = "m", parse = "any", then = { first = ["a[].b", "c"] } }] }
"""
)
SIZE = 2**16
CELLS = {
    "brackets": "[" * SIZE,
    "closed brackets": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "parentheses": "(" * SIZE,
    "braces": "{'a':" * (SIZE // 5),
    "wrappers": "array(" * (SIZE // 6),
    "numbers": f"[{'0,' * (SIZE // 2)}0]",
    "a number": f"[1{'0' * SIZE}.5]",
    "an exponent": f"[1e{'9' * SIZE}]",
    "spaces": f"[{' ' * SIZE}x",
    "a text without an end": "['" + "a" * SIZE,
    "escapes without an end": "['" + "\\a" * (SIZE // 2),
    "escapes": "['" + "\\x41" * (SIZE // 4) + "']",
    "texts": "[" + "'' " * (SIZE // 3) + "]",
    "commas": f"[{',' * SIZE}]",
    "colons": f"{{{'1:' * (SIZE // 2)}}}",
    "times": f"[datetime.datetime({'1,' * (SIZE // 2)}",
    "types": f"[{'dtype=a ' * (SIZE // 8)}",
    "signs": "[" + "-" * SIZE,
    "objects": orjson.dumps([{"a": [1]}] * (SIZE // 12)).decode(),
}


def repeated(item: object) -> list[Any]:
    return [item] * (SIZE // (len(orjson.dumps(item)) + 1))


LISTS = {
    "lists of empty objects": repeated({"parts": [{}]}),
    "one list within": [{"parts": repeated({"t": 1})}],
    "selected elements": repeated({"k": 1}),
    "elements that are parsed": repeated({"k": 1, "m": "{'a': [{'b': 1}]}"}),
    "elements that cannot be parsed": repeated({"k": 1, "m": "[1"}),
    "numbers": repeated(0),
    "lists": repeated([]),
}
EVENTS = {f"cell: {name}": {"cell": cell} for name, cell in CELLS.items()} | {
    f"docs: {name}": {"docs": docs} for name, docs in LISTS.items()
}


@pytest.mark.heavy
def test_a_hostile_event_is_cheap() -> None:
    """None of 64 KiB takes half a second; there is a margin of four, as the machine may be busy."""
    decoder = JsonDecoder(mapping=EVERY_RULE)
    for name, event in EVENTS.items():
        value = orjson.dumps({"id": "1", "q": "Who?", **event})
        began = time.process_time()
        (found,) = decoder.decode(value)
        unmatched_paths(EVERY_RULE, [orjson.loads(value)])
        assert time.process_time() - began < 2, name
        assert not isinstance(found, Rejected) or found.error_class == "unmapped", name


def test_deep_nesting_rejects_an_event_or_is_read() -> None:
    for depth in (200, 300, 1_000):
        nested = b"[" * depth + b"]" * depth
        for field in (b"docs", b"cell", b"id"):
            (found,) = JsonDecoder(mapping=EVERY_RULE).decode(b'{"id": "1", "q": "", "%b": %b}' % (field, nested))
            assert not isinstance(found, Rejected) or found.error_class in ("unmapped", "not_json", "unreadable")


names = st.sampled_from(["cell", "docs", "id", "q", "a", "b", "k", "m", "n", "parts", "t"])
cells = st.text("[]{}()'\",:\\ab1.- \n", max_size=20) | st.sampled_from(
    ["[{'a': [{'b': 1}]}]", '{"a": [{}]}', "[1 2]", "1"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | cells,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=10,
)


@pytest.mark.slow
@given(st.dictionaries(names, values))
def test_any_event_is_read_rejected_or_skipped(event: dict[str, Any]) -> None:
    """Nothing but `Rejected` is raised, and publishing what was mapped would not change it."""
    (found,) = JsonDecoder(mapping=EVERY_RULE).decode(orjson.dumps(event))
    if isinstance(found, Rejected):
        assert found.error_class in ("unmapped", "invalid")
    elif not isinstance(found, Skipped):
        ours = EVERY_RULE(orjson.loads(orjson.dumps(event)))
        assert decode(encode_json(ours)) == interaction(ours) == found
    unmatched_paths(EVERY_RULE, [event])


@given(cells | st.text())
def test_any_text_is_parsed_or_a_value_error(text: str) -> None:
    for parser in PARSERS.values():
        try:
            value = parser(text)
        except ValueError:
            continue
        orjson.dumps(value)


literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(literals)
def test_what_python_shows_is_read_back(value: object) -> None:
    assert parse_python(repr(value)) == value


def test_a_literal_is_as_deep_as_json_may_be() -> None:
    assert parse_python("[" * 1_000 + "]" * 1_000)[0]
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_python("[" * 1_001)


def test_a_cell_is_parsed_once_for_several_rules_unless_it_is_large() -> None:
    """The memory of parsed cells is bounded, so that large cells are not kept."""
    for parser in PARSERS.values():
        small, large = "[1, 2]", f"[{' ' * 2**16}1]"
        assert parser(small) is parser(small)
        assert parser(large) is not parser(large)
