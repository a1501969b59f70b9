"""Facets of events: what they are, how many there are at most, and what is missing."""

import orjson
import pytest
from kernels import KERNEL, needs_kernel

from ragweir.metrics.cause.coded_facets import FACETS, MAX_BYTES, facets
from ragweir.metrics.view import View, reference
from ragweir.schemas.evaluation import MAX_FACETS
from ragweir.schemas.interaction import Interaction, Span


def facets_of(**fields: object) -> tuple[dict[str, tuple[str, ...]], bool]:
    event = Interaction.model_validate({"event_id": "1", "query": "Who was it?", "response": "Ada."} | fields)
    found, cut = facets(event, View(event))
    return dict(found), cut


def tools(names: list[str], error: str | None = None) -> list[dict[str, object]]:
    return [{"kind": "tool", "name": name, "error": error} for name in names]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"contexts": [{"text": "a", "rank": 7}, {"text": "b", "rank": 3}]}, {"rank": ("3",)}),
        ({"contexts": [{"rank": -1}, {"rank": 65}]}, {}),
        (
            {"contexts": [{"retrieval_method": "knn"}, {"retrieval_method": "bm25"}, {"retrieval_method": "knn"}]},
            {"retrieval_method": ("bm25", "knn")},
        ),
        ({"spans": tools(["search", "add", "search"])}, {"tool": ("add", "search")}),
        ({"spans": tools(["add"], error="timeout")}, {"tool": ("add",), "tool_error": ("add",)}),
        ({"spans": [{"kind": "llm", "name": "model"}]}, {}),
        ({"response": "Он был здесь."}, {"language": ("Cyrillic, not English",)}),
        ({"response": "..."}, {"language": None}),
        ({"response": "It is the word. " * 10}, {"answer_length": ("40 to 159 words",)}),
        ({"query": "why " * 1_000}, {"question_length": ("640 words or more",)}),
        ({"query": None}, {"question_length": None}),
        ({"response": None}, {"answer_length": None, "language": None}),
        ({"contexts": [{"rank": 1}], "query": None}, {"rank": ("1",), "question_length": None}),
    ],
)
def test_an_event_has_these_facets(fields: dict[str, object], expected: dict[str, tuple[str, ...] | None]) -> None:
    usual: dict[str, tuple[str, ...] | None] = {
        "language": ("English",),
        "question_length": ("under 10 words",),
        "answer_length": ("under 10 words",),
    }
    found, cut = facets_of(**fields)
    assert found == {name: value for name, value in (usual | expected).items() if value is not None}
    assert not cut


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"spans": tools([f"tool {number}" for number in range(1_000)], error="no")},
        {"spans": tools([f"{number}" + 1_000_000 * "x" for number in range(64)])},
        {"spans": tools([f'{number}"\\\x00\x1b\n' * 20 for number in range(64)], error="no")},
        {"contexts": [{"retrieval_method": f"{number}" + "検" * 5_000} for number in range(64)]},
    ],
    ids=["many", "long", "control characters", "wide characters"],
)
def test_the_size_of_facets_is_bounded(fields: dict[str, object]) -> None:
    """Names that are too many or too long are left out, which is flagged, whatever they hold."""
    found, cut = facets_of(**fields)
    assert cut
    assert len(orjson.dumps(found)) <= MAX_BYTES
    assert sum(map(len, found.values())) <= MAX_FACETS
    assert set(found) <= set(FACETS)
    assert "language" in found


def test_a_name_that_json_cannot_have_is_replaced() -> None:
    event = Interaction(event_id="1", query="", response="", spans=(Span(kind="tool", name="a\ud800"),))
    assert facets(event, View(event))[0]["tool"] == ("a?",)


def test_long_names_that_begin_alike_stay_apart() -> None:
    found, cut = facets_of(spans=tools(["x" * 200 + "1", "x" * 200 + "2"]))
    assert len(set(found["tool"])) == 2
    assert not cut


@needs_kernel
@pytest.mark.parametrize(
    "response", ["Ada.", "Он был здесь.", "das ist nicht gut und die", "", "\ud800", "word " * 700]
)
def test_the_kernel_gives_the_same_facets(response: str) -> None:
    event = Interaction.model_validate({"event_id": "1", "query": response, "response": response})
    assert facets(event, View(event, counting=KERNEL)) == facets(event, View(event, counting=reference))
