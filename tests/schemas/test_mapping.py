"""The map for foreign shapes: its grammar, its errors, and that no foreign event breaks it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import MapError, Rejected
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


ERRORS = (
    ("", "the map must name event_id, query, response"),
    ('query = "q"\nresponse = "a"', "the map must name event_id"),
    ("query = ", "not TOML: "),
    (REQUIRED + 'query = "again"', "not TOML: "),
    (REQUIRED + 'answer = "a"', "answer: an interaction has no field 'answer'"),
    (REQUIRED + '"labels[0]" = "a"', "labels[0]: [] may only follow"),
    (REQUIRED + '"contexts.a[]" = "list[]"', "contexts.a[]: [] may only follow"),
    (REQUIRED + '"contexts[]" = "list[]"', "contexts[]: needs a path on the right, and a name after [] on the left"),
    (REQUIRED + '"contexts[].text" = { constant = "a" }', "contexts[].text: needs a path on the right"),
    (REQUIRED + '"labels.a" = "list[]"', "labels.a: a path through a list needs [] on both sides"),
    (REQUIRED + "tenant = 5", "tenant: must be a path"),
    (REQUIRED + "tenant = []", "tenant: must be a path"),
    (REQUIRED + 'tenant = ["a", 5]', "tenant: must be a path"),
    (REQUIRED + 'tenant = { constant = "a", b = 1 }', "tenant: a table may only hold `constant`"),
    (REQUIRED + 'tenant = { path = "a", unit = "ms" }', "tenant: only a time has a unit, which are started_at, "),
    (REQUIRED + 'ended_at = { path = "a", unit = "min" }', "ended_at: the unit must be one of s, ms, us, ns"),
    (REQUIRED + 'ended_at = { path = "a", unit = ["ms"] }', "ended_at: the unit must be one of s, ms, us, ns"),
    (REQUIRED + 'ended_at = { path = ["a"], unit = "ms" }', "ended_at: `path` must be a path"),
    (REQUIRED + 'ended_at = { path = "a" }', "ended_at: a table may only hold `constant`, or `path` and `unit`"),
    (REQUIRED + '"contexts[].text" = { path = "list[]", unit = "s" }', "contexts[].text: only a time has a unit"),
    (REQUIRED + '"spans[].ended_at" = { path = 5, unit = "s" }', "spans[].ended_at: needs a path on the right"),
    (REQUIRED + 'labels.region = "a"', "labels: a table may only hold `constant`"),
    (REQUIRED + "tenant = { constant = 99999999999999999999 }", "tenant: this constant cannot be written as JSON"),
    (REQUIRED + 'labels = "a"\n"labels.b" = "b"', "labels.b: labels is already set as a whole"),
    (REQUIRED + '"labels.b" = "b"\nlabels = { constant = {} }', "labels.b: labels is already set as a whole"),
    (REQUIRED + '"labels.b" = "b"\n"labels.b.c" = "b"', "labels.b.c: labels.b is already set as a whole"),
    (REQUIRED + 'contexts = "docs"\n"contexts[].text" = "docs[].t"', "contexts[].text: contexts is already set"),
    (REQUIRED + 'tenant = ""', "the path '' is empty"),
    (REQUIRED + 'tenant = ".a"', "the path '.a' is not understood at character 1"),
    (REQUIRED + 'tenant = "a..b"', "the path 'a..b' is not understood at character 3"),
    (REQUIRED + 'tenant = "a."', "the path 'a.' ends in a dot"),
    (REQUIRED + 'tenant = "a[-1]"', "the path 'a[-1]' is not understood at character 2"),
    (REQUIRED + 'tenant = "a[1234567]"', "is not understood at character 2"),
    (REQUIRED + 'tenant = "a[].b[]"', "the path 'a[].b[]' has more than one []"),
    (REQUIRED + "tenant = 'a.\"b'", "is not understood at character 3"),
)


@pytest.mark.parametrize(("toml", "told"), ERRORS)
def test_a_wrong_map_says_where(toml: str, told: str) -> None:
    """A map that is wrong is refused when it is read, in one line that names the rule."""
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
        with pytest.raises(Rejected, match=r"^contexts\[\].text: the map's path does not lead to a list$") as caught:
            mapped('"contexts[].text" = "list[].t"', FOREIGN | {"list": other})
        assert caught.value.error_class == "unmapped"


def test_a_missing_required_field_is_ours_to_name() -> None:
    """A foreign event without what we require is invalid, and the reason names our fields."""
    with pytest.raises(Rejected, match=r"^event_id: Field required; query: Field required; "):
        decode(b'{"a": "secret"}', mapping=FieldMap.parse(REQUIRED))


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


def test_a_number_that_its_unit_does_not_fit_is_no_time() -> None:
    """What the map's unit puts beyond the year 9999 is not read in a unit that would fit."""
    rules = FieldMap.parse(REQUIRED + 'ended_at = { path = "ts", unit = "s" }')
    with pytest.raises(Rejected, match=r"^ended_at: not a time: "):
        interaction(rules({"id": 7, "q": "Who?", "a": "Ada.", "ts": 1_764_000_000_250}))


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
    """Whatever stands for a path, the map is read or refused as wrong, and what is read does not raise on an event."""
    try:
        field_map = FieldMap({"event_id": "id", "query": "q", "response": "a", "expected": path})
    except MapError:
        return
    try:
        field_map(FOREIGN)
    except Rejected as rejected:
        assert rejected.error_class == "unmapped"  # noqa: PT017 - reading it is as right as rejecting it
