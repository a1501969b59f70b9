"""Extraction and agreement, against the retrieval, extraction and aggregation framework."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Null
from ragweir.metrics.scores.extraction import (
    METRICS,
    aggregated_confidence,
    agreement_pattern,
    explain_agreement,
    explain_validation,
    multi_source_agreement,
    semantic_validation,
    unique_values,
)
from ragweir.metrics.view import View, example

CATALOGUE = Catalogue(METRICS)


def extracted(*values: Any) -> View:
    return example(extractions=[{"field": "f", "value": value} for value in values])


def agreement(view: View) -> tuple[Any, Any, Any]:
    return multi_source_agreement(view), agreement_pattern(view), unique_values(view)


def evidenced(*pairs: tuple[Any, str | None], field: str | None = None) -> list[dict[str, Any]]:
    return [{"field": field, "value": value, "evidence": evidence} for value, evidence in pairs]


# Confidence

CONFIDENCES = [
    # extractions' confidences, aggregations' confidences, value
    ([], ["HIGH"], 0.90),
    ([], ["MEDIUM"], 0.75),
    ([], ["LOW"], 0.50),
    ([], [" low"], 0.50),
    ([], ["SURE"], 0.70),
    ([], [None], 0.70),
    ([], [0.42], 0.42),
    ([], ["HIGH", "LOW"], 0.50),
    ([0.88], ["HIGH"], 0.88),
    (["0.88"], ["HIGH"], 0.88),
    (["LOW"], ["HIGH"], 0.50),
    ([0.0], ["HIGH"], 0.0),
    ([None], ["HIGH"], 0.90),
    (["SURE"], ["HIGH"], 0.90),
    (["1.5"], ["HIGH"], 0.90),
    (["nan"], ["HIGH"], 0.90),
    ([0.88, 0.99], ["HIGH"], 0.90),
    ([0.88, 0.99], [], 0.70),
    ([0.88], [], 0.88),
    ([None], [], 0.70),
    ([], [], 0.70),
]


@pytest.mark.parametrize(("own", "aggregated", "value"), CONFIDENCES)
def test_confidence_of_one_field(own: list[Any], aggregated: list[Any], value: float) -> None:
    """A single source speaks for itself, else the aggregation does, else it is unknown: 0.70."""
    extractions = [{"field": "f", "value": "tile", "confidence": confidence} for confidence in own]
    entries = [{"field": "f", "value": "tile", "confidence": confidence} for confidence in aggregated]
    assert aggregated_confidence(example(extractions=extractions, aggregation=entries)) == value


def test_a_source_without_a_value_is_no_source() -> None:
    """Chunks in which nothing was found do not outvote the one that had the value."""
    found = {"value": "tile", "confidence": 0.93}
    assert aggregated_confidence(example(extractions=[found, {"value": None, "confidence": "LOW"}])) == 0.93


def test_the_event_takes_its_least_sure_field() -> None:
    """Fields are judged apart, whether they were extracted, aggregated or both."""
    extractions = [{"field": "a", "value": 1, "confidence": 0.95}, {"field": "b", "value": 2, "confidence": 0.9}]
    aggregation = [{"field": "c", "confidence": "MEDIUM"}, {"field": "a", "confidence": "LOW"}]
    assert aggregated_confidence(example(extractions=extractions)) == 0.9
    assert aggregated_confidence(example(extractions=extractions, aggregation=aggregation)) == 0.75


def test_confidence_needs_one_of_its_sources() -> None:
    """Ordinary traffic extracts nothing: null. An empty list is an extraction that found nothing: unknown."""
    assert aggregated_confidence(example()) == Null("the event has neither extractions nor aggregation")
    assert aggregated_confidence(example(aggregation=[])) == 0.70


# Grounding in the evidence

GROUNDED = [
    ("tile", "A TILE roof."),
    ("roof tile", "The tile of the roof."),
    (1200, "It costs $1,200.00."),
    ("$1,200", "1200 dollars"),
    (0.00005, "a rate of 0.00005 a day"),
    (-0.133, "changed by -0.133"),
    (0, "0 claims"),
    ("9 December 2025", "due 2025-12-09"),
    ("COVID-19", "about covid-19."),
    ("don't know", "We don’t know."),
    (["wind", "hail"], "Hail and wind are excluded."),
    ([1, 200], "1 of 200"),
    ({"amount": 1200, "paid": True, "note": None}, "1,200"),
    ("東京", "東京都"),
    ("男", "性別：男性"),
    ("حريق", "تأمين حريق"),
]
UNGROUNDED = [
    ("slate", "A tile roof."),
    ("tiled", "A tile roof."),
    ("tile slate", "A tile roof."),
    (1200, "It costs $12,000."),
    (5, "It costs 15."),
    (0.133, "changed by -0.133"),
    ("10 December 2025", "due 2025-12-09"),
    (["wind", "flood"], "Hail and wind are excluded."),
    ("女", "性別：男性"),
    ([1, 200], "1,200"),
]
SKIPPED: list[tuple[Any, str | None]] = [
    ("tile", None),
    ("tile", ""),
    ("tile", " \n"),
    (None, "tile"),
    ("", "tile"),
    (True, "true"),
    ("—", "—"),
    ([], "x"),
]


@pytest.mark.parametrize(
    ("value", "evidence", "verdict"),
    [
        *((*pair, "pass") for pair in GROUNDED),
        *((*pair, "fail") for pair in UNGROUNDED),
        *((*pair, "skipped") for pair in SKIPPED),
    ],
)
def test_a_value_is_grounded_when_all_its_words_stand_in_the_evidence(
    value: Any, evidence: str | None, verdict: str
) -> None:
    """Words compare folded, numbers and dates by value; nothing to look for, or in, is no failure."""
    assert semantic_validation(example(extractions=evidenced((value, evidence)))) == verdict


@pytest.mark.parametrize(
    ("passed", "failed", "skipped", "verdict"),
    [(1, 1, 0, "pass"), (49, 51, 0, "fail"), (1, 1, 9, "pass"), (1, 2, 9, "fail"), (0, 0, 3, "skipped")],
)
def test_half_is_a_pass(passed: int, failed: int, skipped: int, verdict: str) -> None:
    """From half of the values that could be checked."""
    pairs = [("tile", "tile")] * passed + [("slate", "tile")] * failed + [("tile", None)] * skipped
    assert semantic_validation(example(extractions=evidenced(*pairs))) == verdict


def test_the_event_takes_fail_before_skipped_before_pass() -> None:
    """Fields are judged apart, the worst speaks for the event, and the explanation names those that did not pass."""
    good, unknown, bad = ("tile", "tile"), ("tile", None), ("slate", "tile")
    passed = evidenced(good, field="a")
    skipped = passed + evidenced(unknown, field="b")
    failed = skipped + evidenced(bad, field="c")
    verdicts = [semantic_validation(example(extractions=extractions)) for extractions in (passed, skipped, failed)]
    assert verdicts == ["pass", "skipped", "fail"]
    assert explain_validation(example(extractions=failed)) == (
        "skipped, 0 of 0 values stand in their evidence: b",
        "fail, 0 of 1 values stand in their evidence: c",
    )


# Agreement


def agreement_of_the_document(values: list[str | None]) -> tuple[float, str, int]:
    given_values = [value for value in values if value]
    if len(given_values) <= 1:
        return 1.0, "unanimous", len(set(given_values))
    share = Counter(given_values).most_common(1)[0][1] / len(given_values)
    labels = ((0.95, "unanimous"), (0.7, "majority"), (0.4, "mixed"))
    return (
        round(share, 3),
        next((label for edge, label in labels if share > edge), "conflicting"),
        len(set(given_values)),
    )


@given(st.lists(st.sampled_from(["tile", "slate", "metal", "", None]), max_size=30))
def test_agreement_is_the_documents(values: list[str | None]) -> None:
    """On plain words share, pattern and count are those of the document's own code."""
    assert agreement(extracted(*values)) == agreement_of_the_document(values)


@pytest.mark.parametrize(
    ("alike", "total", "expected"),
    [
        (20, 20, (1.0, "unanimous")),
        (20, 21, (0.952, "unanimous")),
        (19, 20, (0.95, "majority")),
        (951, 1001, (0.95, "unanimous")),  # 0.95005 is compared before it is rounded
        (71, 100, (0.71, "majority")),
        (7, 10, (0.7, "mixed")),
        (41, 100, (0.41, "mixed")),
        (2, 5, (0.4, "conflicting")),
        (1, 3, (0.333, "conflicting")),
        (2, 3, (0.667, "mixed")),
    ],
)
def test_patterns_at_their_edges(alike: int, total: int, expected: tuple[float, str]) -> None:
    """A share must exceed its edge; all others differ from one another."""
    others = [f"other{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(total - alike)]
    assert agreement(extracted(*["tile"] * alike, *others)) == (*expected, 1 + total - alike)


@pytest.mark.parametrize(
    "values",
    [
        ["Tile", "tile", " TILE\n", "tile."],
        ["$1,200", 1200, "1200.0", 1200.0, "1,200.00", "€1200"],
        ["5%", 5, "5 "],
        ["1,200  mm", "1200 mm"],
        ["2025-12-09", "9 December 2025", "Dec 9, 2025"],
        [0.00005, "0.00005"],
        [1e16, "10000000000000000"],
        [True, "true"],
        [0, "0", 0.0],
        [{"a": 1, "b": "X"}, {"b": "x", "a": 1}],
        ["don’t", "DON'T"],
        ["İzmir", "izmir"],
        ["tile", None, "", " ", [], {}],
    ],
)
def test_values_that_are_one(values: list[Any]) -> None:
    """Values compare folded, and numbers, dates and times by value."""
    assert agreement(extracted(*values)) == (1.0, "unanimous", 1)


@pytest.mark.parametrize(
    "values",
    [
        ["A+", "A-"],
        ["≥ 5", "≤ 5"],
        ["C", "C++"],
        ["-5", "5"],
        [False, None, True, ""],
        [0, None, False],
        [[1, 2], [2, 1]],
        [[1200], ["1200"]],
        ["5 mm", "5 cm"],
        ["$", "%"],
        ["🔥", "🏠"],
        ["\ud800", "\ud801"],
    ],
)
def test_values_that_are_two(values: list[Any]) -> None:
    """0 and false are values, null and "" are none, and signs that are no part of a number tell values apart."""
    assert agreement(extracted(*values)) == (0.5, "mixed", 2)


def test_the_event_takes_the_field_that_agrees_least() -> None:
    """Fields are judged apart; of fields that agree alike the one with most values is shown."""
    view = example(
        extractions=[
            {"field": "a", "value": "tile"},
            {"field": "b", "value": "slate"},
            {"field": "c"},
            *({"field": "d", "value": value} for value in "xxyy"),
            *({"field": "e", "value": value} for value in "xxyz"),
            *({"field": "f", "value": value} for value in "xxxy"),
        ]
    )
    assert agreement(view) == (0.5, "mixed", 3)
    assert explain_agreement(view) == (
        "mixed, 2 different values: d",
        "mixed, 3 different values: e",
        "majority, 2 different values: f",
    )


def test_no_extractions_are_not_absent_extractions() -> None:
    """Empty gives the document's values for the empty case, absent gives null."""
    empty = CATALOGUE.score(example(extractions=[]))
    assert empty.scores == {"aggregated_confidence": 0.7, "multi_source_agreement": 1.0, "unique_values": 0.0}
    assert empty.categories == {"semantic_validation": "skipped", "agreement_pattern": "unanimous"}
    absent = CATALOGUE.score(example(contexts=[{"text": "fire"}]))
    assert set(absent.scores.values()) | set(absent.categories.values()) == {None}


# All of them


def nested(depth: int) -> Any:
    value: Any = "tile"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, 300, 900, 5_000])
def test_nesting_of_any_depth_is_survived(depth: int) -> None:
    """A value nested deeper than JSON can be written is none; one that can be is."""
    scored = CATALOGUE.score(example(extractions=evidenced((nested(depth), "tile"))))
    assert not scored.raised
    assert scored.scores["unique_values"] in ({1.0} if depth < 900 else {0.0, 1.0})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.slow
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "field": st.none() | st.sampled_from(["", "a", "b", "\ud800"]),
                "value": JSON,
                "confidence": st.none() | st.floats(0, 1) | st.text(max_size=5),
                "evidence": JSON.filter(lambda value: value is None or isinstance(value, str | int | float)),
            },
        ),
        max_size=8,
    )
)
def test_laws_hold_on_any_extractions(extractions: list[dict[str, Any]]) -> None:
    """Nothing raises, values lie within their bounds, labels are declared, and the list's order means nothing."""
    scored = CATALOGUE.score(example(extractions=extractions, aggregation=extractions))
    assert not scored.raised
    for name, value in scored.scores.items():
        assert value is not None
        assert math.isfinite(value)
        least, greatest = CATALOGUE.metrics[name].bounds
        assert least is None or value >= least
        assert greatest is None or value <= greatest
    for name, label in scored.categories.items():
        assert label in CATALOGUE.metrics[name].labels
    reverse = CATALOGUE.score(example(extractions=extractions[::-1], aggregation=extractions[::-1]))
    assert reverse == scored
