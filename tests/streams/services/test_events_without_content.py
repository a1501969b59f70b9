"""Events without content through the services: not judged where texts are read, shown and counted as absent."""

from collections.abc import Generator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from poison import event

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.driver import judge
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Null
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.judge.results import case_of
from ragweir.streams.settings import RoutingSettings

SUITES = tuple(suites())
CATALOGUE = Catalogue(everything())
EVERY = RoutingSettings(rules=[], floors=dict.fromkeys(SUITES, 1.0))
ABSENT = ("content_absent",)
UNTOLD = [{"chunk_id": "c1", "score": 0.5, "document_id": "d1"}, {"chunk_id": "c2", "score": 0.25}]


def handled(*, include_text: bool = False, **fields: Any) -> Outcome:
    config = EvaluateConfig(CATALOGUE, router=Router(EVERY, CATALOGUE, SUITES), include_text=include_text)
    return EvaluateAgent(config).handle([Record("t", 0, 0, None, event(**fields), 0)])


def evaluated(outcome: Outcome) -> Evaluation:
    return Evaluation.model_validate_json(outcome.emissions[0].value or b"")


@pytest.mark.parametrize("absent", [{"query": None}, {"response": None}, {"query": None, "response": None}], ids=str)
def test_an_event_without_question_or_answer_is_not_judged(absent: dict[str, None]) -> None:
    """Whatever rule or floor is sure: no request, and each suite has the reason and no chance."""
    outcome = handled(**absent, contexts=[{"text": "a"}], expected="b")
    assert [each.topic for each in outcome.emissions] == ["evaluations"]
    decided = evaluated(outcome).decision.suites
    assert [suite.suite for suite in decided] == list(SUITES)
    assert {(suite.status, suite.probability, suite.because) for suite in decided} == {("not_selected", 0.0, ABSENT)}
    assert all(outcome.counts["ragweir_routed_total", name, "not_selected"] == 1 for name in SUITES)
    assert {flag for flag in evaluated(outcome).flags if "absent" in flag} == {
        f"content_absent:{name}" for name in absent
    }


def test_contexts_without_text_are_not_judged_and_the_answer_is() -> None:
    """Suites that need contexts are barred; the others are asked without contexts, and say why those are missing."""
    outcome = handled(contexts=UNTOLD)
    barred = {suite.suite for suite in evaluated(outcome).decision.suites if suite.because == ABSENT}
    assert barred == {name for name, suite in suites().items() if "contexts" in suite.needs} == {"context_recall"}
    request = JudgeRequest.model_validate_json(outcome.emissions[1].value or b"")
    assert request.contexts is None
    case, cut = case_of(request, 10_000)
    assert not cut
    asked: list[object] = []
    reasons: dict[str, str] = {}
    words = map("word{}".format, count())

    def without_answers() -> Generator[object, object, None]:
        found = yield from judge(case, [suites()["ragas"], suites()["rubric"]], words.__next__)
        reasons.update(found.reasons)

    conversation = without_answers()
    asked.append(next(conversation))
    with suppress(StopIteration):
        while True:
            asked.append(conversation.send(Null("the judge is not there")))
    needing = {m.name for name in ("ragas", "rubric") for m in suites()[name].metrics if "contexts" in m.needs}
    assert {name for name, reason in reasons.items() if reason == "content_absent"} == needing
    assert asked, "the answer is judged"


def test_a_request_of_a_part_of_the_contexts_is_not_made() -> None:
    """One context without text leaves all out: the judge would find unsupported what stands in that one."""
    outcome = handled(contexts=[{"text": "captured"}, *UNTOLD])
    assert JudgeRequest.model_validate_json(outcome.emissions[1].value or b"").contexts is None
    whole = handled(contexts=[{"text": "captured"}, {"text": ""}])
    assert JudgeRequest.model_validate_json(whole.emissions[1].value or b"").contexts == ("captured", "")


def test_an_evaluation_with_texts_has_null_for_an_absent_one() -> None:
    """Never the word None, nor an empty text."""
    text = evaluated(handled(include_text=True, query=None, contexts=[{"text": "a"}, {}])).text
    assert text is not None
    assert (text.query, text.response, text.contexts) == (None, "Ada Lovelace.", ("a", None))
    assert evaluated(handled(contexts=UNTOLD)).document_ids == ("d1",)


def test_the_flags_of_an_assembly_are_flags_of_the_evaluation() -> None:
    """Each once, known to the telemetry from the start; a hostile value is repaired like any other."""
    flags = ["incomplete", "attributes_cut", "incomplete", "secret", 5]
    outcome = handled(assembly={"dialect": "openinference", "spans": -1, "flags": flags})
    assert set(evaluated(outcome).flags) == {
        "incomplete",
        "attributes_cut",
        "unreadable:assembly.spans",
        "unreadable:assembly.flags[]",
    }
    assert set(evaluated(outcome).flags) <= REPAIRS
    assert outcome.counts["ragweir_repaired_total", "incomplete"] == 1
    assert "secret" not in (outcome.emissions[0].value or b"").decode()
