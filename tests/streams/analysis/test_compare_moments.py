"""`ragweir compare` draws both means over time, and the moment from which they differ."""

import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pytest

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.analysis.compare.compare import compare
from ragweir.streams.analysis.compare.comparison import Comparison
from ragweir.streams.analysis.compare.html_report import page
from ragweir.streams.analysis.compare.moments import NO_TIME, timeline

START = datetime(2026, 3, 1, tzinfo=UTC)
EVENTS = 900


def compared(folder: Path, drop: Callable[[int], float], time: Callable[[int], object]) -> Comparison:
    """Compare evaluations of the same events, of which the second side is worse by a drop."""
    chance = np.random.default_rng(5)
    support = chance.uniform(0.5, 0.9, EVENTS)
    noise = chance.normal(0, 0.02, EVENTS)
    files = folder / "a.jsonl", folder / "b.jsonl"
    for place, file in enumerate(files):
        lines = [
            {
                "event_id": f"e{number}",
                "event_time": time(number),
                "scores": {
                    "context_support": float(support[number] + place * (noise[number] - drop(number))),
                    "token_f1": 0.5,
                },
            }
            for number in chance.permutation(EVENTS).tolist()
        ]
        file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return compare(files, ("old", "new"), (), Catalogue(everything()).metrics)


def minute(number: int) -> str:
    return (START + timedelta(minutes=number)).isoformat().replace("+00:00", "Z")


def test_the_moment_is_that_of_the_drop(tmp_path: Path) -> None:
    found = compared(tmp_path, lambda number: 0.1 if number >= 600 else 0.0, minute)
    own = {metric.metric: metric.timeline for metric in found.metrics}
    assert own["token_f1"] is None
    drawn = own["context_support"]
    assert drawn is not None
    assert drawn.began is not None
    assert abs(drawn.began - (START + timedelta(minutes=600))) <= timedelta(minutes=5)
    assert not drawn.from_start
    assert sum(point.pairs for point in drawn.points) == EVENTS
    text = page(found)
    assert f"they differ most probably from {drawn.began:%Y-%m-%d %H:%M} UTC on" in text
    assert len(re.findall('class="moment"', text)) == 1
    assert asdict(found)["metrics"][0]["timeline"]["began"] == drawn.began


def test_reports_have_colours_for_light_and_for_dark(tmp_path: Path) -> None:
    """All colours are variables, each with a value for both."""
    text = page(compared(tmp_path, lambda _: 0.1, minute))
    light, dark = (set(re.findall(r"--\w+(?=:)", part)) for part in re.findall(r":root \{(.*?)\}", text, re.DOTALL))
    used = set(re.findall(r"var\((--\w+)\)", text))
    assert used <= light == dark
    assert "prefers-color-scheme: dark" in text
    style = text[text.index("body {") : text.index("</style>")]
    assert re.findall(r"#[0-9a-f]{3,6}\b", style + text[text.index("<body>") :]) == []


def test_a_difference_from_the_first_event_on_is_named_as_such(tmp_path: Path) -> None:
    found = compared(tmp_path, lambda _: 0.1, minute)
    assert "they differ from the first events on" in page(found)


@pytest.mark.parametrize("time", [lambda _: None, lambda _: "soon", lambda _: 7, lambda _: "2026-03-01T00:00:00Z"])
def test_without_times_nothing_is_drawn(tmp_path: Path, time: Callable[[int], object]) -> None:
    found = compared(tmp_path, lambda _: 0.1, time)
    assert found.metrics[0].whole.significant
    assert all(metric.timeline is None for metric in found.metrics)
    assert "Since when" not in page(found)


def test_times_with_any_offset_are_the_same_moment(tmp_path: Path) -> None:
    found = compared(tmp_path, lambda number: 0.1 if number >= 600 else 0.0, lambda n: minute(n).replace("Z", "+02:00"))
    (drawn,) = [metric.timeline for metric in found.metrics if metric.timeline]
    assert drawn.points[0].start == START - timedelta(hours=2)


def test_no_begin_is_shown_where_none_is_certain() -> None:
    chance = np.random.default_rng(1)
    times = np.arange(400) * 60_000
    before = chance.random(400)
    found = timeline(times, before, before + chance.normal(0, 0.1, 400))
    assert found is not None
    assert found.began is None
    assert timeline(np.full(400, NO_TIME), before, before) is None


@pytest.mark.slow
def test_moments_are_seldom_found_where_there_are_none() -> None:
    chance = np.random.default_rng(2)
    times = np.arange(300)
    wrong = 0
    for _ in range(200):
        found = timeline(times * 60_000, np.full(300, 0.5), 0.5 + chance.normal(0, 0.1, 300))
        wrong += found is not None and found.began is not None
    assert wrong <= 10
