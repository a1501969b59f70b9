"""The memory that blame takes for each serving, and the same answer from servings that take less."""

import tracemalloc
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest

from bench.documents import records
from ragweir.metrics.cause import comparisons, servings
from ragweir.metrics.cause.cause import FEWEST, Cause
from ragweir.metrics.criterion import Criterion
from ragweir.streams.analysis.blame import carried_values
from ragweir.streams.analysis.blame.answer_scope import BlameScope
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.blame.blaming import blame_rows, new_codes
from ragweir.streams.analysis.blame.carried_values import CarriedValues
from ragweir.streams.analysis.blame.topic_rows import TopicRows, with_codes
from ragweir.streams.services.shared.row_hashes import RowHashes
from ragweir.streams.settings import Settings

RISK = Criterion("unsupported_risk", 0.5, higher_is_better=False, suite=None)
DAY = BlameScope({}, datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
EVENTS = 10_000
MOST_PER_SERVING = 40
"""Bytes: with the 60 MB of the program a day of 10 million servings takes 460 MB."""


@pytest.fixture
def in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on as small a part of the servings at once as the usual steps are of 10 million."""
    monkeypatch.setattr(comparisons, "_BATCH", 5_000)
    monkeypatch.setattr(servings, "_BLOCK", 4_096)
    monkeypatch.setattr(carried_values, "_TOGETHER", 4_096)


def blamed(values: list[bytes]) -> BlameReport:
    codes = new_codes(Settings())
    rows = TopicRows(RISK, codes, DAY, RowHashes("key"), Settings().blame.max_documents)
    for each in values:
        rows.add(each)
    with_codes(codes, rows, None)
    return blame_rows(RISK, rows, codes)


@pytest.mark.slow
@pytest.mark.usefixtures("in_small_steps")
def test_ten_million_servings_take_less_than_500_mb() -> None:
    """Memory is that of a thousandth of them; it was 69 bytes for each."""
    values = [*records(EVENTS, 20_000)]
    blamed(values)  # What is loaded once is there before.
    tracemalloc.start()
    try:
        blamed(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / (EVENTS * 10) < MOST_PER_SERVING


@pytest.mark.parametrize("steps", ["usual", "small"])
def test_the_report_is_the_one_that_was_made_of_whole_columns(steps: str, request: pytest.FixtureRequest) -> None:
    """Its numbers are those of the version that held each hash of each serving."""
    if steps == "small":
        request.getfixturevalue("in_small_steps")
    found = blamed([*records(EVENTS, 20_000)])
    [named] = found.causes
    assert dict(named.facets) == {"chunk": "#6f8cb47285199cb8", "document": "#f1bbcdcbfa53e0a8"}
    assert named.numbers == Cause(
        values=[170, 345],
        servings=843,
        bad=266,
        excess_bad=pytest.approx(221.77309996092237),
        difference=pytest.approx(0.2717804513171783),
        low=pytest.approx(0.20043045525871647),
        high=pytest.approx(0.34313044737564014),
        p_adjusted=pytest.approx(1.2753082321801165e-97),
        log_p=pytest.approx(-230.17963608482918),
    )
    assert named.bad_examples == ("t/0/59/0", "t/0/76/0", "t/0/263/0")
    assert named.good_examples == ("t/0/35/0", "t/0/129/0", "t/0/66/0")
    assert found.notes == ("364 values with 20 answers or more were tested, 2 of them worse than the rest",)


@pytest.mark.parametrize(("most", "level"), [(1_000, 0), (60, 2)])
def test_servings_are_those_of_a_plain_count(most: int, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes with enough servings get codes, in their order, and others are left out with the levels that are."""
    monkeypatch.setattr(carried_values, "_TOGETHER", 300)
    monkeypatch.setattr(servings, "_BLOCK", 100)
    chance = np.random.default_rng(3)
    held, coded, hashed = CarriedValues(most), set[tuple[int, int]](), list[tuple[int, int]]()
    for _ in range(20):
        rows = chance.integers(0, 500, 100).astype(np.int32)
        hashes = np.minimum(chance.geometric(0.05, 100), 100).astype(np.uint64)
        held.add(rows, (rows % 7).astype(np.int32))
        held.add_hashes(rows, hashes, np.full(100, 3, np.int16))
        coded |= {(row % 7, row) for row in rows.tolist()}
        hashed += zip(hashes.tolist(), rows.tolist(), strict=True)
    held.number()
    assert held.level == level
    kept = [each for each in hashed if each[0] % 2**level == 0]
    enough = sorted(own for own, number in Counter(own for own, _ in kept).items() if number >= FEWEST)
    found, facets = held.enough()
    assert (found.tolist(), {*facets.tolist()}) == (enough, {3})
    held.name_hashes(found, 7)
    codes = {own: 7 + place for place, own in enumerate(enough)}
    expected = coded | {(codes[own], row) for own, row in kept if own in codes}
    pairs = held.taken()
    assert {divmod(each, 2**32) for each in pairs.tolist()} == expected
    assert len(pairs) == 2_000 + sum(own in codes for own, _ in kept)
    assert not len(held.taken())
