"""Blame on evaluations and events: what is read, compared and said."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pytest

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.cause.cause import Cause
from ragweir.metrics.cause.servings import value_of
from ragweir.metrics.criterion import Criterion
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.blame.answer_scope import blame_scope
from ragweir.streams.analysis.blame.blame_page import page
from ragweir.streams.analysis.blame.blame_report import BlameReport, NamedCause
from ragweir.streams.analysis.blame.blaming import blame_criterion, blame_rows, new_codes
from ragweir.streams.analysis.blame.facet_rows import FacetRows, servings
from ragweir.streams.analysis.blame.silences import Silences
from ragweir.streams.analysis.blame.value_codes import DROPPED, LONGEST, MOST_FACETS, ValueCodes
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings, from_groups

RISK = Criterion("unsupported_risk", 0.5, higher_is_better=False, suite=None)
CATALOGUE = known_catalogue(Settings()).metrics


def evaluation(number: int, *, bad: bool | None, **fields: Any) -> dict[str, Any]:
    risk = None if bad is None else 0.9 if bad else 0.1
    return {
        "event_id": f"e{number}",
        "event_time": f"2026-11-20T0{number % 6}:00:00Z",
        "catalogue_version": "3",
        "application": "bot",
        "pipeline_version": "v1",
        "scores": {"unsupported_risk": risk},
    } | fields


def rows_of(evaluations: list[dict[str, Any]], codes: ValueCodes) -> FacetRows:
    rows = FacetRows(RISK, codes)
    for each in evaluations:
        rows.add(orjson.dumps(each))
    return rows


def blamed(evaluations: list[dict[str, Any]], before: list[dict[str, Any]] | None = None) -> BlameReport:
    codes = new_codes(Settings())
    now = rows_of(evaluations, codes)
    if before is None:
        return blame_rows(RISK, now, codes)
    return blame_rows(RISK, now, codes, rows_of(before, codes), "before.jsonl")


def incident(**bad_fields: Any) -> list[dict[str, Any]]:
    """Answers of which one in 20 is bad, and 60 with further fields, of which half are bad."""
    common = [evaluation(n, bad=n % 20 == 0, document_ids=[f"d{n % 9}"]) for n in range(600)]
    return common + [evaluation(1_000 + n, bad=n % 2 == 0, **bad_fields) for n in range(60)]


@pytest.mark.parametrize(
    ("fields", "facets"),
    [
        ({"document_ids": ["d77"]}, {"document": "d77"}),
        ({"labels": {"region": "eu"}}, {"labels.region": "eu"}),
        ({"tenant": "acme"}, {"tenant": "acme"}),
        ({"model": "m2"}, {"model": "m2"}),
        ({"pipeline_version": "v2"}, {"pipeline_version": "v2"}),
        ({"application": "shop", "pipeline_version": "v7"}, {"application": "shop"}),
        ({"pipeline_version": "v2", "model": "m2"}, {"pipeline_version": "v2", "model": "m2"}),
    ],
)
def test_each_facet_is_found_by_its_name(fields: dict[str, Any], facets: dict[str, str]) -> None:
    report = blamed(incident(**fields))
    assert [each.facets for each in report.causes] == [facets]
    (cause,) = report.causes
    assert (cause.numbers.servings, cause.numbers.bad, cause.numbers.within) == (60, 30, None)
    assert cause.numbers.low < cause.numbers.difference < cause.numbers.high
    assert cause.numbers.excess_bad == pytest.approx(27, abs=1)
    assert all(each in {f"e{1_000 + n}" for n in range(0, 60, 2)} for each in cause.bad_examples)
    assert len(cause.bad_examples) == len(cause.good_examples) == 3
    assert report.words == "worse than the rest"


def test_the_json_has_the_fields_of_the_contract() -> None:
    data = blamed(incident(document_ids=["d77"])).data()
    assert {*data} == {*"metric threshold reference from to events bad causes enough notes".split()}
    (cause,) = data["causes"]
    assert {*cause} == {*"facets servings bad risk_difference low high p_adjusted excess_bad within examples".split()}
    assert {*cause["examples"]} == {"bad", "good"}
    assert (data["reference"], data["events"], data["bad"], data["enough"]) == ("rest", 660, 60, True)


def test_sessions_and_questions_count_once() -> None:
    """Sixty bad answers of one session, or to one question, are one observation."""
    for shared in ({"session_id": "s1"}, {"question_id": "q1"}):
        assert blamed(incident(document_ids=["d77"], **shared)).causes == ()


def test_a_version_is_not_blamed_for_its_hours() -> None:
    """At night half of the answers are bad, whatever the version; v2 runs at night only."""
    rows = []
    for n in range(1_200):
        night = n % 2 == 0
        version = "v2" if night and n % 4 == 0 else "v1"
        bad = night and (n // 4) % 2 == 0
        rows.append(
            evaluation(n, bad=bad, pipeline_version=version, event_time=f"2026-11-20T{'02' if night else '12'}:00:00Z")
        )
    assert blamed(rows).causes == ()


def test_with_a_reference_it_is_worse_than_before() -> None:
    before = [{**each, "event_time": "2026-11-10T00:00:00Z"} for each in incident(document_ids=["d77"])]
    same = blamed(incident(document_ids=["d77"]), before)
    assert same.causes == ()
    good = [{**each, "scores": {"unsupported_risk": 0.1}} if n > 600 else each for n, each in enumerate(before)]
    report = blamed(incident(document_ids=["d77"]), good)
    assert [each.facets for each in report.causes] == [{"document": "d77"}]
    assert (report.reference, report.words) == ("before.jsonl", "worse than before")
    assert "worse than before" in report.sentence(0)


def test_a_value_that_the_reference_lacks_is_compared_with_its_application_before() -> None:
    before = [evaluation(n, bad=n % 20 == 0) for n in range(600)]
    report = blamed(incident(pipeline_version="v2"), before)
    assert [each.facets for each in report.causes] == [{"pipeline_version": "v2"}]


def test_chunks_tools_and_methods_come_from_events() -> None:
    codes = new_codes(Settings())
    rows = rows_of(incident(), codes)
    for n in range(60):
        event = Interaction(
            event_id=f"e{1_000 + n}",
            query=f"Who is {n}?",
            response="Ada.",
            contexts=[{"chunk_id": "c1", "rank": 4, "retrieval_method": "knn", "text": "Ada."}],
            spans=[{"kind": "tool", "name": "search", "error": "timeout"}],
        )
        rows.add_event(event)
        rows.add_event(event)
    report = blame_rows(RISK, rows, codes)
    (cause,) = report.causes
    assert cause.numbers.servings == 60
    found = dict(cause.facets)
    assert found["chunk"] == "c1"
    assert (found["tool"], found["tool_error"]) == ("search", "search")
    assert (found["rank"], found["retrieval_method"]) == ("4", "knn")
    assert any("600 evaluations have no event" in note for note in report.notes)


def test_a_good_answer_to_the_same_question_is_shown_beside_a_bad_one() -> None:
    codes = new_codes(Settings())
    rows = rows_of(incident(document_ids=["d77"]), codes)
    for n in (1_000, 1_002, 1_004, 7):
        asked = "Who  WAS Ada?" if n in {1_002, 7} else f"Who is {n}?"
        rows.add_event(Interaction(event_id=f"e{n}", query=asked.strip(), response="Zoe."))
    (cause,) = blame_rows(RISK, rows, codes).causes
    assert cause.good_examples[cause.bad_examples.index("e1002")] == "e7"


def test_of_several_evaluations_of_an_event_the_values_of_one_count() -> None:
    rows = incident(document_ids=["d77"])
    older = [{**each, "document_ids": ["d88"], "scores": {"unsupported_risk": 0.9}} for each in rows]
    report = blamed(older + rows)
    assert [each.facets for each in report.causes] == [{"document": "d77"}]
    assert report.events == 660


def test_nulls_are_no_answers() -> None:
    rows = incident(document_ids=["d77"]) + [evaluation(5_000 + n, bad=None) for n in range(40)]
    report = blamed(rows)
    assert report.events == 660
    assert any("40 evaluations have no unsupported_risk" in note for note in report.notes)
    nothing = blamed([evaluation(n, bad=None) for n in range(50)])
    assert (nothing.events, nothing.causes, nothing.enough) == (0, (), False)
    assert "no evaluation has unsupported_risk" in nothing.notes


@pytest.mark.parametrize(("bad", "said"), [(True, "every answer is bad"), (False, "no answer is bad")])
def test_a_metric_that_is_never_or_always_bad_is_said(bad: bool, said: str) -> None:
    report = blamed([evaluation(n, bad=bad, document_ids=[f"d{n % 3}"]) for n in range(300)])
    assert report.causes == ()
    assert any(said in note for note in report.notes)


def test_too_little_data_is_said_and_fails_a_check() -> None:
    report = blamed([evaluation(n, bad=n % 2 == 0) for n in range(15)])
    assert not report.enough
    assert any("too little data" in note for note in report.notes)
    assert len(report.failures(1)) == 1
    enough = blamed(incident(document_ids=["d77"]))
    assert len(enough.failures(20)) == 1
    assert enough.failures(40) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", ["\x1b[2J\u202eevil\x00", "x" * 1_000_000, "<script>alert(1)</script>", "{}", "\ud800", " "]
)
def test_hostile_values_are_values(value: str) -> None:
    encoded = value.encode(errors="replace").decode()
    report = blamed(incident(document_ids=[encoded], labels={"a\x1bb": encoded}))
    (cause,) = report.causes
    assert set(cause.facets) == {"document", "labels.a\x1bb"}
    assert all(len(each) <= LONGEST for each in cause.facets.values())
    assert orjson.loads(orjson.dumps(report.data()))["causes"][0]["bad"] == 30


def test_the_same_words_are_one_question_where_no_id_says_so() -> None:
    """Sixty bad answers to one question are one observation, whatever its case and spaces are."""
    codes = new_codes(Settings())
    rows = rows_of(incident(document_ids=["d77"]), codes)
    for n in range(60):
        asked = ("Who was  Ada?", "who WAS Ada?\n")[n % 2]
        rows.add_event(Interaction(event_id=f"e{1_000 + n}", query=asked, response=f"Zoe {n}."))
    assert [each.facets for each in blame_rows(RISK, rows, codes).causes] == []


SILENCE = {"facets": {"document": "d77"}, "reason": "ticket 12", "until": "2026-12-01T00:00:00Z"}


def silenced(silence: dict[str, Any], at: datetime, **fields: Any) -> BlameReport:
    codes = new_codes(Settings())
    own = from_groups({"blame": {"silenced": [SILENCE | silence]}}).blame.silenced
    rows = rows_of(incident(**{"document_ids": ["d77"]} | fields), codes)
    return blame_rows(RISK, rows, codes, silences=Silences(own, at))


IN_TIME, AFTER = datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("silence", "at", "is_silenced"),
    [
        ({}, IN_TIME, True),
        ({}, AFTER, False),
        ({"metric": "unsupported_risk"}, IN_TIME, True),
        ({"metric": "context_support"}, IN_TIME, False),
        ({"facets": {"document": "d78"}}, IN_TIME, False),
        ({"facets": {"document": "d77", "tenant": "acme"}}, IN_TIME, False),
    ],
)
def test_a_silenced_cause_is_shown_with_its_reason_and_is_no_failure_until_the_end(
    silence: dict[str, Any], at: datetime, is_silenced: bool
) -> None:
    report = silenced(silence, at)
    (data,) = report.data()["causes"]
    assert len(report.failures(20)) == (not is_silenced)
    assert ("silenced" in data) == is_silenced
    if is_silenced:
        assert data["silenced"] == {"reason": "ticket 12", "until": AFTER}
        assert report.verdict == "1 cause worse than the rest, 1 of them silenced"
    ended = [note for note in report.notes if "silence of document d77 ended on 2026-12-01" in note]
    assert len(ended) == (at == AFTER)


def test_a_cause_with_further_values_is_silenced_by_some_of_them() -> None:
    report = silenced({"facets": {"model": "m2"}}, IN_TIME, model="m2", pipeline_version="v2")
    assert set(report.causes[0].facets) == {"model", "pipeline_version"}
    assert report.failures(20) == []


def test_the_page_shows_bad_and_good_answers_side_by_side_without_their_markup() -> None:
    report = silenced({"facets": {"document": "<b>"}}, IN_TIME, document_ids=["<b>"])
    bad, good = report.causes[0].bad_examples[0], report.causes[0].good_examples[0]
    texts = {bad: EventTexts("<i>Who?</i>", "Zoe\u202e.", None), good: EventTexts("Who?", "Ada.", None)}
    shown = page(report, texts)
    assert f"<td><b>{bad}</b>&lt;i&gt;Who?&lt;/i&gt;\n\nZoe\\u202e.</td><td><b>{good}</b>Who?\n\nAda.</td>" in shown
    assert "document &lt;b&gt;" in shown
    assert "silenced until 2026-12-01 00:00 UTC: ticket 12" in shown
    assert not {"<i>", "document <b>", "<script"} & {
        each for each in ("<i>", "document <b>", "<script") if each in shown
    }


def test_the_page_of_too_little_data_says_so() -> None:
    shown = page(blamed([evaluation(n, bad=n % 2 == 0) for n in range(15)]), {})
    assert "too little data" in shown
    assert "<svg" not in shown


def test_only_answers_of_the_range_and_of_the_slo_count() -> None:
    slo = {"name": "grounded", "metric": "unsupported_risk", "at_most": 0.5, "objective": 0.9,
           "dimensions": {"tenant": "acme"}}  # fmt: skip
    effective = from_groups({"slo": [slo]})
    start, end = datetime(2026, 11, 20, 1, tzinfo=UTC), datetime(2026, 11, 20, 3, tzinfo=UTC)
    assert blame_criterion("grounded", None, effective, CATALOGUE) == RISK
    for scope, expected in (
        (blame_scope("unsupported_risk", effective), 660),
        (blame_scope("unsupported_risk", effective, start, end), 220),
        (blame_scope("grounded", effective), 60),
        (blame_scope("grounded", effective, start, end), 20),
    ):
        rows = FacetRows(RISK, new_codes(effective), scope)
        for each in incident(tenant="acme"):
            rows.add(orjson.dumps(each))
        assert len(rows.checked("a.jsonl")) == expected


def test_a_range_without_events_says_when_they_are() -> None:
    nothing = blame_scope("unsupported_risk", Settings(), start=datetime(2026, 11, 21, tzinfo=UTC))
    rows = FacetRows(RISK, new_codes(Settings()), nothing)
    for each in incident():
        rows.add(orjson.dumps(each))
    said = (
        "holds no answer from 2026-11-21T00:00:00Z; its answers are from 2026-11-20T00:00:00Z to 2026-11-20T05:00:00Z"
    )
    with pytest.raises(PermanentError, match=said):
        rows.checked("a.jsonl")
    with pytest.raises(ConfigurationError, match="is empty"):
        blame_scope("unsupported_risk", Settings(), AFTER, IN_TIME)


def test_a_hundred_thousand_ids_keep_within_the_limit_of_memory() -> None:
    """As many are kept as the limit says, and what is kept of those that were left out grows with its logarithm."""
    codes = ValueCodes(1_000, frozenset())
    for n in range(100_000):
        codes.code("document", f"d{n}")
    kept = [each for each in codes.names if each is not None]
    assert 300 < len(kept) <= 1_000
    assert len(codes.names) == len(codes.facet) < 6_000
    assert codes.share == 2**-7


def test_answers_without_contexts_have_causes_too() -> None:
    without = [{name: value for name, value in each.items() if name != "document_ids"} for each in incident(tenant="a")]
    assert [each.facets for each in blamed(without).causes] == [{"tenant": "a"}]


def test_ten_thousand_documents_of_an_event_are_cut() -> None:
    codes = new_codes(Settings())
    rows = rows_of([evaluation(n, bad=False, document_ids=[f"d{d}" for d in range(10_000)]) for n in range(5)], codes)
    assert len(codes.names) < 100
    assert len(servings(rows, None, codes).row) < 500


def test_ten_thousand_names_of_labels_are_cut_and_that_is_said() -> None:
    rows = [{**each, "labels": {f"l{n}_{k}": "x" for k in range(20)}} for n, each in enumerate(incident()[:500])]
    codes = new_codes(Settings())
    report = blame_rows(RISK, rows_of(rows, codes), codes)
    assert len(codes.facets) == MOST_FACETS
    assert any("such as further labels" in note for note in report.notes)


def test_chunks_are_not_compared_with_a_reference_whose_events_are_unknown() -> None:
    codes = new_codes(Settings())
    now, before = rows_of(incident(), codes), rows_of([evaluation(n, bad=n % 20 == 0) for n in range(600)], codes)
    for n in range(60):
        now.add_event(Interaction(event_id=f"e{1_000 + n}", query="?", response="Ada.", contexts=[{"chunk_id": "c1"}]))
    report = blame_rows(RISK, now, codes, before, "before.jsonl")
    assert {facet for each in report.causes for facet in each.facets}.isdisjoint({"chunk", "answer_length"})
    assert any("so that answer_length, chunk, language" in note for note in report.notes)


@pytest.mark.slow
def test_above_the_limit_halves_of_the_values_are_left_out_and_the_share_is_said() -> None:
    few = from_groups({"blame": {"max_documents": 1_000}})
    codes = new_codes(few)
    chance = random.Random(1)
    rows = [evaluation(n, bad=n % 3 == 0, document_ids=[f"d{chance.randrange(9_000)}"]) for n in range(6_000)]
    report = blame_rows(RISK, rows_of(rows, codes), codes)
    known = [each for each in codes.names if each is not None]
    assert len(known) <= 1_000
    assert codes.share == 0.125
    assert any("12.5 % of the documents" in note for note in report.notes)
    again = ValueCodes(1_000, frozenset())
    for each in reversed(rows):
        again.code("document", each["document_ids"][0])
    assert {name for name in again.names if name} == {name for name in known if name.startswith("d")}
    left_out = next(own for each in rows if (own := each["document_ids"][0]) not in known)
    assert again.code("document", left_out) == DROPPED


def criteria_of(metric: str, threshold: float | None = None, **groups: Any) -> tuple[float, bool]:
    found = blame_criterion(metric, threshold, from_groups(groups), CATALOGUE)
    return found.threshold, found.higher_is_better


def test_the_threshold_is_that_of_the_slo_or_the_question_or_half_of_the_bounds() -> None:
    slo = {"name": "grounded", "metric": "unsupported_risk", "at_most": 0.4, "objective": 0.9}
    assert criteria_of("unsupported_risk", slo=[slo]) == (0.4, False)
    assert criteria_of("unsupported_risk") == (0.7, False)
    assert criteria_of("unsupported_risk", 0.2, slo=[slo]) == (0.2, False)
    assert criteria_of("context_support") == (0.5, True)
    latency = {"name": "slow", "metric": "total_latency_ms", "at_most": 900, "objective": 0.9}
    assert criteria_of("total_latency_ms", slo=[latency]) == (900, False)


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("unsuported_risk", "there is no metric unsuported_risk"),
        ("total_latency_ms", "--threshold is needed"),
        ("response_words", "neither direction"),
    ],
)
def test_a_metric_without_a_threshold_is_a_sentence(metric: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        criteria_of(metric)


def judged(number: int, probability: float, *, bad: bool, **fields: Any) -> dict[str, Any]:
    suites = [{"suite": "rubric", "status": "judged", "probability": probability}]
    return evaluation(number, bad=None, decision={"suites": suites}, stage="judged", **fields) | {
        "scores": {"judge_faithfulness": 0.1 if bad else 0.9}
    }


def selected() -> Iterator[dict[str, Any]]:
    """Events that were all judged for their risk are bad more often; nine of ten of them are of one document."""
    for n in range(1_000):
        risky = n % 5 == 0
        document = "d1" if risky and n % 50 else "d2"
        yield judged(n, 1.0 if risky else 0.1, bad=n % 15 == 0 if risky else n % 33 == 1, document_ids=[document])


def test_events_are_compared_with_those_of_the_same_probability_of_being_judged() -> None:
    faithful = Criterion("judge_faithfulness", 0.5, higher_is_better=True, suite="rubric")
    codes = new_codes(Settings())
    rows = FacetRows(faithful, codes)
    for each in selected():
        rows.add(orjson.dumps(each))
    bad = np.asarray([each["scores"]["judge_faithfulness"] < 0.5 for each in selected()])
    of_document = np.asarray([each["document_ids"] == ["d1"] for each in selected()])
    assert bad[of_document].mean() > 5 * bad[~of_document].mean()
    assert blame_rows(faithful, rows, codes).causes == ()


def test_facets_of_evaluations_need_no_events() -> None:
    """A tool that is called in bad answers is found from evaluations alone."""
    found = blamed(incident(facets={"tool": ["search"]}))
    assert [dict(each.facets) for each in found.causes] == [{"tool": "search"}]


@pytest.mark.parametrize("has_facets", [True, False])
def test_events_give_the_facets_that_an_evaluation_lacks(*, has_facets: bool) -> None:
    """An evaluation of an earlier version has none; those that it has are not made again."""
    codes = new_codes(Settings())
    own = {"facets": {"language": ["German"]}} if has_facets else {}
    rows = rows_of([evaluation(1, bad=True, **own)], codes)
    rows.add_event(Interaction(event_id="e1", query="Who?", response="Ada."))
    carried = {(codes.facets[codes.facet[each]], codes.names[each]) for each in value_of(rows.taken_pairs()).tolist()}
    assert (("language", "German") in carried) == has_facets
    assert (("language", "English") in carried) != has_facets


def test_a_reference_without_facets_is_not_compared_by_them() -> None:
    """Its answers would seem to have called no tool."""
    before = [evaluation(2_000 + n, bad=False) for n in range(600)]
    found = blamed(incident(facets={"tool": ["search"]}), before)
    assert all("tool" not in each.facets for each in found.causes)


def test_a_cause_within_another_is_named_without_what_both_have() -> None:
    def named(within: int | None, **facets: str) -> NamedCause:
        numbers = Cause([0], 60, 40, 30.0, 0.5, 0.3, 0.7, 0.001, -7.0, within)
        return NamedCause(facets, (), numbers, ("e1",), ("e2",))

    now = datetime(2026, 11, 20, tzinfo=UTC)
    causes = (named(None, pipeline_version="v2"), named(0, document="d7", pipeline_version="v2"))
    report = BlameReport(RISK, "rest", now, now, 600, 90, causes, enough=True)
    assert report.sentence(0).startswith("pipeline_version v2: 40 of 60")
    assert report.sentence(1).startswith("within pipeline_version v2, document d7: 40 of 60")
    assert "within pipeline_version v2: document d7<" in page(report, {})
