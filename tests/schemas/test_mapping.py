"""The map for foreign shapes: its grammar, its errors, and that no foreign event breaks it."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.codec.intake import MAX_ITEMS_LIMIT
from ragweir.schemas.codec.json import decode, encode_json, interaction
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.times import parse_time

REQUIRED = 'event_id = "id"\nquery = "q"\nresponse = "a"\n'
FOREIGN: dict[str, Any] = {
    "id": 7,
    "q": "Who?",
    "a": "Ada.",
    "n": None,
    "list": ["x", "y"],
    "docs": [{"t": "one", "m": {"score": 0.5}}, {"t": None}, "stray", {"m": {"score": 1}}],
    "deep": {"a.b": {"c": [[1, 2], {"d": "found"}]}},
    "attributes": {"session.id": "s-1", "größe": "L"},
    "zero": 0,
    "yes": True,
    "blank": " ",
    "as_json": '["a", {"b": ["c", "d"]}]',
    "as_python": "['a', \"it's\"]",
    "as_array": "['a' 'b']",
    "grid": [[1, 2], [], None, [3]],
    "tree": '[{"a": "p", "b": [{"c": [1, 2], "d": "q"}, {"c": [3]}]}, {"a": "r"}]',
    "steps": [
        {"kind": "r", "docs": [{"t": "1"}, {"t": "2", "s": 0.2}, {"s": 0.3}]},
        {"kind": "r"},
        "stray",
        {"kind": "x", "docs": [{"t": "4"}]},
    ],
}
OURS: dict[str, Any] = {"event_id": 7, "query": "Who?", "response": "Ada."}


def mapped(rules: str, foreign: dict[str, Any] = FOREIGN) -> dict[str, Any]:
    """What a map with these rules beside the required ones reads, without the required fields."""
    return {name: value for name, value in FieldMap.parse(REQUIRED + rules)(foreign).items() if name not in OURS}


RULES = (
    ('tenant = "a"', {"tenant": "Ada."}),
    ('tenant = "deep.\\"a.b\\".c[1].d"', {"tenant": "found"}),
    ("tenant = 'deep.\"a.b\".c[0][1]'", {"tenant": 2}),
    ("session_id = 'attributes.\"session.id\"'", {"session_id": "s-1"}),
    ('tenant = "attributes.größe"', {"tenant": "L"}),
    ('tenant = "list[1]"', {"tenant": "y"}),
    ('tenant = "n"', {"tenant": None}),
    ('tenant = "list[2]"', {}),
    ('tenant = "n.x"', {}),
    ('tenant = "a[0]"', {}),
    ('tenant = "a.strip"', {}),
    ('tenant = "nowhere.at.all"', {}),
    ('tenant = ["id", "a", "list[0]"]', {"tenant": "7:Ada.:x"}),
    ('tenant = ["id"]', {"tenant": "7"}),
    ('tenant = ["id", "n"]', {}),
    ('tenant = ["id", "nowhere"]', {}),
    ('tenant = { constant = "acme" }', {"tenant": "acme"}),
    ("labels = { constant = { a = 1, b = [true, 1.5] } }", {"labels": {"a": 1, "b": [True, 1.5]}}),
    ("ended_at = { constant = 2026-11-21T12:00:00.5+02:00 }", {"ended_at": "2026-11-21T12:00:00.500000+02:00"}),
    ("ended_at = { constant = 2026-11-21T12:00:00 }", {"ended_at": "2026-11-21T12:00:00Z"}),
    ('"labels.region" = "a"\n"labels.\\"a.b\\"" = "id"', {"labels": {"region": "Ada.", "a.b": 7}}),
    ('"feedback.score" = "id"\n"feedback.label" = "nowhere"', {"feedback": {"score": 7}}),
    ('expected = "list"', {"expected": ["x", "y"]}),
    ('expected = "list[]"', {"expected": ["x", "y"]}),
    ('expected = "docs[].t"', {"expected": ["one", None]}),
    ('"contexts[].text" = "list[]"', {"contexts": [{"text": "x"}, {"text": "y"}]}),
    ('"contexts[].text" = "a"\n"contexts[].page" = "id"', {"contexts": [{"text": "Ada.", "page": 7}]}),
    ('"contexts[].text" = "nowhere"', {}),
    (
        '"contexts[].text" = "docs[].t"\n"contexts[].score" = "docs[].m.score"',
        {"contexts": [{"text": "one", "score": 0.5}, {"text": None}, {}, {"score": 1}]},
    ),
    ('"contexts[].text" = "list[]"\n"contexts[].score" = "docs[].m.score"', 4),
    ('"contexts[].text" = "nowhere[].t"', {}),
    ('"contexts[].text" = "n[].t"', {}),
    ('extra = "attributes"', {"extra": FOREIGN["attributes"]}),
    ('tenant = { path = "a" }', {"tenant": "Ada."}),
    # The first that is present.
    ('tenant = { first = ["nowhere", "n", "a", "id"] }', {"tenant": "Ada."}),
    ('tenant = { first = ["nowhere", "n"] }', {}),
    ('tenant = { first = ["nowhere", { constant = "x" }] }', {"tenant": "x"}),
    ('tenant = { first = [["id", "n"], ["id", "a"]] }', {"tenant": "7:Ada."}),
    ('tenant = { first = [{ first = ["n"] }, "a"] }', {"tenant": "Ada."}),
    ('tenant = { first = ["zero", "a"] }', {"tenant": 0}),
    ('tenant = { first = [{ path = "a", parse = "json" }, "a"] }', {"tenant": "Ada."}),
    ('expected = { first = ["docs[].nowhere", "list[]"] }', {"expected": ["x", "y"]}),
    ('expected = { first = ["a[].nowhere", "list[]"] }', {"expected": ["x", "y"]}),
    ('expected = { first = ["docs[9]", "list[]"] }', {"expected": ["x", "y"]}),
    ('expected = { first = ["a[]", "nowhere[]"] }', {}),  # It may have the other form, without the field.
    ('"contexts[].text" = { first = ["nowhere[]", "a"] }', {"contexts": [{"text": "Ada."}]}),
    ('"contexts[].text" = { first = ["list[]", "a"] }', {"contexts": [{"text": "x"}, {"text": "y"}]}),
    (
        '"contexts[].text" = { path = "docs[]", then = { first = ["t", "m.score"] } }',
        {"contexts": [{"text": "one"}, {}, {}, {"text": 1}]},
    ),
    # Values that are translated.
    ('tenant = { path = "a", translate = { "Ada." = "ada", x = "y" } }', {"tenant": "ada"}),
    ('tenant = { path = "a", translate = { x = "y" } }', {"tenant": "Ada."}),
    ('tenant = { path = "a", translate = { x = "y" }, otherwise = "z" }', {"tenant": "z"}),
    ('tenant = { path = "id", translate = { 7 = "seven" } }', {"tenant": "seven"}),
    ('answerable = { path = "yes", translate = { true = false } }', {"answerable": False}),
    ('tenant = { path = "n", translate = { x = "y" }, otherwise = "z" }', {"tenant": None}),
    ('tenant = { path = "nowhere", translate = { x = "y" }, otherwise = "z" }', {}),
    ('expected = { path = "list[]", translate = { x = "X" } }', {"expected": ["X", "y"]}),
    # Texts that are parsed.
    ('expected = { path = "as_json", parse = "json" }', {"expected": ["a", {"b": ["c", "d"]}]}),
    ('tenant = { path = "as_json", parse = "json", then = "[1].b[0]" }', {"tenant": "c"}),
    (
        '"contexts[].text" = { path = "as_json", parse = "json", then = "[1].b[]" }',
        {"contexts": [{"text": "c"}, {"text": "d"}]},
    ),
    (
        '"contexts[].text" = { path = "as_python", parse = "python", then = "[]" }',
        {"contexts": [{"text": "a"}, {"text": "it's"}]},
    ),
    ('expected = { path = "as_array", parse = "python" }', {"expected": ["a", "b"]}),
    ('expected = { path = "list", parse = "json" }', {"expected": ["x", "y"]}),
    ('tenant = { path = "blank", parse = "json" }', {}),
    # Whatever a cell holds: JSON, a Python literal, or text as it is.
    ('expected = { path = "as_json", parse = "any" }', {"expected": ["a", {"b": ["c", "d"]}]}),
    ('expected = { path = "as_python", parse = "any" }', {"expected": ["a", "it's"]}),
    ('tenant = { path = "a", parse = "any" }', {"tenant": "Ada."}),
    ('tenant = { path = "a", parse = "any", then = "b" }', {}),
    ('expected = { path = "nowhere", parse = "any", then = "[]" }', {}),
    ('"contexts[].text" = { path = "n", parse = "any", then = "[]" }', {}),
    # Places from the end.
    ('tenant = "list[-1]"', {"tenant": "y"}),
    ('tenant = "list[-2]"', {"tenant": "x"}),
    ('tenant = "list[-3]"', {}),
    ('tenant = "docs[-4].t"', {"tenant": "one"}),
    # Texts that hold a list.
    ('expected = { path = "a", split = "d" }', {"expected": ["A", "a."]}),
    ('expected = { path = "list", split = "d" }', {"expected": ["x", "y"]}),
    (
        '"contexts[].text" = { path = "list[]", split = "x", then = "[-1]" }',
        {"contexts": [{"text": ""}, {"text": "y"}]},
    ),
    # Values as text.
    ('tenant = { path = "a", text = true }', {"tenant": "Ada."}),
    ('tenant = { path = "list", text = true }', {"tenant": '["x","y"]'}),
    ('tenant = { path = "list", text = true, then = "[1]" }', {"tenant": "y"}),
    ('tenant = { path = "n", text = true }', {"tenant": None}),
    # Lists within lists.
    ('"contexts[].text" = "steps[].docs[].t"', {"contexts": [{"text": "1"}, {"text": "2"}, {}, {"text": "4"}]}),
    (
        '"contexts[].text" = "steps[].docs[].t"\n"contexts[].score" = "steps[].docs[].s"',
        {"contexts": [{"text": "1"}, {"text": "2", "score": 0.2}, {"score": 0.3}, {"text": "4"}]},
    ),
    (
        '"contexts[].text" = "steps[].docs[].t"\n"contexts[].retrieval_method" = "steps[].kind"',
        {
            "contexts": [
                {"text": "1", "retrieval_method": "r"},
                {"text": "2", "retrieval_method": "r"},
                {"retrieval_method": "r"},
                {"text": "4", "retrieval_method": "x"},
            ]
        },
    ),
    (
        """
        "contexts[].text" = { path = "steps[]", where = { path = "kind", in = ["x"] }, then = "docs[].t" }
        "contexts[].score" = { path = "steps[].n", where = { path = "kind", in = ["x"] } }
        "contexts[].retrieval_method" = { path = "steps[]", where = { path = "kind", in = ["x"] }, then = "kind" }
        """,
        {"contexts": [{"text": "4", "retrieval_method": "x"}]},
    ),
    (
        """"contexts[].text" = { path = "tree", parse = "json", then = "[].b[].c[]" }
        "contexts[].page" = { path = "tree", parse = "json", then = "[].a" }
        "contexts[].chunk_id" = { path = "tree", parse = "json", then = "[].b[].d" }""",
        {
            "contexts": [
                {"text": 1, "page": "p", "chunk_id": "q"},
                {"text": 2, "page": "p", "chunk_id": "q"},
                {"text": 3, "page": "p"},
            ]
        },
    ),
    ('expected = "grid[][]"', {"expected": [1, 2, 3]}),
    # Elements that are selected.
    (
        '"contexts[].text" = { path = "steps[]", where = { path = "kind", in = ["r"] }, then = "docs[].t" }',
        {"contexts": [{"text": "1"}, {"text": "2"}, {}]},
    ),
    ('expected = { path = "steps[].docs[].t", where = { path = "s", absent = false } }', {"expected": ["2"]}),
    ('expected = { path = "list[]", where = { path = "s", absent = false } }', {}),
    (
        'expected = { path = "steps[].docs[].t", where = [{ path = "s", absent = true }, { path = "t", in = ["4"] }] }',
        {"expected": ["4"]},
    ),
    ('tenant = { path = "steps[].docs[].t", where = { path = "t", in = [1] } }', {"tenant": []}),
    (
        '"spans[].name" = "list[]"\n"spans[].kind" = { constant = "tool" }',
        {"spans": [{"name": "x", "kind": "tool"}, {"name": "y", "kind": "tool"}]},
    ),
    ('"retrieval.relevant_ids" = "docs[].t"', {"retrieval": {"relevant_ids": ["one", None]}}),
)


@pytest.mark.parametrize(("rules", "read"), RULES)
def test_a_rule_reads(rules: str, read: dict[str, Any] | int) -> None:
    """Each form of a rule reads what its path leads to, and leaves out what is not there."""
    found = mapped(rules)
    if isinstance(read, int):  # columns of different length: the longest decides, the gaps stay absent
        assert len(found["contexts"]) == read
        assert found["contexts"][3] == {"score": 1}
    else:
        assert found == read


IDS: dict[str, Any] = {"id": 7, "query": "Who?", "a": "1", "b": None, "deep": {"y": [1], "x": 2}}


def hashed(event: dict[str, Any], rule: str = '{ hash = ["a", "b", "deep"] }') -> object:
    return mapped(f"tenant = {rule}", event).get("tenant")


def test_a_hash_is_that_of_the_values() -> None:
    """It has 32 hex digits, depends on the values and their types alone, and absent is as null."""
    canonical = b'[["1"],[],[{"x":2,"y":[1]}]]'
    assert hashed(IDS) == hashlib.sha256(canonical).hexdigest()[:32]
    reordered = {"deep": {"x": 2, "y": [1]}, "a": "1", "other": 5}
    assert hashed(reordered) == hashed(IDS)
    others = [IDS | {"a": 1}, IDS | {"a": None}, IDS | {"b": "null"}, IDS | {"b": "1", "a": None}, IDS | {"deep": []}]
    assert len({hashed(each) for each in [IDS, *others]}) == 6
    assert hashed({"a": None}) is None
    assert hashed(IDS, '{ hash = ["deep.y[]", "a"] }') == hashed(IDS, '{ hash = ["deep.y", "a"] }')


def test_a_row_is_the_number_in_the_file() -> None:
    field_map = FieldMap.parse('event_id = { row = true }\nquery = "q"\nresponse = "a"\ntenant = ["q", { row = true }]')
    assert field_map.numbers_rows
    assert field_map({"q": "Who?"}, 7) == {"event_id": "7", "query": "Who?", "tenant": "Who?:7"}
    assert field_map({"q": "Who?"}) == {"query": "Who?"}
    assert not FieldMap.parse(REQUIRED).numbers_rows


SELECTED = (
    (
        '{ path = "kind", in = ["chain", 1] }',
        [{"kind": "chain"}, {"kind": 1}, {"kind": 1.0}],
        [{"kind": True}, {"kind": "1"}, {}],
    ),
    (
        '{ path = "kind", in = [true] }',
        [{"kind": True}],
        [{"kind": 1}, {"kind": "true"}, {"kind": [True, []], "x": {}}][:2],
    ),
    ('{ path = "parent", absent = true }', [{}, {"parent": None}], [{"parent": "x"}, {"parent": 0}, {"parent": ""}]),
    ('{ path = "parent", absent = false }', [{"parent": 0}, {"parent": ""}], [{}, {"parent": None}]),
    ('{ path = "tags[]", in = ["a"] }', [{"tags": ["b", "a"]}], [{"tags": ["b"]}, {"tags": []}, {}]),
    ('{ path = "meta", parse = "json", then = "k", in = ["a"] }', [{"meta": '{"k": "a"}'}], [{"meta": '{"k": "b"}'}]),
    (
        '[{ path = "a", in = [1] }, { path = "b", absent = true }]',
        [{"a": 1}],
        [{"a": 2}, {"a": 1, "b": 1}, {"b": 1}],
    ),
)


@pytest.mark.parametrize(("condition", "selected", "others"), SELECTED)
def test_where_selects_events(condition: str, selected: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    field_map = FieldMap.parse(f"{REQUIRED}where = {condition}")
    assert all(field_map(each) is not None for each in selected)
    assert [field_map(each) for each in others] == [None] * len(others)


def test_a_text_that_cannot_be_parsed_rejects_the_event_without_being_quoted() -> None:
    for text in (
        "secret",
        "[secret]",
        "['secret'",
        "{'a', 'b'}",
        "b'a'",
        "[1 2 ... 8]",
        "]",
        "'\\ud800'",
        "1 2",
        "[" * 5000,
    ):
        for kind, what in (("json", "JSON"), ("python", "a Python literal")):
            with pytest.raises(Rejected, match=rf"^tenant \(from a\): the text is not {what}$"):
                mapped(f'tenant = {{ path = "a", parse = "{kind}" }}', FOREIGN | {"a": text})


ERRORS = (
    ("", "the map must name event_id, query, response"),
    ('query = "q"\nresponse = "a"', "the map must name event_id"),
    ("query = ", "not TOML: "),
    (REQUIRED + 'query = "again"', "not TOML: "),
    (REQUIRED + 'answer = "a"', "answer: an interaction has no field 'answer'"),
    (REQUIRED + '"labels[0]" = "a"', "labels[0]: [] may only follow"),
    (REQUIRED + '"contexts.a[]" = "list[]"', "contexts.a[]: [] may only follow"),
    (REQUIRED + '"contexts[]" = "list[]"', "contexts[]: needs a name after [], such as contexts[].text"),
    (
        REQUIRED + '"contexts[].text" = { constant = "a" }',
        "contexts[]: a constant needs another field of contexts[] that is",
    ),
    (REQUIRED + '"labels.a" = "list[]"', "labels.a: a path through a list needs [] on both sides"),
    (REQUIRED + "tenant = 5", "tenant: must be a path"),
    (REQUIRED + "tenant = []", "tenant: must be a path"),
    (REQUIRED + 'tenant = ["a", 5]', "tenant: must be a path"),
    (REQUIRED + 'tenant = { constant = "a", b = 1 }', "tenant: 'b' has no meaning beside `constant`"),
    (REQUIRED + 'tenant = { path = "a", unit = "ms" }', "tenant: only a time has a unit, which are started_at, "),
    (REQUIRED + 'ended_at = { path = "a", unit = "min" }', "ended_at: the unit must be one of s, ms, us, ns"),
    (REQUIRED + 'ended_at = { path = "a", unit = ["ms"] }', "ended_at: the unit must be one of s, ms, us, ns"),
    (REQUIRED + 'ended_at = { path = ["a"], unit = "ms" }', "ended_at: `path` must be a path"),
    (REQUIRED + '"contexts[].text" = { path = "list[]", unit = "s" }', "contexts[].text: only a time has a unit"),
    (REQUIRED + '"spans[].ended_at" = { path = 5, unit = "s" }', "spans[].ended_at: `path` must be a path"),
    (
        REQUIRED + 'labels.region = "a"',
        'or `constant`; write a name with a dot in quotes: "labels.region"',
    ),
    (REQUIRED + "tenant = { constant = 99999999999999999999 }", "tenant: this constant cannot be written as JSON"),
    (REQUIRED + 'labels = "a"\n"labels.b" = "b"', "labels.b: labels is already set as a whole"),
    (REQUIRED + '"labels.b" = "b"\nlabels = { constant = {} }', "labels.b: labels is already set as a whole"),
    (REQUIRED + '"labels.b" = "b"\n"labels.b.c" = "b"', "labels.b.c: labels.b is already set as a whole"),
    (REQUIRED + 'contexts = "docs"\n"contexts[].text" = "docs[].t"', "contexts[].text: contexts is already set"),
    (REQUIRED + 'tenant = ""', "the path '' is empty"),
    (REQUIRED + 'tenant = ".a"', "the path '.a' is not understood at character 1"),
    (REQUIRED + 'tenant = "a..b"', "the path 'a..b' is not understood at character 3"),
    (REQUIRED + 'tenant = "a."', "the path 'a.' ends in a dot"),
    (REQUIRED + 'tenant = "a[-]"', "the path 'a[-]' is not understood at character 2"),
    (REQUIRED + 'tenant = "a[1234567]"', "is not understood at character 2"),
    (REQUIRED + "tenant = { first = [] }", "tenant: `first` must be a list of paths"),
    (REQUIRED + 'tenant = { first = "a" }', "tenant: `first` must be a list of paths"),
    (REQUIRED + 'tenant = { hash = "a" }', "tenant: `hash` must be a list of paths"),
    (REQUIRED + "tenant = { row = 1 }", "tenant: `row` must be true"),
    (REQUIRED + 'tenant = { path = "a", then = { row = true } }', "tenant: only an event has a row"),
    (REQUIRED + 'tenant = { path = "a", otherwise = "x" }', "tenant: 'otherwise' has no meaning without `translate`"),
    (REQUIRED + 'tenant = { path = "a", translate = "x" }', "tenant: `translate` must be a table"),
    (REQUIRED + 'tenant = { path = "a", parse = "yaml" }', "tenant: `parse` must be one of json, python"),
    (REQUIRED + 'tenant = { path = "a", parse = ["json"] }', "tenant: `parse` must be one of json, python"),
    (REQUIRED + 'tenant = { path = "a", split = "" }', "tenant: `split` must be the text between the elements"),
    (REQUIRED + 'tenant = { path = "a", text = "b" }', "tenant: `text` must be true"),
    (REQUIRED + 'tenant = { path = "a", then = "b", translate = { a = 1 } }', "tenant: `translate` belongs into the"),
    (REQUIRED + 'tenant = { path = "a", where = { path = "b", absent = true } }', "tenant: `where` selects elements"),
    (REQUIRED + 'tenant = ["a", "list[]"]', "tenant: a list cannot be joined"),
    (REQUIRED + "tenant = " + "{ first = [" * 10 + '"a"' + "] }" * 10, "tenant: rules are nested more than 8 deep"),
    (REQUIRED + 'where = "a"', "where: `where` must be a table"),
    (REQUIRED + "where = []", "where: `where` must be a table"),
    (REQUIRED + 'where = { path = "a" }', "where: `where` needs one of `in` and `absent`"),
    (REQUIRED + 'where = { path = "a", in = ["x"], absent = true }', "where: `where` needs one of `in` and `absent`"),
    (REQUIRED + 'where = { path = "a", in = "x" }', "where: `in` must be a list"),
    (REQUIRED + 'where = { path = "a", in = [["x"]] }', "where: `in` must be a list"),
    (REQUIRED + 'where = { path = "a", absent = 1 }', "where: `absent` must be true or false"),
    (REQUIRED + "where = { in = [1] }", "where: a table needs one of `path`"),
    (REQUIRED + 'where = { row = true, in = ["1"] }', "where: `where` cannot select by `row`"),
    (
        REQUIRED + '"contexts[].text" = { path = "docs[].t", where = { path = "k", in = [1] } }\n'
        '"contexts[].score" = "docs[].s"',
        "contexts[].text: needs the same `where` as contexts[].score, which goes through the same list",
    ),
    (
        REQUIRED + '"contexts[].text" = "steps[].docs[].t"\n"contexts[].score" = "steps[].s"\n'
        '"contexts[].page" = "steps[].pages[]"',
        "contexts[].score: contexts[].text and contexts[].page go through different lists within steps[]",
    ),
    (REQUIRED + 'tenant = { path = "a", text = true, then = "b[]" }', "tenant: `text` belongs into the table"),
    (REQUIRED + 'ended_at = { path = "a", after = "b" }', "ended_at: `after` needs the `unit` of the duration"),
    (REQUIRED + 'ended_at = { path = "a[]", unit = "s", after = "b" }', "ended_at: `after` needs single values"),
    (REQUIRED + 'tenant = { path = "a", unit = "s", after = "b" }', "tenant: only a time has a unit"),
    (REQUIRED + "tenant = 'a.\"b'", "is not understood at character 3"),
)


@pytest.mark.parametrize(("toml", "told"), ERRORS)
def test_a_wrong_map_says_where(toml: str, told: str) -> None:
    """A map that is wrong is rejected when it is read, in one line that names the rule."""
    with pytest.raises(MapError) as caught:
        FieldMap.parse(toml)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("foreign", [None, True, 5, "text", [], [{}]])
def test_a_foreign_event_is_an_object(foreign: object) -> None:
    """What is no object cannot be mapped, and is told so."""
    with pytest.raises(Rejected, match="the event is not an object") as caught:
        FieldMap.parse(REQUIRED)(foreign)
    assert caught.value.error_class == "unmapped"


def test_a_list_marker_needs_a_list() -> None:
    """A path through a list that leads to something else rejects the event by our field's name, not by its content."""
    for other in ("secret", 5, {"secret": 1}, True):
        with pytest.raises(
            Rejected, match=r"^contexts\[\].text \(from list\[\].t\): what is at list is no list$"
        ) as caught:
            mapped('"contexts[].text" = "list[].t"', FOREIGN | {"list": other})
        assert caught.value.error_class == "unmapped"


def test_the_first_that_is_present_hides_no_broken_text() -> None:
    """A text that cannot be parsed rejects the event although other paths are absent, unless one of them is there."""
    rule = 'expected = { first = [{ path = "a", parse = "json" }, "b[]"] }'
    with pytest.raises(Rejected, match="the text is not JSON"):
        mapped(rule)
    assert mapped(rule, FOREIGN | {"b": ["x"]}) == {"expected": ["x"]}
    with pytest.raises(Rejected, match="what is at a is no list"):
        mapped('expected = { first = ["a[]", "q[]"] }')


def test_a_missing_required_field_is_ours_to_name() -> None:
    """A foreign event without what we require is invalid, and the reason names our fields."""
    with pytest.raises(Rejected, match=r"^event_id: missing; query: missing; "):
        interaction(FieldMap.parse(REQUIRED)({"a": "secret"}))


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"id": 7, "q": "Who?"}, "response (from a, reply): missing"),
    ({"id": 7, "q": "Who?", "a": ["secret"]}, "response (from a, reply): not text"),
    ({"id": "x" * 201, "q": "Who?", "a": ""}, "event_id (from id): longer than 200 characters"),
    ({"id": "", "q": "Who?", "a": ""}, "event_id (from id): empty"),
    (
        {"id": 1.5, "q": ["secret"], "a": ""},
        "event_id (from id): an id is text or a 64-bit integer; query (from q): not text",
    ),
    ({"id": 7, "q": "Who?", "a": "", "end": "secret"}, "ended_at (from end): not a time: write RFC 3339, or a number"),
    ([], "the event is not an object"),
)


@pytest.mark.parametrize(("foreign", "message"), WRONG)
def test_a_reason_names_the_path_of_the_map(foreign: object, message: str) -> None:
    """Who wrote the map reads where in the own file something is wrong, and no word of a library's."""
    rules = 'event_id = "id"\nquery = "q"\nresponse = { first = ["a", "reply"] }\nended_at = "end"'
    (rejected,) = JsonDecoder(mapping=FieldMap.parse(rules)).decode(encode_json(foreign))
    assert isinstance(rejected, Rejected)
    assert rejected.message.startswith(message)
    assert "secret" not in rejected.message
    assert "input.map" not in rejected.message


TIMED: tuple[tuple[object, str, str | None], ...] = (
    (1_764_000_000, "s", "2025-11-24T16:00:00Z"),
    (1_764_000, "s", "1970-01-21T10:00:00Z"),
    (946_684_800_000, "ms", "2000-01-01T00:00:00Z"),
    (90_000_000_000, "ms", "1972-11-07T16:00:00Z"),
    ("1764000000250", "ms", "2025-11-24T16:00:00.250000Z"),
    (1_764_000_000_250_001, "us", "2025-11-24T16:00:00.250001Z"),
    (1_764_000_000_250_001_999, "ns", "2025-11-24T16:00:00.250001Z"),
    (1_764_000_000.25, "s", "2025-11-24T16:00:00.250000Z"),
    ("2025-11-24T16:00:00Z", "ms", "2025-11-24T16:00:00Z"),
    (None, "ms", None),
)


@pytest.mark.parametrize(("sent", "unit", "read"), TIMED)
def test_the_unit_of_a_map_wins(sent: object, unit: str, read: str | None) -> None:
    """A number is read in the unit that the map says, whatever its magnitude; publishing it changes nothing."""
    spans = f'"spans[].started_at" = {{ path = "steps[].t", unit = "{unit}" }}\n"spans[].kind" = "steps[].k"'
    rules = FieldMap.parse(REQUIRED + f'ended_at = {{ path = "ts", unit = "{unit}" }}\n{spans}')
    ours = rules({"id": 7, "q": "Who?", "a": "Ada.", "ts": sent, "steps": [{"t": sent, "k": "llm"}, {"k": "llm"}]})
    event = interaction(ours)
    expected = None if read is None else parse_time(read)
    assert event.ended_at == expected
    assert [span.started_at for span in event.spans or ()] == [expected, None]
    assert decode(encode_json(ours)) == event


LATER: tuple[tuple[object, object, str, object], ...] = (
    (1.5, 1_764_000_000_250, "s", "2025-11-24T16:00:01.750000+00:00"),
    ("1500", "2025-11-24T16:00:00+01:00", "ms", "2025-11-24T15:00:01.500000+00:00"),
    (0, "2025-11-24T16:00:00Z", "s", "2025-11-24T16:00:00+00:00"),
    (-1, "2025-11-24T16:00:00Z", "s", "2025-11-24T15:59:59+00:00"),
    (None, "2025-11-24T16:00:00Z", "s", None),
    (1, None, "s", None),
    ("long", "2025-11-24T16:00:00Z", "s", "no time"),
    (1, "yesterday", "s", "no time"),
    (1e300, "2025-11-24T16:00:00Z", "s", "no time"),
    (10**12, "2025-11-24T16:00:00Z", "s", "no time"),
)


@pytest.mark.parametrize(("duration", "start", "unit", "read"), LATER)
def test_a_time_is_a_duration_after_another(duration: object, start: object, unit: str, read: object) -> None:
    rule = f'ended_at = {{ path = "took", unit = "{unit}", after = "began" }}'
    assert mapped(rule, OURS | FOREIGN | {"took": duration, "began": start}).get("ended_at") == read
    spans = f'"spans[].ended_at" = {{ path = "s[]", then = {{ path = "took", unit = "{unit}", after = "began" }} }}'
    found = mapped(spans, FOREIGN | {"s": [{"took": duration, "began": start}, {}]})
    assert found == {"spans": [{} if read is None else {"ended_at": read}, {}]}


def test_a_number_that_its_unit_does_not_fit_is_no_time() -> None:
    """What the map's unit puts beyond the year 9999 is not read in a unit that would fit."""
    rules = FieldMap.parse(REQUIRED + 'ended_at = { path = "ts", unit = "s" }')
    with pytest.raises(Rejected, match=r"^ended_at: not a time: "):
        interaction(rules({"id": 7, "q": "Who?", "a": "Ada.", "ts": 1_764_000_000_250}))


@pytest.mark.slow
def test_a_long_list_is_seen_to_be_too_long() -> None:
    """Of a list without end a map makes only so many elements that the event is still flagged as cut."""
    rules = FieldMap.parse(REQUIRED + '"contexts[].text" = "docs[]"')
    ours = rules({"id": 7, "q": "Who?", "a": "Ada.", "docs": ["x"] * (2 * MAX_ITEMS_LIMIT)})
    assert len(ours["contexts"]) == MAX_ITEMS_LIMIT + 1
    assert interaction(ours, {"contexts": MAX_ITEMS_LIMIT}).flags == ("cut:contexts",)


def test_events_do_not_leak_into_each_other() -> None:
    """A map keeps nothing of the events that it has read, not even where a constant is an object."""
    field_map = FieldMap.parse(REQUIRED + 'labels = { constant = { a = "x" } }\nfeedback = { constant = {} }')
    first = field_map(FOREIGN)
    assert interaction(field_map(FOREIGN | {"q": "Other?"})).query == "Other?"
    assert first == field_map(FOREIGN)


names = st.sampled_from(["id", "q", "a", "n", "list", "docs", "deep", "t", "attributes"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
WIDE = FieldMap.parse(
    REQUIRED
    + """
tenant = ["id", "deep.t"]
session_id = "docs[0].t"
expected = "list[].t"
labels = "attributes"
"contexts[].text" = "docs[].t"
"contexts[].document_id" = "docs[].id"
"contexts[].feedback.deep" = "list[].a.q[0]"
"feedback.score" = "deep.n"
"retrieval.relevant_ids" = "deep.list"
"""
)


@pytest.mark.slow
@given(json_values | st.dictionaries(names, json_values))
def test_any_foreign_event_is_survived(foreign: object) -> None:
    """Whatever a foreign event looks like, mapping and reading it gives an interaction or `Rejected`."""
    try:
        ours = WIDE(foreign)
        event = interaction(ours)
    except Rejected as rejected:
        assert rejected.error_class in ("unmapped", "invalid")  # noqa: PT017 - reading it is as right as rejecting it
    else:
        assert decode(encode_json(ours)) == event, "publishing what was mapped would change it"


@given(st.text(max_size=30) | st.text('ab."[]0', max_size=12))
def test_any_path_is_survived(path: str) -> None:
    """Whatever stands for a path, the map is read or rejected as wrong, and what is read does not raise on an event."""
    try:
        field_map = FieldMap({"event_id": "id", "query": "q", "response": "a", "expected": path})
    except MapError:
        return
    try:
        field_map(FOREIGN)
    except Rejected as rejected:
        assert rejected.error_class == "unmapped"  # noqa: PT017 - reading it is as right as rejecting it
