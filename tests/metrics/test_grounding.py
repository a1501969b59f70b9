import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Metric, Null
from ragweir.metrics.scores import grounding
from ragweir.metrics.scores.grounding import METRICS
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import View, example
from ragweir.schemas.interaction import Context, Interaction

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CATALOGUE = Catalogue(METRICS)
BY_NAME = {metric.name: metric for metric in METRICS}

TOWER = "The tower opened in 1889. It was built by Gustave Eiffel for $1,200 on 31 March 1889 at 2 pm."

CASES = [
    ("context_support", "The tower opened.", TOWER, 1.0),
    ("context_support", "The tower closed.", TOWER, 0.5),
    ("context_support", "Bananas ripen.", TOWER, 0.0),
    # Words compare by their first five code points: "build", "tower", but "opens" and "opene".
    ("context_support", "The builders of towers.", "building a tower", 1.0),
    ("context_support", "The tower opens.", TOWER, 0.5),
    ("context_support", "The tower opened.", "", 0.0),
    ("context_support", "It is.", TOWER, None),
    ("context_support", "", TOWER, None),
    ("unsupported_words", "The tower closed early.", TOWER, 2),
    ("unsupported_words", "Closed, closed, closed.", TOWER, 1),
    ("unsupported_words", "", TOWER, 0),
    ("bigram_support", "The tower opened late.", TOWER, 2 / 3),
    ("bigram_support", "Tower. Opened.", TOWER, 1.0),
    ("bigram_support", "Tower", TOWER, None),
    ("bigram_support", "late tower late tower", TOWER, 0.0),
    ("trigram_support", "The tower opened late.", TOWER, 0.5),
    ("trigram_support", "Tower opened", TOWER, None),
    ("number_support", "It cost $1,200.00.", TOWER, 1.0),
    ("number_support", "It cost -1,200 or 1,201 or 1200.", TOWER, 1 / 3),
    ("number_support", "It cost a lot.", TOWER, None),
    ("date_support", "Opened on 1889-03-31 at 14:00.", TOWER, 1.0),
    ("date_support", "Opened on 1889-03-31 at 15:00.", TOWER, 0.5),
    ("date_support", "Opened in 1889.", TOWER, None),
    ("name_support", "Built by Gustave Eiffel.", TOWER, 1.0),
    ("name_support", "Built by Eiffel Gustave.", TOWER, 0.0),
    ("name_support", "We saw Gustave Eiffel, then Alexandre Dumas.", TOWER, 0.5),
    ("name_support", "A fee for Late Filing Form C-1 applies.", "the late filing form c-1", 1.0),
    ("name_support", "A fee for Late Filing Form C-1 applies.", "late filing, filing form, form c-1", 0.0),
    ("name_support", "nobody", TOWER, None),
    ("unsupported_sentences", "The tower opened. It was dismantled by nobody.", TOWER, 0.5),
    # Half supported is not under half.
    ("unsupported_sentences", "The tower closed.", TOWER, 0.0),
    ("unsupported_sentences", "The tower closed early.", TOWER, 1.0),
    ("unsupported_sentences", "It is. So it was.", TOWER, None),
]


@pytest.mark.parametrize(("name", "response", "context", "value"), CASES)
def test_value(name: str, response: str, context: str, value: float | None) -> None:
    """Each metric has the value that its formula gives by hand, and None stands for null."""
    scored = CATALOGUE.score(example(response=response, contexts=[{"text": context}]))
    assert not scored.raised
    assert scored.scores[name] == (None if value is None else pytest.approx(value, abs=1e-6))
    assert (name in scored.reasons) == (value is None)


def test_words_of_the_question_are_not_held_against_the_answer() -> None:
    """`unsupported_words` forgives what the question said, `context_support` does not."""
    scores = CATALOGUE.score(
        example(query="Which bananas?", response="Yellow bananas.", contexts=[{"text": "yellow"}])
    ).scores
    assert scores["unsupported_words"] == 0
    assert scores["context_support"] == 0.5


def test_without_contexts_everything_is_null() -> None:
    """An event that carries no `contexts` has no grounding, and says so."""
    scored = CATALOGUE.score(example(response="The tower opened in 1889."))
    assert set(scored.scores.values()) == {None}
    assert set(scored.reasons.values()) == {"the event has no contexts"}


def test_empty_contexts_support_nothing() -> None:
    """Contexts that are present but empty are no missing measurement: what is said is unsupported."""
    scores = CATALOGUE.score(example(response="Gustave Eiffel built 2 towers.", contexts=[])).scores
    assert scores["context_support"] == scores["bigram_support"] == scores["number_support"] == 0
    assert scores["unsupported_words"] == 5
    assert scores["unsupported_sentences"] == 1


def test_contexts_support_together() -> None:
    """An answer may take its words from several contexts, but a pair must stand in one."""
    view = example(response="tower opened", contexts=[{"text": "the tower"}, {"text": "opened"}])
    assert grounding.context_support(view) == 1
    assert grounding.bigram_support(view) == 0


# Slow and plain: the formulas on the tokens, without sharing or short cuts.


def _stems(text: Text) -> set[str]:
    content = set(text.content)
    return {
        token[:5] if kind == "W" else token
        for token, kind in zip(text.tokens, text.kinds, strict=True)
        if token in content
    }


def _grams(text: Text, size: int) -> set[tuple[str, ...]]:
    return {tuple(text.tokens[start : start + size]) for start in range(len(text.tokens) - size + 1)}


def _kind(text: Text, kinds: str) -> set[str]:
    return {token for token, kind in zip(text.tokens, text.kinds, strict=True) if kind in kinds}


def _share(wanted: set[Any], *found: set[Any]) -> float | None:
    return sum(any(one in some for some in found) for one in wanted) / len(wanted) if wanted else None


def _sentences(view: View) -> float | None:
    known = {stem for text in view.contexts for stem in _stems(text)}
    weak = total = 0
    for start, stop in view.response.sentences:
        content = set(view.response.content)
        stems = {
            token[:5] if kind == "W" else token
            for token, kind in zip(view.response.tokens[start:stop], view.response.kinds[start:stop], strict=True)
            if token in content
        }
        total += bool(stems)
        weak += bool(stems) and len(stems & known) / len(stems) < 0.5
    return weak / total if total else None


REFERENCE: dict[str, Callable[[View], float | None]] = {
    "context_support": lambda v: _share(_stems(v.response), *map(_stems, v.contexts)),
    "unsupported_words": lambda v: len(_stems(v.response).difference(*map(_stems, (v.query, *v.contexts)))),
    "bigram_support": lambda v: _share(_grams(v.response, 2), *(_grams(text, 2) for text in v.contexts)),
    "trigram_support": lambda v: _share(_grams(v.response, 3), *(_grams(text, 3) for text in v.contexts)),
    "number_support": lambda v: _share(_kind(v.response, "N"), *(_kind(text, "N") for text in v.contexts)),
    "date_support": lambda v: _share(_kind(v.response, "DT"), *(_kind(text, "DT") for text in v.contexts)),
    "name_support": lambda v: _share(
        set(v.response.phrases), *(_grams(t, n) for t in v.contexts for n in range(1, 1 + len(t.tokens)))
    ),
    "unsupported_sentences": _sentences,
}


def _agree(view: View, names: set[str]) -> None:
    for name in names:
        value, expected = BY_NAME[name].compute(view), REFERENCE[name](view)
        assert isinstance(value, Null) == (expected is None), name
        assert expected is None or value == pytest.approx(expected, abs=1e-9), name


WORDS = "the Tower tower opened Gustave Eiffel Tall 12 $1,200 2025-12-09 14:30 C-1 of . ? , 東京都 برج café\n".split(
    " "
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_agrees_with_plain_reference_on_random_text(query: str, response: str, contexts: list[str]) -> None:
    """The shared and short-cut computation gives what the formulas give."""
    _agree(example(query=query, response=response, contexts=[{"text": text} for text in contexts]), set(REFERENCE))


def _real(name: str, fields: Callable[[dict[str, Any]], tuple[str, str, list[str], bool]]) -> list[tuple[View, bool]]:
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the labelled answers are not beside the project")
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        query, response, contexts, bad = fields(json.loads(line))
        if contexts:
            rows.append((example(query=query, response=response, contexts=[{"text": t} for t in contexts]), bad))
    return rows


def _mtrag(row: dict[str, Any]) -> tuple[str, str, list[str], bool]:
    votes = [int(vote["value"]) for vote in row["human"]["faithfulness"].values()]
    contexts = [context["text"] for context in row["contexts"]]
    return row["question"], row["response"], contexts, statistics.median(votes) <= 2


def _begin(row: dict[str, Any]) -> tuple[str, str, list[str], bool]:
    return row["message"], row["response"], [row["knowledge"]], row["begin_label"] == "Not fully attributable"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fields"), [("mtrag", _mtrag), ("begin", _begin)])
def test_agrees_with_plain_reference_on_real_answers(
    name: str, fields: Callable[[dict[str, Any]], tuple[str, str, list[str], bool]]
) -> None:
    """On real questions, contexts and answers too; names are compared on random text, where it is cheap."""
    for view, _ in _real(name, fields):
        _agree(view, set(REFERENCE) - {"name_support"})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fields"), [("mtrag", _mtrag), ("begin", _begin)])
def test_context_support_finds_what_people_found_unfaithful(
    name: str, fields: Callable[[dict[str, Any]], tuple[str, str, list[str], bool]]
) -> None:
    """On both labelled sets a bad answer has less support than a good one at least 90 times in 100."""
    scored = [(grounding.context_support(view), bad) for view, bad in _real(name, fields)]
    good = [value for value, bad in scored if not bad and isinstance(value, float)]
    poor = [value for value, bad in scored if bad and isinstance(value, float)]
    wins = sum((p < g) + (p == g) / 2 for p in poor for g in good)
    assert wins / (len(good) * len(poor)) >= 0.9


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


def _view(query: str, response: str, contexts: list[str]) -> View:
    # Past the model's own validation, which lets no lone surrogate through.
    event = Interaction(event_id="x", query="", response="")
    parts = tuple(Context.model_construct(text=text) for text in contexts)
    return View(event.model_copy(update={"query": query, "response": response, "contexts": parts}))


@pytest.mark.slow
@given(ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT, max_size=3))
def test_any_text_is_survived_within_bounds(query: str, response: str, contexts: list[str]) -> None:
    """Whatever the text, no metric raises and every value lies in its bounds."""
    scored = CATALOGUE.score(_view(query, response, contexts))
    assert not scored.raised
    for name, value in scored.scores.items():
        low, high = BY_NAME[name].bounds
        assert value is None or ((low is None or low <= value) and (high is None or value <= high)), name


@pytest.mark.parametrize(
    "text",
    [
        "東京都は日本の首都です。",
        "برج إيفل في باريس.",
        "👩‍👩‍👧 🎉🎉",
        "\ud800 lone",
        "e\u0301e\u0301 combining",
        "word " * 60_000,
    ],
)
def test_a_copy_of_a_context_is_fully_supported(text: str) -> None:
    """In any script and at any length, what is copied is supported, or null where there is nothing to support."""
    scores = CATALOGUE.score(_view("", text, ["other words", text])).scores
    for name in ("context_support", "bigram_support", "trigram_support", "name_support", "number_support"):
        assert scores[name] in {1.0, None}
    assert scores["unsupported_words"] == 0
    assert scores["unsupported_sentences"] in {0.0, None}


@given(TEXTS, st.lists(TEXTS, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_contexts_does_not_matter(response: str, contexts: list[str], random: Any) -> None:
    """Permuting the contexts leaves every value as it was."""
    shuffled = random.sample(contexts, len(contexts))
    first, second = (CATALOGUE.score(_view("", response, order)).scores for order in (contexts, shuffled))
    assert first == second


def test_explanation_names_the_unsupported_words() -> None:
    """What is told are the whole words, in the order of the answer, each once."""
    view = example(response="Dismantled by Dumas, the tower: dismantled.", contexts=[{"text": TOWER}])
    assert grounding.explain_support(view) == ("dismantled", "dumas")


def test_explanation_is_bounded() -> None:
    """However long the answer, few and short words are told."""
    response = " ".join(f"word{number}{'x' * 100}" for number in range(500))
    told = grounding.explain_support(example(response=response, contexts=[]))
    assert len(told) == 20
    assert max(map(len, told)) == 40


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_each_metric_is_documented(metric: Metric) -> None:
    """Each docstring has its formula, range, undefined cases, source and limits."""
    assert all(f"{part}:" in metric.text for part in ("Formula", "Range", "Undefined", "Reference", "Known limits"))
