"""`ragweir slo rehearse` says when the alert on shifts would have fired."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import orjson
import pytest
from typer.testing import CliRunner

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.shift.contributions import ShiftMetrics
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.slo.shifts import ShiftCounter, ShiftRehearsal
from ragweir.streams.commands import app

START = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = 26
SHIFTED = START + timedelta(days=24, hours=6)
METRICS = ShiftMetrics(Catalogue(everything()))


def evaluations(drop: float = 0.3, days: int = DAYS, *, application: str = "bot") -> Iterator[Evaluation]:
    """Two events in half an hour; the second time has the judged evaluation of the event too."""
    chance = Random(1)
    for number in range(days * 96):
        time = START + timedelta(minutes=15 * number)
        support = chance.choice((0.65, 0.75)) - (drop if time >= SHIFTED else 0.0)
        scores = {"context_support": support, "total_latency_ms": 9e6 if time >= SHIFTED else 100.0}
        for stage in ("scored", "judged"):
            yield Evaluation(
                event_id=f"e{number}",
                event_time=time,
                application=application,
                stage=stage,
                scores={**scores, "judge_faithfulness": 0.1},
                catalogue_version="1",
            )


def rehearsed(*given: Iterator[Evaluation], most: int = 10) -> ShiftRehearsal:
    counter = ShiftCounter(METRICS, most, START + timedelta(days=DAYS))
    for each in given:
        for evaluation in each:
            counter.add(evaluation)
    return counter.rehearse()


@pytest.mark.slow
def test_a_drop_fires_with_its_begin_and_goes_on_over_midnight() -> None:
    found = rehearsed(evaluations())
    (firing,) = found.firings
    assert (firing.application, firing.metric, firing.rose) == ("bot", "context_support", False)
    assert SHIFTED < firing.start < SHIFTED + timedelta(hours=24)
    assert firing.end == START + timedelta(days=DAYS)
    assert abs(firing.began - SHIFTED) <= timedelta(hours=2)
    assert round(firing.baseline, 2) == 0.7
    assert (found.days, found.tested) == (DAYS, DAYS - 21)


@pytest.mark.slow
def test_the_order_of_evaluations_makes_no_difference() -> None:
    every = list(evaluations())
    Random(2).shuffle(every)
    assert rehearsed(iter(every)) == rehearsed(evaluations())


@pytest.mark.slow
def test_without_a_drop_nothing_fires_and_three_weeks_are_needed() -> None:
    assert rehearsed(evaluations(0.0)).firings == ()
    short = rehearsed(evaluations(days=21))
    assert (short.days, short.tested, short.firings) == (21, 0, ())


@pytest.mark.heavy
def test_wrong_clocks_change_nothing_and_take_bounded_memory() -> None:
    """Of 3,000 days in the past and in the future the last 400 of the past are kept."""
    wrong = [
        Evaluation(
            event_id="w",
            event_time=START + timedelta(days=days),
            application="bot",
            scores={"context_support": 0.1},
            catalogue_version="1",
        )
        for days in (*range(-40_000, -37_000), *range(100, 1_100), 2_000_000)
    ]
    counter = ShiftCounter(METRICS, 10, START + timedelta(days=DAYS))
    for each in (*wrong, *evaluations()):
        counter.add(each)
    assert counter.rehearse().firings == rehearsed(evaluations()).firings
    (history,) = counter._histories.values()
    assert len(history.days) <= 401


@pytest.mark.slow
def test_each_application_is_by_itself_and_those_above_the_limit_are_left_out() -> None:
    found = rehearsed(evaluations(), evaluations(0.0, application="a"), evaluations(application="b"), most=2)
    assert {firing.application for firing in found.firings} == {"bot"}


@pytest.mark.slow
def test_the_command_names_the_shifts_in_the_terminal_the_json_and_the_picture(tmp_path: Path) -> None:
    file, json, html = (tmp_path / name for name in ("e.jsonl", "r.json", "r.html"))
    file.write_bytes(b"".join(encode(each) + b"\n" for each in evaluations()))
    slo = ("--slo", "relevant: context_support >= 0.5 for 95%")
    words = ["slo", "rehearse", str(file), *slo, "--json", str(json), "--picture", str(html)]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert not done.exit_code, done.output
    assert (
        "RagweirQualityShifted for a shift of context_support of bot: fallen below 0.701, from 2026-03-25 "
        in done.stdout
    )
    words[words.index(str(json))] = "-"
    printed = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert orjson.loads(printed.stdout) == orjson.loads(json.read_bytes())
    assert "would have" in printed.stderr or "RagweirQualityShifted" in printed.stderr
    again = CliRunner(env={"COLUMNS": "200"}).invoke(app, words[:-4], catch_exceptions=False)
    assert again.stdout == done.stdout
    (firing,) = orjson.loads(json.read_bytes())["shifts"]["firings"]
    assert firing["metric"] == "context_support"
    assert "RagweirQualityShifted" in html.read_text()
