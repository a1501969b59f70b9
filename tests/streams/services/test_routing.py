"""Routing: the judge gets the events that the settings say, with the probability that is recorded, every time again."""

import itertools
import math
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from commands import ROOT, program
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.view import TextLimits, example
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import TOPICS, max_record_bytes
from ragweir.streams.runtime.records import Emission, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.settings import RoutingSettings, load

SUITES = tuple(suites())
CATALOGUE = Catalogue(everything())
SAMPLES = (ROOT / "streams" / "playground" / "demo" / "samples.jsonl").read_bytes().splitlines()
EVENTS = 100_000


def router(rules: Sequence[Mapping[str, Any]] = (), catalogue: Catalogue = CATALOGUE, **settings: Any) -> Router:
    """A router by these rules, without a share or floors unless they are given."""
    given = {"rules": rules, "floors": {}, "share": 0} | settings
    return Router(RoutingSettings.model_validate(given), catalogue, SUITES)


def rule(name: str = "r", suites: Sequence[str] = ("rubric",), **condition: Any) -> dict[str, Any]:
    return {"name": name, "suites": suites, **condition}


def interaction(event_id: str = "e", **fields: Any) -> Interaction:
    return Interaction.model_validate({"event_id": event_id, "query": "", "response": ""} | fields)


def decided(
    by: Router,
    scores: Mapping[str, float | None] | None = None,
    categories: Mapping[str, str | None] | None = None,
    **fields: Any,
) -> dict[str, SuiteDecision]:
    decision = by.decide(interaction(**fields), scores or {}, categories or {})
    return {suite.suite: suite for suite in decision.suites}


def selected(by: Router, event_id: str) -> frozenset[str]:
    return frozenset(name for name, suite in decided(by, event_id=event_id).items() if suite.status == "selected")


# What is drawn.


@pytest.mark.heavy
def test_the_share_selected_is_the_probability_recorded() -> None:
    """Of 100,000 events, for each suite and whatever fired: the share selected is within 4 standard errors of p."""
    rules = (
        rule("often", ("rubric", "ragas"), on="unsupported_risk", above=0.5, probability=0.4),
        rule("seldom", ("rubric", "factual"), on="tenant", **{"in": ["a", "b"]}, probability=0.003),
        rule("surely", ("semantic",), on="truncated", **{"is": True}),
        rule("never", ("classification",), on="answerable", present=True, probability=0),
    )
    floors = {"rubric": 0.02, "context_recall": 0.37, "semantic": 0.0005}
    probabilities = {each["name"]: each.get("probability", 1.0) for each in rules}
    by = router(rules, floors=floors)
    chance = random.Random(1)
    seen: Counter[tuple[str, frozenset[str]]] = Counter()
    chosen: Counter[tuple[str, frozenset[str]]] = Counter()
    for number in range(EVENTS):
        risk, tenant, truncated = chance.random(), chance.choice("abcd"), chance.random() < 0.3
        fired = {"never"} | {
            name
            for name, fires in {"often": risk > 0.5, "seldom": tenant in "ab", "surely": truncated}.items()
            if fires
        }
        event = interaction(f"event {number}", tenant=tenant, answerable=False)
        for suite in by.decide(event, {"unsupported_risk": risk, "truncated": float(truncated)}, {}).suites:
            reasons = frozenset(
                {each["name"] for each in rules if each["name"] in fired and suite.suite in each["suites"]}
                | ({"floor"} if suite.suite in floors else set())
            )
            assert set(suite.because) == reasons
            seen[suite.suite, reasons] += 1
            chosen[suite.suite, reasons] += suite.status == "selected"
            expected = max((probabilities.get(each, floors.get(suite.suite, 0.0)) for each in reasons), default=0.0)
            assert suite.probability == expected
    assert len(seen) == 4 + 2 + 1 + 2 + 1 + 2
    for (name, reasons), events in seen.items():
        p = max((probabilities.get(each, floors.get(name, 0.0)) for each in reasons), default=0.0)
        error = math.sqrt(p * (1 - p) / events)
        assert abs(chosen[name, reasons] / events - p) <= 4 * error, (name, reasons)


def drawn(by: Router, ids: Sequence[str]) -> np.ndarray[Any, Any]:
    """One row per event, one column per suite: 1 where it is selected."""
    decisions = (by.decide(interaction(each), {}, {}) for each in ids)
    return np.array([[suite.status == "selected" for suite in decision.suites] for decision in decisions], float)


@pytest.mark.heavy
def test_suites_and_keys_and_neighbours_are_independent() -> None:
    """The draws of two suites, of two keys, and of an event and the next one are uncorrelated, to 4 standard errors."""
    ids = [f"{number}" for number in range(EVENTS)]
    floors = dict.fromkeys(SUITES, 0.3)
    ours, others = (drawn(router(floors=floors, key=key), ids) for key in ("ragweir", "ragweir2"))
    pairs = [(ours[:, one], ours[:, other]) for one, other in itertools.combinations(range(len(SUITES)), 2)]
    pairs += [(ours[:, one], others[:, one]) for one in range(len(SUITES))]
    pairs += [(ours[:-1, one], ours[1:, one]) for one in range(len(SUITES))]
    for one, other in pairs:
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(EVENTS)


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_nothing_and_everything_are_exact(probability: float) -> None:
    """Probability 1 selects every event and 0 none, without an exception in 10,000."""
    by = router([rule(on="tenant", present=True, probability=probability)])
    statuses = {decided(by, tenant="t", event_id=str(number))["rubric"].status for number in range(10_000)}
    assert statuses == {"selected" if probability else "not_selected"}


class Drawn:
    """A hash that gives every suite of every event this lot."""

    def __init__(self, lot: int) -> None:
        self._lot = lot

    def copy(self) -> "Drawn":
        return self

    def update(self, _: bytes) -> None: ...

    def digest(self) -> bytes:
        return self._lot.to_bytes(8, "big") * 8


@pytest.mark.parametrize(
    ("probability", "lot", "status"),
    [
        (1.0, 2**64 - 1, "selected"),
        (math.nextafter(1, 0), 2**64 - 1, "not_selected"),
        (0.5, 2**63 - 1, "selected"),
        (0.5, 2**63, "not_selected"),
        (2**-64, 0, "selected"),
        (2**-64, 1, "not_selected"),
        (0.0, 0, "not_selected"),
    ],
)
def test_selected_is_what_lies_below_the_probability(
    probability: float, lot: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lots below p, and no other, select: exactly, also at the ends, where fractions would be rounded."""
    by = router([rule(on="tenant", present=True, probability=probability)])
    monkeypatch.setattr(by, "_keyed", Drawn(lot))
    assert decided(by, tenant="t")["rubric"].status == status


@pytest.mark.slow
def test_a_larger_probability_only_adds_events() -> None:
    """What a floor selects, a higher one selects too: raising it wastes no judgement that was paid for."""
    low, high = (router(floors={"rubric": floor}) for floor in (0.05, 0.2))
    ids = [f"id-{number}" for number in range(5_000)]
    few, many = ({each for each in ids if selected(by, each)} for by in (low, high))
    assert few
    assert few < many


# The same again.

PINNED = {
    "rubric": [18, 36, 53, 54, 99],
    "context_recall": [0, 2, 14, 16, 44, 80, 84, 90, 93],
    "ragas": [17, 32, 39, 40, 52, 75, 94, 96],
    "factual": [5, 28, 71, 74],
    "classification": [7, 33, 40, 70],
    "semantic": [31, 38, 71],
}


def test_the_draw_is_pinned() -> None:
    """Which events are drawn is a promise to every later version: a replay next year selects the same."""
    assert SUITES[: len(PINNED)] == tuple(PINNED), "a suite's place never changes; a new one comes last"
    by = router(floors=dict.fromkeys(PINNED, 0.05))
    chosen = {name: [number for number in range(100) if name in selected(by, f"event-{number}")] for name in PINNED}
    assert chosen == PINNED


def test_a_suite_that_is_added_changes_nothing_for_the_others() -> None:
    """The draws of the suites there are stay as they are when one comes after them; there are lots for eight."""
    floors = dict.fromkeys(SUITES[:5], 0.2)
    settings = RoutingSettings(rules=(), floors=floors)
    fewer, more = (Router(settings, CATALOGUE, names) for names in (SUITES[:5], [*SUITES, "seventh", "eighth"]))
    for number in range(1_000):
        assert selected(fewer, str(number)) == selected(more, str(number))
    with pytest.raises(ValueError, match="8 suites"):
        Router(settings, CATALOGUE, [*SUITES, "seventh", "eighth", "ninth"])


def test_what_is_not_used_does_not_move_the_draw() -> None:
    """A suite's draw depends on the key and the event's id, not on which other suites, rules and fields there are."""
    alone = router(floors={"factual": 0.1})
    amid = router([rule("t", ("factual", "ragas"), on="tenant", present=True)], floors=dict.fromkeys(SUITES, 0.1))
    for number in range(1_000):
        assert selected(alone, str(number)) == selected(amid, str(number)) & {"factual"}


_ELSEWHERE = """
import sys
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.interaction import Interaction
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import RoutingSettings
router = Router(RoutingSettings(), Catalogue(everything()), tuple(suites()))
for number in map(int, sys.stdin.read().split()):
    event = Interaction(event_id=f"ü{number}", query="", response="", expected=("x",))
    print(router.decide(event, {"unsupported_risk": number / 1000}, {}).model_dump_json())
"""


def elsewhere(numbers: Sequence[int], seed: str) -> list[str]:
    """What another process, with another seed of Python's own hash, decides about the events of these numbers."""
    own = os.environ | {"PYTHONHASHSEED": seed}
    return program(sys.executable, "-c", _ELSEWHERE, text=" ".join(map(str, numbers)), env=own).stdout.splitlines()


@pytest.mark.heavy
def test_every_process_decides_the_same() -> None:
    """Another process decides the same of each event, in whatever order it meets them."""
    numbers = range(1_000)
    forwards = elsewhere(numbers, "1")
    assert len(set(forwards)) > 4
    assert elsewhere(numbers[::-1], "2")[::-1] == forwards


# What fires.

NUMBER: dict[str, Any] = {"on": "unsupported_risk"}
LABEL: dict[str, Any] = {"on": "recall_warning"}
CASES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    # condition, event (scores and categories by their names, all else fields), whether it fires
    (NUMBER | {"above": 0.7}, {"unsupported_risk": 0.700001}, True),
    (NUMBER | {"above": 0.7}, {"unsupported_risk": 0.7}, False),
    (NUMBER | {"above": -1}, {"unsupported_risk": None}, False),
    (NUMBER | {"above": -1}, {}, False),
    (NUMBER | {"below": 0.7}, {"unsupported_risk": 0.699999}, True),
    (NUMBER | {"below": 0.7}, {"unsupported_risk": 0.7}, False),
    (NUMBER | {"below": 2}, {"unsupported_risk": None}, False),
    (NUMBER | {"is": 0}, {"unsupported_risk": 0.0}, True),
    (NUMBER | {"is": 0}, {"unsupported_risk": None}, False),
    (NUMBER | {"present": True}, {"unsupported_risk": 0.0}, True),
    (NUMBER | {"present": True}, {"unsupported_risk": None}, False),
    ({"on": "refusal", "is": True}, {"refusal": 1.0}, True),
    ({"on": "refusal", "is": True}, {"refusal": 0.0}, False),
    ({"on": "refusal", "is": True}, {"refusal": None}, False),
    ({"on": "refusal", "is": False}, {"refusal": 0.0}, True),
    ({"on": "refusal", "is": False}, {"refusal": None}, False),
    ({"on": "refusal", "is": 1}, {"refusal": 1.0}, True),
    ({"on": "refusal", "below": 0.5}, {"refusal": 0.0}, True),
    (LABEL | {"is": "HIT_RETRIEVAL_LIMIT"}, {"recall_warning": "HIT_RETRIEVAL_LIMIT"}, True),
    (LABEL | {"is": "HIT_RETRIEVAL_LIMIT"}, {"recall_warning": "HIGH_THRESHOLD_FILTERING"}, False),
    (LABEL | {"in": ["HIT_RETRIEVAL_LIMIT"]}, {"recall_warning": "HIT_RETRIEVAL_LIMIT"}, True),
    (LABEL | {"in": ["HIT_RETRIEVAL_LIMIT"]}, {"recall_warning": None}, False),
    (LABEL | {"present": True}, {"recall_warning": "HIGH_THRESHOLD_FILTERING"}, True),
    (LABEL | {"present": True}, {}, False),
    ({"on": "tenant", "is": "acme"}, {"tenant": "acme"}, True),
    ({"on": "tenant", "is": "acme"}, {"tenant": "Acme"}, False),
    ({"on": "tenant", "is": "acme"}, {}, False),
    ({"on": "tenant", "present": True}, {"tenant": ""}, True),
    ({"on": "model", "in": ["a", "b"]}, {"model": "b"}, True),
    ({"on": "model", "in": ["ab"]}, {"model": "a"}, False),
    ({"on": "application", "is": "a"}, {"application": "a"}, True),
    ({"on": "environment", "is": "prod"}, {"environment": "prod"}, True),
    ({"on": "pipeline_version", "is": "7"}, {"pipeline_version": 7}, True),
    ({"on": "question_id", "in": ["EF_1"]}, {"question_id": "EF_1"}, True),
    ({"on": "session_id", "is": "s"}, {"session_id": "s"}, True),
    ({"on": "finish_reason", "is": "length"}, {"finish_reason": "length"}, True),
    ({"on": "error", "present": True}, {"error": {"code": 500}}, True),
    ({"on": "error", "present": True}, {}, False),
    ({"on": "answerable", "is": False}, {"answerable": False}, True),
    ({"on": "answerable", "is": False}, {"answerable": True}, False),
    ({"on": "answerable", "is": False}, {}, False),
    ({"on": "expected", "present": True}, {"expected": "x"}, True),
    ({"on": "expected", "present": True}, {}, False),
    ({"on": "labels.region", "is": "eu"}, {"labels": {"region": "eu"}}, True),
    ({"on": "labels.region", "is": "eu"}, {"labels": {"other": "eu"}}, False),
    ({"on": "labels.region", "present": True}, {}, False),
    ({"on": "labels.a.b", "is": "c"}, {"labels": {"a.b": "c"}}, True),
    (NUMBER | {"above": 0.7, "unless": "refusal"}, {"unsupported_risk": 0.9, "refusal": 1.0}, False),
    (NUMBER | {"above": 0.7, "unless": "refusal"}, {"unsupported_risk": 0.9, "refusal": 0.0}, True),
    (NUMBER | {"above": 0.7, "unless": "refusal"}, {"unsupported_risk": 0.9, "refusal": None}, True),
    (NUMBER | {"above": 0.7, "unless": "refusal"}, {"unsupported_risk": 0.9}, True),
    ({"on": "tenant", "present": True, "unless": "refusal"}, {"tenant": "t", "refusal": 1.0}, False),
]


@pytest.mark.parametrize(("condition", "event", "fires"), CASES)
def test_a_condition_fires_on_what_it_says(condition: dict[str, Any], event: dict[str, Any], fires: bool) -> None:
    """Every operator on every kind of value, at its edges; what is null or absent fulfils nothing."""
    values = {name: value for name, value in event.items() if name in CATALOGUE.metrics}
    labels = {name: value for name, value in values.items() if CATALOGUE.metrics[name].unit == "category"}
    scores = {name: value for name, value in values.items() if name not in labels}
    fields = {name: value for name, value in event.items() if name not in values}
    (suite,) = decided(router([rule(**condition)]), scores, labels, **fields).values()
    assert suite == SuiteDecision(
        suite="rubric",
        status="selected" if fires else "not_selected",
        probability=float(fires),
        because=("r",) if fires else (),
    )


METRICS = ("unsupported_risk", "lexical_hallucination", "context_support")
RULES = st.lists(
    st.fixed_dictionaries(
        {
            "on": st.sampled_from(METRICS),
            "above": st.sampled_from((0.2, 0.5, 0.8)),
            "suites": st.lists(st.sampled_from(SUITES), min_size=1, max_size=3),
            "probability": st.floats(0, 1),
        }
    ),
    max_size=6,
)
SCORES = st.fixed_dictionaries({name: st.none() | st.floats(0, 1) for name in METRICS})


@pytest.mark.slow
@given(RULES, st.dictionaries(st.sampled_from(SUITES), st.floats(0, 1)), SCORES, st.text(min_size=1, max_size=20))
def test_the_probability_is_the_largest_of_the_reasons(
    rules: list[dict[str, Any]], floors: dict[str, float], scores: dict[str, float | None], event_id: str
) -> None:
    """The reasons are the rules that fired, in their order, and then the floor; the largest of them is p.

    Every suite that a rule or a floor names is there, in the suites' order, and no other.
    """
    named = [{"name": f"r{number}"} | each for number, each in enumerate(rules)]
    decision = router(named, floors=floors).decide(interaction(event_id), scores, {})
    wanted = {suite for each in rules for suite in each["suites"]} | floors.keys()
    assert [suite.suite for suite in decision.suites] == [name for name in SUITES if name in wanted]
    for suite in decision.suites:
        reasons = {
            each["name"]: each["probability"]
            for each in named
            if suite.suite in each["suites"] and (value := scores[each["on"]]) is not None and value > each["above"]
        }
        if floors.get(suite.suite):
            reasons["floor"] = floors[suite.suite]
        assert suite.because == tuple(reasons)
        assert suite.probability == max(reasons.values(), default=0.0)
        if suite.probability in (0, 1):
            assert suite.status == ("selected" if suite.probability else "not_selected")


@pytest.mark.slow
def test_decisions_are_right_when_there_are_more_than_are_kept() -> None:
    """With thirteen rules there are more patterns than are remembered, and each is still decided by itself."""
    rules = [rule(f"r{number}", on=f"labels.l{number}", present=True, probability=1 / 64) for number in range(13)]
    by = router(rules)
    for pattern in [*range(2**13), *range(0, 2**13, 7)]:
        there = [number for number in range(13) if pattern >> number & 1]
        suite = decided(by, labels={f"l{number}": "x" for number in there})["rubric"]
        assert suite.because == tuple(f"r{number}" for number in there)


# The rules that ship.


WITHOUT_SHARE = RoutingSettings(floors=RoutingSettings().floors)
"""The default rules and floors, all of which hold as `rubric` has a floor by hand."""


def routed(catalogue: Catalogue = CATALOGUE, **fields: Any) -> dict[str, tuple[str, ...]]:
    """For which reasons a real event is judged by the rules that ship: floors left out."""
    agent = EvaluateAgent(EvaluateConfig(catalogue, router=Router(WITHOUT_SHARE, catalogue, SUITES)))
    event = {"event_id": "e", "query": "Who built the bridge?", "response": "", "ended_at": 0} | fields
    ((evaluation, raised),) = agent.evaluate(Record("t", 0, 0, None, orjson.dumps(event), None))
    assert not raised
    return {each.suite: tuple(name for name in each.because if name != "floor") for each in evaluation.decision.suites}


SUPPORTED = [{"text": "Mimar Hayruddin built the bridge in Mostar in 1566."}]
MADE_UP = "Elton Vandersloot finished 412 aqueducts near Ganymede during 1893, earning $95,000 in royalties."


def chunks(number: int) -> list[dict[str, Any]]:
    return [{"chunk_id": f"c{place}", "text": "x", "retrieval_method": "bm25"} for place in range(number)]


def test_the_rules_that_ship_fire_as_described() -> None:
    """Made-up answers, answers from nothing, limits and reference answers, each to its suites; a sound one to none."""
    assert routed(response="Mimar Hayruddin built the bridge.", contexts=SUPPORTED)["rubric"] == ()
    assert routed(response=MADE_UP, contexts=SUPPORTED)["rubric"] == ("risk", "hallucination")
    assert routed(response=MADE_UP, contexts=[])["rubric"] == ("hallucination", "no-context")
    assert routed(response=MADE_UP)["rubric"] == (), "no contexts were sent, so nothing is known of them"
    sent = routed(response="x", expected="y")
    assert {name: because for name, because in sent.items() if because} == dict.fromkeys(SUITES[2:], ("reference",))


@pytest.mark.parametrize(
    ("used", "limit", "score", "because"),
    [
        (7, None, 0.7, ()),
        (6, None, 0.6, ("recall",)),
        (7, 11, 0.7, ()),
        (10, 10, 0.7, ("limit",)),
        (9, 10, 0.63, ("recall", "limit")),
        (10, 11, 1.0, ()),
    ],
)
def test_recall_escalates_below_seven_tenths_and_not_at_it(
    used: int, limit: int | None, score: float, because: tuple[str, ...]
) -> None:
    """As the framework has it: below 0.7, or a limit reached; exactly 0.7 alone does not escalate."""
    fields: dict[str, Any] = {
        "contexts": chunks(10),
        "extractions": [{"chunk_number": number} for number in range(1, used + 1)],
        "retrieval": limit and {"bm25_limit": limit},
    }
    scored = CATALOGUE.score(example(**fields))
    assert scored.scores["context_recall_heuristic"] == score
    assert routed(**fields)["context_recall"] == because


def test_rules_that_ship_give_way_to_metrics_that_are_off() -> None:
    """Switching a metric off leaves out the rules that need it, and no other; rules of the user's are rejected."""
    shipped = RoutingSettings().rules
    assert {each.on for each in shipped} - {"expected"} <= CATALOGUE.metrics.keys()
    without = Catalogue(everything(), ("refusal", "lexical_hallucination"))
    by = Router(WITHOUT_SHARE, without, SUITES)
    scores = {"unsupported_risk": 0.9, "lexical_hallucination": 0.9, "answered_without_context": 1.0}
    assert decided(by, scores)["rubric"].because == ("risk", "no-context", "floor")
    with pytest.raises(ConfigurationError, match="rule hallucination is on 'lexical_hallucination'"):
        Router(RoutingSettings(rules=shipped[1:]), without, SUITES)
    with pytest.raises(ConfigurationError, match="rule risk has unless 'refusal'"):
        Router(RoutingSettings(rules=[shipped[0].model_copy(update={"unless": "refusal"})]), without, SUITES)


def test_a_suite_that_is_switched_off_is_not_asked() -> None:
    """The metrics of each suite are a group of its name; where all are off, no event is sent to it."""
    assert {name: {metric.group for metric in suite.metrics} for name, suite in suites().items()} == {
        name: {name} for name in SUITES
    }
    rules = [rule("all", SUITES, on="tenant", present=True)]
    by = router(rules, Catalogue(everything(), ("rubric", "classification")), floors={"rubric": 1})
    assert tuple(decided(by, tenant="t")) == ("context_recall", "ragas", "factual", "semantic")


# What is rejected.

WRONG = {
    'on = "unsuported_risk"\nabove = 0.7': "rule r is on 'unsuported_risk', which is no field, nor a metric",
    'on = "labels."\npresent = true': "rule r is on 'labels.', which is no field, nor a metric switched on",
    'on = "query"\npresent = true': "rule r is on 'query', which is no field, nor a metric switched on",
    'on = "judge_relevance"\nbelow = 0.5': "rule r is on 'judge_relevance', which is known only after judging",
    'on = "recall_warning"\nabove = 0.5': "rule r asks 'above' of 'recall_warning', a label, which takes is, in",
    'on = "tenant"\nbelow = 0.5': "rule r asks 'below' of 'tenant', a text, which takes is, in, present",
    'on = "expected"\nis = "x"': "rule r asks 'is' of 'expected', a list, which takes present",
    'on = "refusal"\nin = ["a"]': "rule r asks 'in' of 'refusal', a yes or no, which takes above, below, is, present",
    'on = "refusal"\nis = "true"': "rule r compares 'refusal', a yes or no, with what can never be it",
    'on = "tenant"\nis = 7': "rule r compares 'tenant', a text, with what can never be it",
    'on = "recall_warning"\nis = true': "rule r compares 'recall_warning', a label, with what can never be it",
    'on = "recall_warning"\nis = "HIT"': "rule r: 'recall_warning' is never 'HIT': HIT_RETRIEVAL_LIMIT, HIGH_",
    'on = "recall_warning"\nin = ["HIT"]': "rule r: 'recall_warning' is never 'HIT': HIT_RETRIEVAL_LIMIT, HIGH_",
    'on = "tenant"\npresent = true\nunless = "unsupported_risk"': "rule r has unless 'unsupported_risk', which is no",
    'on = "tenant"\npresent = true\nunless = "nothing"': "rule r has unless 'nothing', which is no free yes-or-no",
    'on = "tenant"\npresent = true\nsuites = ["rubrik"]': "rule r is for the suite 'rubrik', and the suites are rubric",
}
REFUSED = {
    'on = "tenant"': "rule r needs one of above, below, is, in, present",
    'on = "tenant"\nis = "a"\nin = ["a"]': "rule r needs one of above, below, is, in, present",
    'on = "tenant"\nis_ = "a"': "there is no such setting",
    'on = "tenant"\npresent = false': "Input should be True",
    'on = "tenant"\nin = []': "at least 1",
    'on = "tenant"\npresent = true\nprobability = 1.1': "less than or equal to 1",
    'on = "tenant"\npresent = true\nprobability = nan': "equal to",
    'on = "tenant"\npresent = true\nsuites = []': "at least 1",
    'on = "unsupported_risk"\nabove = nan': "finite",
}
GROUP_REFUSED = {
    "[routing.floors]\nrubric = -0.1": "greater than or equal to 0",
    f"[routing]\nkey = '{'k' * 65}'": "1 to 64 bytes",
    f"[routing]\nkey = '{'ü' * 33}'": "1 to 64 bytes",
    "[routing]\nkey = ''": "1 to 64 bytes",
    2 * "[[routing.rules]]\nname = 'a'\non = 'tenant'\npresent = true\nsuites = ['rubric']\n": "two rules have the",
    "[[routing.rules]]\nname = 'floor'\non = 'tenant'\npresent = true\nsuites = ['rubric']\n": "the random floor",
}


def written(condition: str) -> str:
    given = "suites" in condition
    return f"[[routing.rules]]\nname = 'r'\n{condition}\n" + ("" if given else "suites = ['rubric']\n")


def loaded(tmp_path: Path, text: str) -> RoutingSettings:
    file = tmp_path / "ragweir.toml"
    file.write_text(text, encoding="utf-8")
    return load(file).routing


@pytest.mark.parametrize("condition", WRONG)
def test_what_a_rule_cannot_ask_is_rejected_by_its_name(condition: str, tmp_path: Path) -> None:
    """A rule that could never do what its author meant is an error that names it, in one sentence."""
    settings = loaded(tmp_path, written(condition))
    with pytest.raises(ConfigurationError) as caught:
        Router(settings, CATALOGUE, SUITES)
    assert str(caught.value).startswith(f"routing: {WRONG[condition]}")


@pytest.mark.parametrize("text", [*map(written, REFUSED), *GROUP_REFUSED])
def test_settings_that_contradict_themselves_are_rejected(text: str, tmp_path: Path) -> None:
    """What needs no catalogue to be seen as wrong is rejected when settings are read."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, text)
    assert ({written(name): told for name, told in REFUSED.items()} | GROUP_REFUSED)[text] in str(caught.value)


def test_a_floor_for_no_suite_is_rejected() -> None:
    """A floor of a suite that does not exist is an error too."""
    with pytest.raises(ConfigurationError, match="a floor is for the suite 'rubrik'"):
        router(floors={"rubrik": 0.1})


def test_the_shortest_and_the_longest_key_draw_too() -> None:
    """Any key of 1 to 64 bytes serves, and each selects its own events."""
    by = [router(floors={"rubric": 0.1}, key=key) for key in ("j", "k", "k" * 64)]
    chosen = [frozenset(number for number in range(500) if selected(each, str(number))) for each in by]
    assert len(set(chosen)) == 3


# What the evaluate agent makes of it.


def agent(by: Router | None, **config: Any) -> EvaluateAgent:
    return EvaluateAgent(EvaluateConfig(CATALOGUE, router=by, **config))


def records(values: Sequence[bytes]) -> list[Record]:
    return [Record("t", 0, number, None, value, 0) for number, value in enumerate(values)]


def numbered(count: int) -> list[bytes]:
    """Samples again and again under ids of their own."""
    again = itertools.islice(itertools.cycle(SAMPLES), count)
    return [orjson.dumps(orjson.loads(value) | {"event_id": f"s{number}"}) for number, value in enumerate(again)]


ALL = router([rule("all", ("rubric", "ragas"), on="application", present=True)], floors={"factual": 0.3})
NONE = router(floors={"rubric": 0})


def by_topic(emissions: Sequence[Emission]) -> dict[str, list[Emission]]:
    found = defaultdict(list)
    for emission in emissions:
        found[emission.topic].append(emission)
    return found


def test_a_selected_event_is_sent_to_the_judge_with_its_texts() -> None:
    """Behind its evaluation goes one request, under the same key: the evaluation as written, and the texts."""
    value = orjson.dumps(
        orjson.loads(SAMPLES[0])
        | {
            "event_id": "ü1",
            "contexts": [{"text": "first"}, {"text": {"a": [1]}}, {"text": "third"}],
            "expected": ["yes", "no"],
        }
    )
    outcome = agent(ALL, limits=TextLimits(max_contexts=2)).handle(records([value]))
    evaluation, request = outcome.emissions
    assert (evaluation.topic, request.topic) == ("evaluations", "judge.requests")
    assert request.key == evaluation.key == "ü1".encode()
    assert request.value is not None
    assert evaluation.value is not None
    read = JudgeRequest.model_validate_json(request.value)
    assert encode(read) == request.value
    assert encode(read.evaluation) == evaluation.value
    event = decode(value)
    assert (read.query, read.response, read.expected) == (event.query, event.response, ("yes", "no"))
    assert read.contexts == ("first", '{"a":[1]}')
    assert (read.requested_at, read.not_before, read.attempts, read.why) == (None, None, 0, "")
    headers = dict(request.headers)
    assert headers["ce_type"] == b"ragweir.judge_request.v1"
    assert headers["ce_id"] == "ü1:judge_request".encode()
    assert headers["ce_time"] == dict(evaluation.headers)["ce_time"]


def test_absent_contexts_stay_absent_on_the_request() -> None:
    """Contexts that the event does not carry are null and an empty list is empty, for the judge as for metrics."""
    for contexts, told in ((None, None), ([], ())):
        value = orjson.dumps({"event_id": "1", "application": "a", "query": "", "response": "", "contexts": contexts})
        request = agent(ALL).handle(records([value])).emissions[1].value or b""
        assert JudgeRequest.model_validate_json(request).contexts == told
        assert JudgeRequest.model_validate_json(request).expected is None


@pytest.mark.slow
def test_requests_and_counts_are_those_of_the_decisions() -> None:
    """One request per event with a suite selected, none for another, and every decision counted by suite and status."""
    by = router([rule(on="expected", present=True, probability=0.5)], floors={"factual": 0.2, "rubric": 0.1})
    outcome = agent(by).handle(records([*numbered(200), b"not json"]))
    topics = by_topic(outcome.emissions)
    evaluations = [Evaluation.model_validate_json(each.value or b"") for each in topics["evaluations"]]
    counted: Counter[tuple[str, ...]] = Counter()
    chosen = []
    for each in evaluations:
        counted.update(("ragweir_routed_total", suite.suite, suite.status) for suite in each.decision.suites)
        if any(suite.status == "selected" for suite in each.decision.suites):
            chosen.append(each.event_id.encode())
    assert 0 < len(chosen) < 200
    assert [each.key for each in topics["judge.requests"]] == chosen
    assert {count: n for count, n in outcome.counts.items() if count[0] == "ragweir_routed_total"} == counted
    assert outcome.counts["ragweir_dead_letters_total", "not_json"] == 1


def test_only_with_a_judge_there_are_requests() -> None:
    """Without a router nothing is decided and nothing but evaluations and dead letters is written."""
    without = agent(None)
    assert without.outputs == ("evaluations", "dead-letter")
    assert set(agent(NONE).outputs) == {*without.outputs, "judge.requests"} <= TOPICS.keys()
    outcome = without.handle(records(SAMPLES))
    assert by_topic(outcome.emissions).keys() == {"evaluations"}
    assert not [count for count in outcome.counts if count[0] == "ragweir_routed_total"]


def test_a_judge_in_the_settings_makes_a_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `judge.base_url` evaluations carry decisions; a rule that cannot be used then stops the service."""
    monkeypatch.chdir(tmp_path)
    assert evaluate_config(load(), "t").router is None
    judge = {"judge": {"base_url": "http://127.0.0.1:1/v1"}}
    by = evaluate_config(load(None, judge), "t").router
    assert by is not None
    assert tuple(decided(by)) == SUITES
    wrong = {"routing": {"rules": [rule(on="nothing", present=True)]}}
    assert evaluate_config(load(None, wrong), "t").router is None
    with pytest.raises(ConfigurationError, match="rule r is on 'nothing'"):
        evaluate_config(load(None, judge | wrong), "t")


@pytest.mark.slow
def test_but_for_the_decision_evaluations_are_the_same_bytes() -> None:
    """With a judge and without, selected or not: the evaluations differ in their decision and in nothing else."""
    values = numbered(100)
    plain = [each.value for each in agent(None).handle(records(values)).emissions]
    for by in (ALL, NONE, Router(RoutingSettings(), CATALOGUE, SUITES)):
        routed = by_topic(agent(by).handle(records(values)).emissions)["evaluations"]
        assert len(routed) == len(plain)
        for one, other in zip(routed, plain, strict=True):
            read = orjson.loads(one.value or b"")
            assert read["decision"]["suites"]
            assert orjson.dumps(read | {"decision": {"suites": []}}) == other


@pytest.mark.slow
def test_batches_orders_and_replays_change_nothing() -> None:
    """One batch, single events, another order, an agent of its own later: the same records for each event."""
    by = Router(RoutingSettings(floors={"rubric": 0.3}), CATALOGUE, SUITES)
    given = records(numbered(60))
    whole = agent(by).handle(given).emissions

    def sorted_by_key(emissions: Sequence[Emission]) -> list[Emission]:
        return sorted(emissions, key=lambda each: (each.key or b"", each.topic))

    own = agent(Router(RoutingSettings(floors={"rubric": 0.3}), CATALOGUE, SUITES))
    assert [emission for record in given for emission in own.handle([record]).emissions] == whole
    assert sorted_by_key(agent(by).handle(given[::-1]).emissions) == sorted_by_key(whole)
    assert agent(by).handle(given).emissions == whole


# What is too large.

LIMIT = 256 * 1024
ESCAPED = {
    "controls": rb"\u0000",
    "quotes": rb"\"",
    "backslashes": rb"\\",
    "slashes": rb"\/",
    "line ends": rb"\n",
    "plain": b"x",
    "two bytes": "ü".encode(),
    "escaped letters": rb"\u00fc",
    "three bytes": "橋".encode(),
    "surrogate pairs": rb"\ud83c\udf09",
    "four bytes": "🌉".encode(),
    "delete": b"\x7f",
}


def filled(fill: bytes, *places: str) -> bytes:
    """An event of as many bytes as there may be, most of them in these texts."""
    heads = [b'{"event_id":"%s"' % (b"\\u0001" * 200), b'"application":"a"', b'"ended_at":0']
    room = LIMIT - 4_000
    text = fill * (room // len(places) // len(fill))
    shapes = {
        "contexts": b'"contexts":[{"document_id":"d","text":"%s"}]',
        "expected": b'"expected":["%s"]',
        "labels": b'"labels":{"l":"%s"}',
    }
    parts = [shapes.get(place, b'"%s":"%%s"' % place.encode()) % text for place in places]
    missing = [b'"%s":""' % name.encode() for name in ("query", "response") if name not in places]
    return b",".join([*heads, *parts, *missing]) + b"}"


def fits(emission: Emission, limit: int) -> bool:
    """Whether Kafka takes the record: its key and headers are a part of it."""
    around = len(emission.key or b"") + sum(len(name) + len(value) for name, value in emission.headers)
    return len(emission.value or b"") + around < max_record_bytes(limit)


@pytest.mark.slow
@pytest.mark.parametrize("include_text", [False, True])
@pytest.mark.parametrize("places", [("query", "response"), ("contexts",), ("expected",), ("labels", "response")])
@pytest.mark.parametrize("kind", ESCAPED)
def test_no_text_makes_a_request_too_large(kind: str, places: tuple[str, ...], include_text: bool) -> None:
    """The largest events of text, however they are escaped, come to a request that Kafka takes, with room to wait in.

    Text never grows: an escape that JSON needs is at least as long in the event. A request holds each text once, and
    once more where evaluations carry text; all else of the event stands on it once.
    """
    value = filled(ESCAPED[kind], *places)
    assert LIMIT - 5_000 < len(value) <= LIMIT
    outcome = agent(ALL, max_event_bytes=LIMIT, include_text=include_text).handle(records([value]))
    assert [each.topic for each in outcome.emissions] == ["evaluations", "judge.requests"]
    assert all(fits(each, LIMIT) for each in outcome.emissions)
    request = JudgeRequest.model_validate_json(outcome.emissions[1].value or b"")
    waiting = request.model_copy(update={"requested_at": request.evaluation.event_time, "why": "w" * 1_000})
    again = Emission("judge.retry", outcome.emissions[1].key, encode(waiting), outcome.emissions[1].headers)
    assert fits(again, LIMIT)


def repeated(item: bytes, shape: bytes) -> bytes:
    """An event of the largest size in which a list holds the same item again and again."""
    items = b",".join([item] * ((LIMIT - 500) // (len(item) + 1)))
    return b'{"event_id":"1","ended_at":0,"application":"a","query":"","response":"",%s}' % (shape % items)


GROWING = {
    "numbers in a context": (repeated(b"1e15", b'"contexts":[{"text":[%s]}]'), False),
    "quotes, and evaluations carry text": (repeated(rb'"\"\"\"\""', b'"contexts":[{"text":[%s]}]'), True),
}


@pytest.mark.parametrize(("value", "include_text"), GROWING.values(), ids=GROWING)
def test_a_request_that_is_too_large_costs_only_itself(value: bytes, include_text: bool) -> None:
    """What is no text can grow when it is read as text: the request is left out, and the evaluation says so."""
    assert len(value) <= LIMIT
    given = records([value])
    by = router([rule("all", ("rubric", "ragas"), on="application", present=True)], floors={"factual": 0})
    (plain,) = agent(None, max_event_bytes=LIMIT, include_text=include_text).handle(given).emissions
    outcome = agent(by, max_event_bytes=LIMIT, include_text=include_text).handle(given)
    (written,) = outcome.emissions
    assert fits(written, LIMIT)
    evaluation = Evaluation.model_validate_json(written.value or b"")
    statuses = {suite.suite: suite.status for suite in evaluation.decision.suites}
    assert statuses == {"rubric": "failed", "ragas": "failed", "factual": "not_selected"}
    assert outcome.counts["ragweir_routed_total", "rubric", "failed"] == 1
    assert evaluation.flags[-1] == "judge_request_too_large"
    unflagged = evaluation.model_copy(update={"decision": Decision(), "flags": evaluation.flags[:-1]})
    assert encode(unflagged) == plain.value
