"""SLOs that count nothing are told of: by `doctor` on the newest evaluations, and by a rehearsal on the past."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ragweir
from conftest import SharedBroker, create_topic, produce

from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.analysis.checks.events import evaluations, objectives, uncounted
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import JudgeSettings, KafkaSettings, Settings, Slo, TopicSettings

GOOD = Slo(name="good", metric="context_support", at_least=0.5, objective=0.9)
EXACT = Slo(name="exact", metric="exact_match", at_least=1, objective=0.9)
ELSEWHERE = Slo(name="elsewhere", metric="context_support", at_least=0.5, objective=0.9, dimensions={"tenant": "acmee"})
HALF = Slo(name="half", metric="exact_match", at_least=1, objective=0.9, dimensions={"tenant": "acme"})
JUDGED = Slo(name="judged", metric="judge_relevance", at_least=0.5, objective=0.9)
EXACT_IS_NULL = "exact_match is null on all 20 of them, mostly because the event has no expected"


def line(number: int) -> dict[str, Any]:
    """An evaluation of an event without an expected answer."""
    return {
        "event_id": f"e{number}",
        "event_time": f"2026-11-21T10:{number:02}:00Z",
        "tenant": "acme" if number % 2 else "globex",
        "scores": {"context_support": 0.7, "exact_match": None},
        "reasons": {"exact_match": "the event has no expected" if number else "the text was cut"},
        "catalogue_version": "1",
    }


LINES = [orjson.dumps(line(number)) for number in range(20)]


def test_each_slo_that_counts_none_is_found_with_its_reason() -> None:
    """A metric that is null, in all or within the dimensions, and dimensions that nobody has."""
    sample = [Evaluation.model_validate(line(number)) for number in range(20)]
    assert {slo.name: why for slo, why in uncounted((GOOD, EXACT, ELSEWHERE, HALF, JUDGED), sample)} == {
        "exact": EXACT_IS_NULL,
        "elsewhere": "none of them has tenant=acmee",
        "half": "exact_match is null on all 10 of them with tenant=acme, mostly because the event has no expected",
        "judged": "judge_relevance is null on all 20 of them",
    }


def test_one_value_among_many_is_enough() -> None:
    """It has a value on one event: the metric is there, and the SLO counts."""
    sample = [Evaluation.model_validate(line(number)) for number in range(20)]
    sample[7] = Evaluation.model_validate(line(7) | {"scores": {"exact_match": 0}})
    assert list(uncounted((EXACT, HALF), sample)) == []


def test_what_is_no_evaluation_is_left_out() -> None:
    values = [None, b"?", b"{}", LINES[0]]
    records = [Record("t", 0, offset, None, value, 0) for offset, value in enumerate(values)]
    assert [each.event_id for each in evaluations(records)] == ["e0"]


def test_doctor_tries_the_slos_on_the_newest_evaluations(kafka: SharedBroker, prefix: str) -> None:
    """From a topic: nothing to look at, then an SLO that counts, one that does not, and one on a judged metric."""

    def told(*slos: Slo, topics: dict[str, int] | None = None, **judge: str) -> str:
        effective = Settings(
            kafka=KafkaSettings(bootstrap_servers=kafka.bootstrap),
            topics=TopicSettings(prefix=prefix),
            judge=JudgeSettings(**judge),
            slo=slos,
        )
        return objectives(CheckContext(effective, {f"{prefix}evaluations": 2} if topics is None else topics))

    assert told() == "there is no SLO"
    with pytest.raises(CheckFailed, match="there is no topic"):
        told(GOOD, topics={})
    topic = create_topic(kafka.bootstrap, f"{prefix}evaluations", 2)
    assert told(GOOD) == "there are no evaluations yet to check the SLOs on"
    produce(kafka.bootstrap, topic, LINES)
    assert told(GOOD) == "each SLO counts some of the newest 20 evaluations"
    with pytest.raises(CheckFailed) as found:
        told(GOOD, EXACT)
    assert str(found.value).startswith(f"exact counts none of the newest 20 evaluations: {EXACT_IS_NULL}; correct ")
    # A judged metric has values on few events, where there is a judge; without one on none, ever.
    with pytest.raises(CheckFailed, match="judged counts none"):
        told(JUDGED)
    assert told(JUDGED, base_url="http://judge/v1").startswith("judged counts none of the newest 20 evaluations")


def test_a_rehearsal_says_which_slos_count_nothing(tmp_path: Path) -> None:
    """Beside one that counts, which is rehearsed as ever."""
    (tmp_path / "past.jsonl").write_bytes(b"\n".join(LINES))
    slos = ("--slo", "good: context_support >= 0.5 for 90%", "--slo", "exact: exact_match >= 1 for 90%")
    done = ragweir("slo", "rehearse", "past.jsonl", *slos, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    warned = [at for at, each in enumerate(lines) if "counts none of these evaluations" in each]
    assert len(warned) == 1
    assert lines[warned[0] - 1].startswith("exact: ")
