"""`ragweir compare`: what is found, what is not, and how often it is wrong; and that nothing of it depends on order."""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import scipy
from commands import ragweir, told
from conftest import SharedBroker, create_topic, produce, transaction
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pages import Tags

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.clusters import Floats
from ragweir.metrics.aggregation.paired_differences import RATE, adjusted, differences, interval
from ragweir.metrics.catalogue import everything
from ragweir.streams.analysis.compare.compare import compare
from ragweir.streams.analysis.compare.comparison import Comparison
from ragweir.streams.analysis.compare.gates import Gate
from ragweir.streams.analysis.compare.html_report import page

METRICS = {metric.name: metric for metric in everything()}
BY = ("application", "model", "pipeline_version")
SIMULATIONS = 200

Line = dict[str, Any]


def line(number: int, **fields: Any) -> Line:
    """An evaluation; of five applications, half of them of one model."""
    return {
        "event_id": f"e{number}",
        "event_time": "2026-11-21T10:00:00Z",
        "application": f"app-{number % 5}",
        "model": f"m{number % 2}",
        "pipeline_version": "v1",
        "labels": {"region": "eu" if number % 3 else "us"},
        "scores": {"context_support": 0.5, "rouge_l": 0.25, "total_latency_ms": 900.0, "refusal": 0.0},
        "categories": {"recall_warning": "HIT_RETRIEVAL_LIMIT"},
        "catalogue_version": "1",
        **fields,
    }


def scored(number: int, value: float | None, **fields: Any) -> Line:
    """An evaluation with this context_support."""
    return line(number, scores={"context_support": value}, **fields)


def random_lines(count: int, seed: int, shift: Callable[[int, str], float] = lambda *_: 0.0) -> list[Line]:
    """Evaluations of a system whose answers vary from run to run, by a seed, shifted where a test wants it."""
    steady, chance = random.Random(1), random.Random(seed)
    names = ("context_support", "rouge_l", "token_f1", "context_relevance")
    lines = []
    for number in range(count):
        level = {name: steady.betavariate(5, 2) for name in names}
        scores = {name: level[name] + chance.gauss(0, 0.1) + shift(number, name) for name in names}
        lines.append(line(number, scores=scores))
    return lines


def write(file: Path, lines: Iterable[Line]) -> Path:
    file.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    return file


def compared(folder: Path, a: Iterable[Line], b: Iterable[Line], by: Sequence[str] = BY) -> Comparison:
    return compare((write(folder / "a.jsonl", a), write(folder / "b.jsonl", b)), ("a", "b"), by, METRICS)


def found(comparison: Comparison) -> list[tuple[str, str]]:
    """Which metrics and slices changed significantly."""
    return sorted((each.metric, each.value or "") for each in comparison.changes if each.significant)


def one(before: Floats, after: Floats) -> Any:
    """The difference of all pairs."""
    return differences(before, after, np.zeros(len(before), dtype=np.int64), np.ones((1, 1), dtype=bool))[0]


def test_a_planted_regression_is_found(tmp_path: Path) -> None:
    """Of 5,000 events: 0.02 in one metric everywhere, 0.02 in another in one application; and nothing else."""

    def shift(number: int, name: str) -> float:
        return {"context_support": -0.02, "rouge_l": -0.02 * (number % 5 == 3)}.get(name, 0.0)

    a, b = random_lines(5_000, 2), random_lines(5_000, 3, shift)
    comparison = compared(tmp_path, a, b)
    metrics = {metric.metric: metric for metric in comparison.metrics}
    assert all(each.verdict == "worse" for each in comparison.changes if each.significant)
    whole = metrics["context_support"].whole
    assert whole.difference.low < -0.02 < whole.difference.high < 0
    assert whole.better is not None
    assert whole.worse is not None
    assert whole.better < whole.worse
    assert whole.difference.effect == pytest.approx(-0.02 / (0.1 * 2**0.5), abs=0.03)
    parts = {part.value: part for part in metrics["rouge_l"].slices}
    assert parts["app-3"].difference.mean == pytest.approx(-0.02, abs=0.01)
    assert set(found(comparison)) >= {("context_support", ""), ("rouge_l", "app-3")}
    assert not {name for name, _ in found(comparison)} - {"context_support", "rouge_l"}
    applications = [part for part in metrics["rouge_l"].slices if part.dimension == "application"]
    worst = min(applications, key=lambda part: part.difference.mean)
    assert worst.value == "app-3"
    assert worst.difference.low < -0.02 < worst.difference.high < 0


def test_the_same_configuration_shows_no_change(tmp_path: Path) -> None:
    """Neither where evaluations are the same, nor where a model's answers vary at random."""
    a = random_lines(5_000, 2)
    same = compared(tmp_path, a, reversed(a))
    assert (found(same), same.tests, same.pairs) == ([], 0, 5_000)
    assert all(metric.whole.difference.mean == 0 and not metric.events for metric in same.metrics)
    assert found(compared(tmp_path, a, random_lines(5_000, 4))) == []


def simulated(seed: int, shifted: int) -> tuple[int, int]:
    """A comparison of 12 metrics in 6 overlapping slices: discoveries, and how many of them are false."""
    chance = np.random.default_rng(seed)
    events = 150
    cells = np.arange(events) % 6
    slices = np.array([np.ones(6), *(np.arange(6) % 3 == value for value in range(3)), np.arange(6) < 3,
                       np.arange(6) >= 3], dtype=bool)  # fmt: skip
    p_values: list[float | None] = []
    for metric in range(12):
        sparse = chance.random(events) < (0.08, 0.3, 1.0)[metric % 3]
        change = np.where(sparse, chance.normal(0, 1, events) ** (1, 3)[metric % 2], 0.0) + 0.4 * (metric < shifted)
        p_values += [each.p for each in differences(np.zeros(events), change, cells, slices)]
    hits = [place for place, q in enumerate(adjusted(p_values)) if q is not None and q <= RATE]
    return len(hits), sum(place >= shifted * len(slices) for place in hits)


@pytest.mark.heavy
@pytest.mark.parametrize("shifted", [0, 4])
def test_false_discoveries_are_as_rare_as_promised(shifted: int) -> None:
    """Over 200 comparisons in which nothing changed, or a third of the metrics, within binomial error of 5 %."""
    outcomes = [simulated(seed, shifted) for seed in range(SIMULATIONS)]
    share = sum(false / max(hits, 1) for hits, false in outcomes) / SIMULATIONS
    assert share <= RATE + 2 * (RATE * (1 - RATE) / SIMULATIONS) ** 0.5, share
    assert sum(hits for hits, _ in outcomes) >= shifted * SIMULATIONS


Drawn = tuple[Callable[[np.random.Generator], Floats], float]
COVERED: dict[str, Drawn] = {
    "normal, 30 events": (lambda chance: chance.normal(0.1, 1, 30), 0.1),
    "skewed, 200 events": (lambda chance: chance.exponential(1, 200), 1.0),
    "one-sided, 1 % of 5,000 changed": (lambda chance: (chance.random(5_000) < 0.01) * chance.beta(2, 2, 5_000), 0.005),
    "mostly worse, 5 % of 2,000 changed": (
        lambda chance: (chance.random(2_000) < 0.05) * (chance.beta(5, 2, 2_000) - 0.5),
        0.05 * (5 / 7 - 0.5),
    ),
    "two-sided, 30 % of 300 changed": (lambda chance: (chance.random(300) < 0.3) * chance.normal(0.1, 1, 300), 0.03),
    "a boolean that turns, 15 % of 400": (lambda chance: (chance.random(400) < 0.15) * 1.0, 0.15),
}
FEW: dict[str, Drawn] = {
    "one-sided, 1 % of 1,000 changed": (lambda chance: (chance.random(1_000) < 0.01) * chance.beta(2, 2, 1_000), 0.005),
    "two-sided, 10 % of 200 changed": (lambda chance: (chance.random(200) < 0.1) * chance.normal(0, 1, 200), 0.0),
    "a boolean that turns, 3 % of 400": (lambda chance: (chance.random(400) < 0.03) * 1.0, 0.03),
}
ROUNDS = 2_000
ERROR = 3 * (0.95 * 0.05 / ROUNDS) ** 0.5
"""Three binomial standard errors."""


def covered(drawn: Drawn) -> float:
    """The share of intervals that contain the true mean."""
    draw, mean = drawn
    chance = np.random.default_rng(20)
    hits = 0
    for _ in range(ROUNDS):
        change = draw(chance)
        difference = one(np.zeros_like(change), change)
        hits += difference.low <= mean <= difference.high
    return hits / ROUNDS


@pytest.mark.heavy
@pytest.mark.parametrize("name", COVERED)
def test_intervals_cover_the_mean(name: str) -> None:
    """95 % of 2,000 intervals contain the true mean, within three binomial standard errors."""
    assert covered(COVERED[name]) == pytest.approx(0.95, abs=ERROR)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FEW)
def test_intervals_from_few_changed_events_cover_the_mean_at_least_as_often(name: str) -> None:
    """With some 10 or 20 changed events they may be wider than need be, but not narrower."""
    assert covered(FEW[name]) >= 0.95 - ERROR


def test_without_skewness_intervals_are_students() -> None:
    for count in (10, 30, 1_000):
        expected = scipy.stats.t.interval(0.95, count - 1, 2.0, 3 / count**0.5)
        assert interval(count, count, 2.0, 3.0, 0.0) == pytest.approx(expected, abs=5e-4)


numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.just(0.0)


@given(st.lists(numbers, min_size=6, max_size=9))
def test_few_changed_events_have_the_exact_p_value(changes: list[float]) -> None:
    """The share of all assignments of signs whose sum is at least as far from 0."""
    met = np.array([each for each in changes if abs(each) > 1e-3])
    p = one(np.zeros_like(met), met).p
    if len(met) < 6:
        assert p is None
        return
    sums = [abs(np.dot(signs, np.abs(met))) for signs in product((-1, 1), repeat=len(met))]
    assert p == np.mean(np.array(sums) >= abs(met.sum()) * (1 - 1e-9))


def test_many_changed_events_have_nearly_the_exact_p_value() -> None:
    """Where both ways can be gone they agree."""
    chance = np.random.default_rng(5)
    for shift in (0.0, 0.4, 0.8):
        change = chance.normal(shift, 1, 17)
        sums = np.abs(np.array(list(product((-1, 1), repeat=17)), dtype=np.int8) @ np.abs(change))
        exact = np.mean(sums >= abs(change.sum()) * (1 - 1e-9))
        assert one(np.zeros(17), change).p == pytest.approx(exact, abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusting_agrees_with_scipy(p_values: list[float]) -> None:
    assert adjusted(p_values) == pytest.approx(list(scipy.stats.false_discovery_control(p_values)))


@given(
    arrays(np.float64, 40, elements=st.floats(-1e3, 1e3) | st.just(np.nan)),
    arrays(np.float64, 40, elements=st.floats(-1e3, 1e3) | st.just(np.nan)),
)
def test_slices_are_comparisons_of_their_own(before: Floats, after: Floats) -> None:
    """A slice has the result that its events have by themselves; and to swap the sides turns the signs round."""
    cells = np.arange(40) % 4
    slices = np.array([[1, 1, 1, 1], [1, 0, 1, 0]], dtype=bool)
    part = differences(before, after, cells, slices)[1]
    alone = one(before[::2], after[::2])
    swapped = one(after[::2], before[::2])
    assert (part.pairs, part.rose, part.fell) == (alone.pairs, alone.rose, alone.fell)
    assert (alone.rose, alone.fell) == (swapped.fell, swapped.rose)
    for name in ("before", "after", "mean", "low", "high", "p"):
        expected = getattr(alone, name)
        assert getattr(part, name) == (expected if expected is None else pytest.approx(expected, rel=1e-6, abs=1e-6))
    if alone.low is not None:
        assert (alone.low, alone.high) == pytest.approx((-swapped.high, -swapped.low), rel=1e-6, abs=1e-6)


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    a, b = random_lines(400, 2), random_lines(400, 3, lambda number, _: 0.05 * (number % 2))
    first = compared(tmp_path, a, b)
    random.Random(9).shuffle(a)
    random.Random(8).shuffle(b)
    assert orjson.dumps(compared(tmp_path, a, b)) == orjson.dumps(first)


def test_the_newest_record_of_an_event_counts(tmp_path: Path) -> None:
    """A judged evaluation replaces the scored one, with all it has."""
    a = [scored(number, 0.5) for number in range(20)]
    judged = [scored(number, 0.75, stage="judged", application=None) for number in range(20)]
    comparison = compared(tmp_path, a, [*a, *judged])
    assert (comparison.b.records, comparison.b.events, comparison.pairs) == (40, 20, 20)
    assert comparison.metrics[0].whole.difference.mean == 0.25
    assert {part.value for part in comparison.metrics[0].slices} >= {"app-0 → (none)", "app-4 → (none)"}


def test_what_is_missing_is_counted(tmp_path: Path) -> None:
    """Events of one side, metrics that are null on one side, metrics that one side does not know."""
    a = [scored(number, None if number < 3 else 0.5) for number in range(30)]
    b = [line(number, scores={"context_support": None if number == 29 else 0.5, "new": 1.0}) for number in range(5, 34)]
    comparison = compared(tmp_path, [*a, scored(5, None)], b)
    assert (comparison.a.only, comparison.b.only, comparison.pairs) == (5, 4, 25)
    known, new = comparison.metrics[0], comparison.metrics[1]
    assert (known.metric, known.only_a, known.only_b, known.whole.difference.pairs) == ("context_support", 1, 1, 23)
    assert (new.metric, new.unit, new.only_a, new.only_b, new.whole.difference.pairs) == ("new", None, 0, 25, 0)
    printed = ragweir("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl").stdout.decode()
    assert "25 events on both sides; 5 only in A" in printed
    assert "on one side only: context_support (1 in A, 1 in B), new (0 in A, 25 in B)." in printed


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (400, "independent are 40, effectively 40."),
        (200, "independent are 20, effectively 20; so few make intervals uncertain."),
        (40, "independent are 4, effectively 4; fewer than 5 give no intervals."),
    ],
)
def test_events_of_a_session_or_question_count_together(tmp_path: Path, events: int, told: str) -> None:
    """Ten events each, of which five share a session on the baseline, and five a question on the other side."""

    def keys(number: int, side: str) -> Line:
        group, place = divmod(number, 10)
        field = "session_id" if place < 6 else "question_id"
        both = {"question_id": f"q{group}"} if place == 5 else {}
        return {field: f"q{group}", **both} if (field == "session_id") == (side == "a") else both

    a = [scored(number, 0.5, **keys(number, "a")) for number in range(events)]
    b = [scored(number, 0.5 + number // 10 % 7 / 10, **keys(number, "b")) for number in range(events)]
    comparison = compared(tmp_path, a, b)
    difference = next(each.whole.difference for each in comparison.metrics if each.metric == "context_support")
    assert (difference.clusters, difference.effective_clusters) == (events // 10, pytest.approx(events / 10))
    assert told in str(comparison)
    assert told in page(comparison)
    assert (difference.low is None) == (events == 40)
    failures = comparison.failures("context_support -0.1")
    assert ("effectively 4 are independent; 5 are needed" in "".join(failures)) == (events == 40)


def test_unique_sessions_change_nothing(tmp_path: Path) -> None:
    a, b = random_lines(60, 1), random_lines(60, 2)
    with_ids = [[each | {"session_id": f"s{number}"} for number, each in enumerate(side)] for side in (a, b)]
    assert compared(tmp_path, *with_ids) == compared(tmp_path, a, b)


def test_labels_are_compared_by_their_shares(tmp_path: Path) -> None:
    """Each label's share changes by what went to it less what left it, over the events with labels on both sides."""
    labels = ["X", "X", "Y", None]
    a = [line(number, categories={"kind": labels[number % 4]}) for number in range(80)]
    b = [line(number, categories={"kind": "Y"}) for number in range(80)]
    changes = {change.metric: change for change in compared(tmp_path, a, b).changes if change.dimension is None}
    moved = changes["kind=X"].difference, changes["kind=Y"].difference
    assert [(each.before, each.after, each.pairs) for each in moved] == [
        (pytest.approx(2 / 3), 0, 60),
        (pytest.approx(1 / 3), 1, 60),
    ]
    assert changes["kind=Y"].verdict == "changed"


def test_the_most_changed_events_are_named(tmp_path: Path) -> None:
    """The largest differences first, and of equal ones those whose ids come first."""
    b = [scored(number, 0.5 + 0.1 * (number == 7) - 0.01 * (number % 2)) for number in range(40)]
    events = compared(tmp_path, [scored(number, 0.5) for number in range(40)], b).metrics[0].events
    assert [event.event_id for event in events] == ["e7", "e1", "e11", "e13", "e15"]
    assert (events[0].before, events[0].after) == (0.5, pytest.approx(0.59))


def test_dimensions_have_a_bounded_number_of_values(tmp_path: Path) -> None:
    """The twenty most frequent ones by themselves, the rest together; and labels are dimensions too."""
    a = [scored(number, 0.5, application=f"x{number}") for number in range(100)]
    b = [scored(number, 0.6, application=f"x{number}") for number in range(100)]
    parts = compared(tmp_path, a, b, ("application", "labels.region")).metrics[0].slices
    assert len(parts) == 23
    assert {part.value: part.difference.pairs for part in parts if part.difference.pairs > 1} == {
        "(others)": 80,
        "eu": 66,
        "us": 34,
    }


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        (("1", "1"), ""),
        (("1", "2"), "a has catalogue version 1, b 2: metrics may differ because they are computed differently"),
        (("12", "2"), "a has catalogue version 1 and 2, b 2: metrics may differ because they are computed differently"),
    ],
)
def test_catalogue_versions_that_differ_are_told(tmp_path: Path, versions: tuple[str, str], told: str) -> None:
    a, b = (
        [scored(number, 0.5, catalogue_version=side[number % len(side)]) for number in range(20)] for side in versions
    )
    assert compared(tmp_path, a, b).versions == told


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"5",
        b'{"event_id": "1", "scores": {"a": "secret"}}',
        b'{"event_id": "1", "scores": [1]}',
        b'{"scores": {"a": 1}}',
        b'{"event_id": "", "scores": {"a": 1}}',
        b'{"event_id": "\xff", "scores": {"a": 1}}',
        b'{"event_id": "1", "query": "q"}',
        b"",
    ],
)
def test_what_is_no_evaluation_is_rejected(tmp_path: Path, text: bytes) -> None:
    """In one sentence that quotes nothing."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(text)
    with pytest.raises(PermanentError) as refusal:
        compare((file, file), ("a", "b"), BY, METRICS)
    assert "secret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


GATES = [
    (-0.02, -0.03, 1),
    (-0.02, -0.01, 0),
    (-0.02, 0.03, 0),
    (0.02, 0.03, 2),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("least", "shift", "status"), GATES)
def test_gates_count_changes_for_the_worse(tmp_path: Path, least: float, shift: float, status: int) -> None:
    """Exit status 1 when the change is at least that bad, and 2 when the sign is for the better."""
    a = write(tmp_path / "a.jsonl", random_lines(2_000, 2))
    b = write(tmp_path / "b.jsonl", random_lines(2_000, 3, lambda *_: shift))
    done = ragweir("compare", a, b, "--fail-on", f"context_support {least}")
    assert done.returncode == status, done.stderr
    assert (b"failed: context_support changed by -0.0" in done.stderr) == (status == 1)


@pytest.mark.parametrize(("changes", "fails"), [((100, -90), False), ((5, 5), True), ((0.9, 0.9), False)])
def test_a_gate_needs_an_interval_without_zero(tmp_path: Path, changes: tuple[float, float], fails: bool) -> None:
    """A change that is far enough but may as well be noise passes, and one that is certain but small; lower is better
    for a latency."""
    before = [line(number) for number in range(40)]
    after = [line(number, scores={"total_latency_ms": 900.0 + changes[number % 2]}) for number in range(40)]
    found = compared(tmp_path, before, after)
    metrics = {metric.metric: metric.whole.difference for metric in found.metrics}
    assert (Gate("total_latency_ms", 1.0).failure(metrics) is not None) == fails
    assert "cannot be compared: only 0 events" in str(Gate("rouge_l", -0.1).failure(metrics))


@pytest.mark.parametrize(
    ("metric", "labels", "expected"),
    [
        ("kind=WRONG", ("RIGHT",), None),
        ("kind=WRONG", (None,), "kind=WRONG cannot be compared: only 0 events have kind on both sides"),
        (
            "kind=WRONG",
            tuple(f"l{number}" for number in range(30)),
            "kind=WRONG cannot be compared: kind has too many labels",
        ),
        ("kind=WRONG", ("RIGHT", "WRONG"), "kind=WRONG changed by +0.5 (+0.3381 to +0.6619); the limit is +0.1"),
    ],
)
def test_a_gate_on_a_label(tmp_path: Path, metric: str, labels: Sequence[str | None], expected: str | None) -> None:
    """A label that nobody has did not become more frequent; one that cannot be told of fails."""
    a = [line(number, categories={"kind": labels[0]}) for number in range(40)]
    b = [line(number, categories={"kind": labels[number % len(labels)]}) for number in range(40)]
    if labels == (None,):
        a[0]["categories"] = {"kind": "RIGHT"}
    metrics = {each.metric: each.whole.difference for each in compared(tmp_path, a, b).metrics}
    assert Gate(metric, 0.1).failure(metrics) == expected


@pytest.mark.heavy
@pytest.mark.parametrize(
    "arguments",
    [
        ["a.jsonl", "a.jsonl", "--fail-on", "context_support"],
        ["a.jsonl", "a.jsonl", "--fail-on", "context_support 0"],
        ["a.jsonl", "a.jsonl", "--fail-on", "no_such_metric -1"],
        ["a.jsonl", "a.jsonl", "--by", "labels"],
        ["a.jsonl", "no/such/file"],
        ["a.jsonl"],
    ],
)
def test_wrong_usage_has_status_2(tmp_path: Path, arguments: list[str]) -> None:
    write(tmp_path / "a.jsonl", [line(number) for number in range(20)])
    done = ragweir("compare", *arguments, folder=tmp_path)
    told(done)
    assert done.returncode == 2


HOSTILE = [
    '<script>alert("x")</script>',
    "'\"><img src=x onerror=alert(1)>",
    "</title></style></svg><iframe src=//x>",
    "\x1b]0;title\x07\x1b[2J",
    "&lt;b&gt;",
    "\u202egnp.exe\x00",
    "\u2066\u200f\u200b\x9b2J\u2028\x85\ufeff",
    "é" * 5_000,
]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """As ids, dimensions, labels, metrics, versions and sides: the page has the same elements as of harmless ones."""

    def rows(names: Sequence[str], value: float) -> list[Line]:
        return [
            line(
                number,
                event_id=f"{names[number % len(names)]}{number}",
                application=names[number % len(names)],
                catalogue_version=names[number % len(names)],
                scores=dict.fromkeys(names, value + number / 10000.0),
                categories={name: names[(number + int(value)) % len(names)] for name in names},
            )
            for number in range(140)
        ]

    def tags(names: Sequence[str]) -> Tags:
        files = write(tmp_path / "a.jsonl", rows(names, 0.0)), write(tmp_path / "b.jsonl", rows(names, 1.0))
        parser = Tags()
        text = page(compare(files, (names[0], names[1]), BY, METRICS))
        assert not {"http:", "https:", "url(", "@import", "javascript:"} & set(text.split())
        assert [each for each in text if not each.isprintable() and each != "\n"] == [], "nothing hides or turns a text"
        parser.feed(text)
        return parser

    hostile, harmless = tags(HOSTILE), tags([f"n{number}" for number in range(len(HOSTILE))])
    assert hostile.names == harmless.names
    assert not hostile.names & {"script", "img", "iframe", "link", "object", "image", "use", "a"}
    assert not {name for name in hostile.attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert HOSTILE[0] in hostile.texts
    assert r"\u202egnp.exe\x00" in hostile.texts
    done = ragweir("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--html", tmp_path / "r.html")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert len(done.stdout.decode().splitlines()) < 80
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_everything_is_in_the_json(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", [scored(number, 0.5) for number in range(30)])
    b = write(tmp_path / "[b]*'.jsonl", [scored(number, 0.25) for number in range(30)])
    done = ragweir("compare", a, b, "--json", tmp_path / "r.json", "--by", "labels.region")
    assert (done.returncode, done.stderr) == (0, b"")
    data = orjson.loads((tmp_path / "r.json").read_bytes())
    whole = data["metrics"][0]["whole"]
    assert (whole["verdict"], whole["difference"]["mean"], whole["worse"]) == ("worse", -0.25, 1.0)
    assert {part["value"] for part in data["metrics"][0]["slices"]} == {"eu", "us"}
    assert b"30 events on both sides" in done.stdout


def test_live_and_runs_are_read_from_their_topics(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Over partitions, without tombstones and what was aborted; no group and no topic is left behind."""
    live = create_topic(kafka.bootstrap, f"{prefix}evaluations", 3)
    run = create_topic(kafka.bootstrap, f"{prefix}run.v43.evaluations", 2)
    for number in range(30):
        produce(kafka.bootstrap, live, [orjson.dumps(scored(number, 0.5))], partition=number % 3)
    produce(kafka.bootstrap, run, [orjson.dumps(scored(number, 0.9)) for number in range(30)], partition=1)
    produce(kafka.bootstrap, run, [orjson.dumps(scored(number, 0.25)) for number in range(30)], partition=1)
    produce(kafka.bootstrap, run, [None], partition=0, key=b"x")
    producer = transaction(kafka.bootstrap, f"{prefix}id")
    producer.produce(run, orjson.dumps(scored(99, 0.1)), partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "compare")
    done = ragweir(*shared, "live", "v43", "--json", tmp_path / "r.json")
    assert (done.returncode, done.stderr) == (0, b"")
    data = orjson.loads((tmp_path / "r.json").read_bytes())
    assert [(data[side]["records"], data[side]["events"], data[side]["only"]) for side in "ab"] == [
        (30, 30, 0),
        (60, 30, 0),
    ]
    assert data["metrics"][0]["whole"]["difference"]["mean"] == -0.25
    missing = told(ragweir(*shared, "live", "v44"))
    assert f"v44 is no file here, and there is no topic {prefix}run.v44.evaluations" in missing
