"""Paths of a map that lead to nothing in a sample, each with the nearest path that exists."""

from typing import Any

import pytest

from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.mapping.unmatched import unmatched_paths

REQUIRED = 'event_id = "id"\nquery = "question"\nresponse = "answer"\n'
EVENTS: list[dict[str, Any]] = [
    {
        "id": 1,
        "question": "Who?",
        "answer": None,
        "kind": "chain",
        "docs": [{"content": "Ada.", "meta": {"source": "a"}}],
        "empty": [],
        "cell": '{"inner": {"tenant": "x"}}',
        "python": "[{'text': 'y'}]",
        "steps": [{"kind": "r", "docs": [{"t": "1"}]}],
    },
    {"id": 2, "question": "Who?", "answer": "Ada.", "kind": "tool", "only_tools": 1},
]

NEAREST = "; the nearest path that exists is "
CASES = (
    ("", []),
    ('tenant = "Kind"', ["tenant: nothing is at Kind; the nearest path that exists is kind"]),
    ('tenant = "zzz"', ["tenant: nothing is at zzz"]),
    ('tenant = ["id", "knid"]', ["tenant: nothing is at knid; the nearest path that exists is kind"]),
    ('tenant = { hash = ["id", "knid"] }', ["tenant: nothing is at knid; the nearest path that exists is kind"]),
    # The alternatives of `first` are normal, unless none is there.
    ('tenant = { first = ["knid", "kind"] }', []),
    ('tenant = { first = ["zzz", { constant = "x" }] }', []),
    (
        'tenant = { first = ["zzz", "knid"] }',
        [f"tenant: nothing is at zzz or knid{NEAREST}kind"],
    ),
    # Null, and a list without elements, may hold more in other events.
    ('tenant = "answer.text"', []),
    ('tenant = "question.text"', [f"tenant: nothing is at question.text{NEAREST}question"]),
    ('"contexts[].text" = "empty[].text"', []),
    (
        '"contexts[].text" = "docs[].contents"',
        ["contexts[].text: nothing is at docs[].contents; the nearest path that exists is docs[].content"],
    ),
    (
        '"contexts[].text" = "doc[].content"',
        ["contexts[].text: nothing is at doc[].content; the nearest path that exists is docs[].content"],
    ),
    ('tenant = "docs[0].meta.source"', []),
    (
        'tenant = "docs[9].meta.source"',
        [f"tenant: nothing is at docs[9].meta.source{NEAREST}docs[].meta.source"],
    ),
    # Within what is parsed, and within elements.
    ('tenant = { path = "cell", parse = "json", then = "inner.tenant" }', []),
    (
        'tenant = { path = "cell", parse = "json", then = "inner.tenat" }',
        ["tenant: nothing is at inner.tenat; the nearest path that exists is inner.tenant"],
    ),
    (
        'tenant = { path = "id", parse = "json", then = { path = "a", parse = "json", then = "b" } }',
        ["tenant: nothing is at a"],
    ),
    ('tenant = { path = "kind", parse = "json", then = "a" }', []),
    (
        '"contexts[].text" = { path = "python", parse = "python", then = "[].txt" }',
        ["contexts[].text: nothing is at [].txt"],
    ),
    (
        '"contexts[].text" = { path = "steps[].docs[].t", where = { path = "tt", in = ["1"] } }',
        ["contexts[].text: nothing is at tt; the nearest path that exists is t"],
    ),
    # `where` is compared with all events, the fields with those that it selects.
    (
        'where = { path = "kinds", in = ["chain"] }',
        [f"where: nothing is at kinds{NEAREST}kind"],
    ),
    (
        'where = { path = "kind", in = ["chain"] }\ntenant = "only_tools"',
        ["tenant: nothing is at only_tools"],
    ),
    ('where = { path = "kind", in = ["tool"] }\ntenant = "only_tools"', []),
    ('where = { path = "steps[].kind", in = ["r"] }\ntenant = "kind"', []),
)


@pytest.mark.parametrize(("rules", "expected"), CASES)
def test_a_path_that_leads_to_nothing_is_named_with_the_nearest(rules: str, expected: list[str]) -> None:
    found = unmatched_paths(FieldMap.parse(REQUIRED + rules), [*EVENTS, None, "text"])
    assert [str(each) for each in found] == expected


def test_a_sample_is_bounded() -> None:
    """Only the first 1,000 events are compared, so that a command may pass all that it has."""
    events = [EVENTS[0]] * 1_000
    field_map = FieldMap.parse(REQUIRED + 'tenant = "only_tools"')
    assert [str(each) for each in unmatched_paths(field_map, [*events, EVENTS[1]])] == [
        "tenant: nothing is at only_tools"
    ]
    assert not unmatched_paths(field_map, [*events[1:], EVENTS[1]])
