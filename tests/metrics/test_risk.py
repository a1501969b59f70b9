import json
import math
import statistics
import tomllib
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Null
from ragweir.metrics.scores import grounding, risk
from ragweir.metrics.scores.risk import FEATURES, Model
from ragweir.metrics.view import View, example

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TABLE = tomllib.loads(files("ragweir.metrics.scores").joinpath("risk.toml").read_text(encoding="utf-8"))
TOWER = "The tower opened in 1889 and was built by Gustave Eiffel."


def test_risk_is_the_formula_on_the_file() -> None:
    """The value is the logistic function of the file's numbers and the three metrics, worked out by hand."""
    view = example(query="Which towers?", response="The tower closed early.", contexts=[{"text": TOWER}])
    # tower held; closed, early not; of three pairs only "the tower" stands in the context.
    score = TABLE["intercept"] + sum(
        TABLE["coefficients"][name] * value
        for name, value in zip(FEATURES, (2 / 3, math.log(3) / math.log(51), 2 / 3), strict=True)
    )
    assert risk.unsupported_risk(view) == pytest.approx(1 / (1 + math.exp(-score)), abs=1e-12)


def test_one_token_counts_by_its_share() -> None:
    """A response of one token has no pairs: support stands in for them."""
    view = example(response="bananas", contexts=[{"text": TOWER}])
    assert risk.features(view) == (1.0, math.log(2) / math.log(51), 1.0)


@pytest.mark.parametrize(
    ("response", "contexts", "reason"),
    [
        ("The tower closed.", None, "the event has no contexts"),
        ("The tower closed.", [], "no context has content words"),
        ("The tower closed.", [{"text": "..."}], "no context has content words"),
        ("It is.", [{"text": TOWER}], "the response has no content words"),
        ("", [{"text": TOWER}], "the response has no content words"),
    ],
)
def test_null(response: str, contexts: list[dict[str, str]] | None, reason: str) -> None:
    """Without contexts or content there is no risk but a reason."""
    scored = Catalogue(risk.METRICS).score(example(response=response, contexts=contexts))
    assert scored.scores == {"unsupported_risk": None}
    assert scored.reasons == {"unsupported_risk": reason}


def test_every_unsupported_word_raises_the_risk() -> None:
    """Each invention added to an answer makes it riskier."""
    responses = ["The tower opened"]
    for word in ("and", "bananas", "ripen", "quickly", "everywhere"):
        responses.append(f"{responses[-1]} {word}")
    risks = [risk.unsupported_risk(example(response=r, contexts=[{"text": TOWER}])) for r in responses]
    assert all(before < after for before, after in pairwise(risks[1:]))  # type: ignore[operator]


FEATURE = st.floats(0, 3)


@given(st.tuples(FEATURE, FEATURE, FEATURE), st.integers(0, 2), FEATURE)
def test_the_model_is_monotone(values: tuple[float, ...], place: int, more: float) -> None:
    """No feature lowers the risk when it grows."""
    grown = tuple(value + more * (position == place) for position, value in enumerate(values))
    assert risk.model().risk(grown) >= risk.model().risk(values)


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.text(max_size=60))
def test_any_text_is_survived_within_bounds(response: str, context: str) -> None:
    """Whatever the text, the value is a probability or null."""
    value = risk.unsupported_risk(example(response=response, contexts=[{"text": context}]))
    assert isinstance(value, Null) or (isinstance(value, float) and 0 < value < 1)


def test_the_file_says_where_the_model_comes_from() -> None:
    """Sets, their sizes, regularisation, each set's intercept and the AUROCs stand beside the coefficients."""
    fit, sets = TABLE["fit"], TABLE["fit"]["sets"]
    assert len(sets) == len(fit["answers"]) == len(fit["bad"])
    assert fit["ridge"] > 0
    assert set(fit["intercepts"]) == set(TABLE["auroc"]) == set(sets)
    assert TABLE["intercept"] == pytest.approx(statistics.mean(fit["intercepts"].values()), abs=0.002)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coefficients": {"unsupported_share": 1.0}}, "coefficients must be those of"),
        ({"coefficients": dict.fromkeys(reversed(FEATURES), 1.0)}, "in this order"),
        ({"coefficients": dict.fromkeys(FEATURES, -1.0)}, "not negative"),
        ({"coefficients": dict.fromkeys(FEATURES, math.nan)}, "finite"),
        ({"coefficients": dict.fromkeys(FEATURES, "1")}, "finite"),
        ({"intercept": "low"}, "intercept"),
        ({"intercept": math.inf}, "intercept"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    """Wrong features, signs or numbers are told, not computed with."""
    with pytest.raises(ValueError, match=message):
        Model.from_table(TABLE | change)


def _auroc(rows: list[tuple[float, bool]]) -> float:
    bad, good = ([value for value, is_bad in rows if is_bad is kind] for kind in (True, False))
    return sum((b > g) + (b == g) / 2 for b in bad for g in good) / (len(bad) * len(good))


def _read(name: str) -> list[tuple[View, bool]]:
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        pytest.skip("the labelled answers are not beside the project")
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if name == "mtrag":
            votes = [int(vote["value"]) for vote in row["human"]["faithfulness"].values()]
            fields, bad = {"query": row["question"], "contexts": row["contexts"]}, statistics.median(votes) <= 2
        else:
            fields = {"query": row["message"], "contexts": [{"text": row["knowledge"]}]}
            bad = row["begin_label"] == "Not fully attributable"
        rows.append((example(response=row["response"], **fields), bad))
    return [(view, bad) for view, bad in rows if view.contexts]


@pytest.mark.slow
def test_risk_ranks_better_than_any_single_metric_on_average_and_as_the_file_says() -> None:
    """On the two labelled sets the mean AUROC is above each single feature's, and each is the one on file."""
    singles: dict[str, list[float]] = {"context_support": [], "unsupported_words": [], "bigram_support": []}
    found = []
    for name in TABLE["fit"]["sets"]:
        answers = _read(name)
        found.append(_auroc([(float(risk.unsupported_risk(view)), bad) for view, bad in answers]))  # type: ignore[arg-type]
        assert found[-1] == pytest.approx(TABLE["auroc"][name]["this_model"], abs=0.002)
        for metric, values in singles.items():
            sign = 1 if metric == "unsupported_words" else -1
            values.append(_auroc([(sign * float(getattr(grounding, metric)(view)), bad) for view, bad in answers]))
    assert statistics.mean(found) > max(map(statistics.mean, singles.values()))
