"""`ragweir slo suggest`: objectives that the past has met, with intervals that know clusters."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import typer

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.slo.counting import SloCounter
from ragweir.streams.analysis.slo.rehearsal import rehearse
from ragweir.streams.analysis.slo.suggestion import OBJECTIVES, Clusters, History, Suggestion
from ragweir.streams.commands import app
from ragweir.streams.settings import Slo, WindowSettings

START = datetime(2026, 11, 20, tzinfo=UTC)
RELEVANT = Slo(name="relevant", metric="context_support", at_least=0.5, objective=0.95)
FAITHFUL = Slo(name="faithful", metric="judge_faithfulness", at_least=0.5, objective=0.95)
TOTALS = Aggregator(Catalogue(everything()))


def event(number: int, minute: float, *, bad: bool, **fields: Any) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "event_time": START + timedelta(minutes=minute),
        "application": "bot",
        "scores": {"context_support": 0.25 if bad else 0.75},
        "catalogue_version": "1",
        **fields,
    }


def events(parts: Iterable[tuple[int, float]], seed: int = 1, rate: int = 20) -> list[dict[str, Any]]:
    """Stretches of so many minutes with a share of bad events."""
    chance, found, minute = random.Random(seed), [], 0
    for length, share in parts:
        for place in range(length * rate):
            found.append(event(len(found), minute + place / rate, bad=chance.random() < share))
        minute += length
    return found


def suggestion(rows: Iterable[dict[str, Any]], slo: Slo = RELEVANT) -> Suggestion:
    history = History([slo], WindowSettings(), TOTALS)
    for row in rows:
        history.add(Evaluation.model_validate(row))
    (found,) = history.suggestions()
    return found


@pytest.mark.slow
def test_a_quiet_past_has_a_strict_objective_and_a_drop_a_lenient_one() -> None:
    """The suggested objective never paged and its budget holds; the next stricter one paged, or its budget did not."""
    quiet = suggestion(events([(600, 0.012)]))
    assert (quiet.is_suggested, quiet.slo.objective) == (True, 0.98)
    drop = suggestion(events([(540, 0.012), (60, 0.5)]))
    assert drop.is_suggested
    assert drop.slo.objective < 0.95
    assert {trial.objective for trial in drop.trials if trial.pages} == {each for each in OBJECTIVES if each > 0.9}
    never = suggestion(events([(600, 0.9)]))
    assert (never.is_suggested, never.slo.objective) == (False, OBJECTIVES[0])


@pytest.mark.slow
def test_pages_are_those_of_a_rehearsal() -> None:
    rows = events([(120, 0.01), (60, 0.9), (200, 0.02), (90, 0.35), (60, 0.01)])
    for trial in suggestion(rows).trials:
        slo = RELEVANT.model_copy(update={"objective": trial.objective})
        counter = SloCounter([slo], (), WindowSettings(), TOTALS)
        for row in rows:
            counter.add(Evaluation.model_validate(row))
        found = rehearse(counter, "history")
        firings = found.slos[0].alerts[0].firings
        assert trial.pages == len(firings)
        lasted = sum((each.lasted for each in firings), timedelta()) / (found.end - found.start)
        assert trial.paged == pytest.approx(lasted, abs=0.01)


@pytest.mark.slow
def test_judged_events_are_weighed() -> None:
    """Bad events are judged ten times as often as good ones, and the share is that of all events."""
    chance, rows = random.Random(1), []
    for number in range(20_000):
        bad = chance.random() < 0.05
        probability = 1.0 if bad else 0.1
        if chance.random() < probability:
            decision = {"suites": [{"suite": "rubric", "probability": probability, "status": "judged"}]}
            own = {"stage": "judged", "scores": {"judge_faithfulness": 0.0 if bad else 1.0}, "decision": decision}
            rows.append(event(number, number / 20, bad=bad) | own)
    found = suggestion(rows, FAITHFUL)
    assert found.share == pytest.approx(0.05, abs=0.01)
    assert found.low < 0.05 < found.high


@pytest.mark.heavy
def test_intervals_of_clusters_cover_the_share() -> None:
    """Of sessions whose events are alike; as if they were independent, the interval would hold it far less often."""
    chance = np.random.default_rng(3)
    covered, naive = 0, 0
    times, sessions, share = 150, 100, 0.1
    for _ in range(times):
        own, plain = Clusters(), Clusters()
        # One of a kind: each session is good or bad as a whole, with 1 to 15 events.
        for number, size in enumerate(chance.integers(1, 16, sessions)):
            bad = bool(chance.random() < share)
            for place in range(size):
                event_id = f"{number}-{place}"
                own.add(Evaluation.model_construct(event_id=event_id, session_id=f"s{number}"), 1.0, bad=bad)
                plain.add(Evaluation.model_construct(event_id=event_id), 1.0, bad=bad)
        covered += own.interval()[1] <= share <= own.interval()[2]
        naive += plain.interval()[1] <= share <= plain.interval()[2]
    assert covered / times > 0.93
    assert naive / times < 0.7


def run(*arguments: str | Path) -> None:
    app(["slo", "suggest", *map(str, arguments)], standalone_mode=False)


@pytest.mark.slow
def test_the_command_prints_lines_for_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By value of a dimension, with a bound that is given or that most events meet."""
    rows = [*events([(300, 0.012)]), *(event(-n, n / 20, bad=True, application='b"\x1b') for n in range(1, 2_000))]
    file = tmp_path / "e.jsonl"
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    run("context_support", file, "--at-least", "0.5", "--json", tmp_path / "s.json")
    said = capsys.readouterr().out
    assert "at_least = 0.5\nobjective = 0.98\ndimensions = { " in said
    assert "\x1b" not in said
    assert [each["is_suggested"] for each in orjson.loads((tmp_path / "s.json").read_bytes())] == [True, False]
    run("context_support", file)
    assert "is at least 0.25." in capsys.readouterr().out
    for wrong, error, reason in (
        (("misspelt", file), ConfigurationError, "no numeric metric"),
        (("cost_usd", file), PermanentError, "has a value of cost_usd"),
        (("context_support", file, "--at-least", "1", "--at-most", "2"), typer.BadParameter, "alternatives"),
    ):
        with pytest.raises(error, match=reason):
            run(*wrong)
