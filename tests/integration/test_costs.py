"""What an event can cost: attacks as a table, and a fuzzer through the command line."""

import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from time import process_time
from typing import NamedTuple

import orjson
import pytest
from commands import COMMAND, ROOT, environment
from hypothesis import given
from hypothesis import strategies as st

from bench import hostile
from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.text.text import CHARACTERS_PER_TOKEN, Text, _normalised
from ragweir.metrics.view import TextLimits, View, example

CATALOGUE = Catalogue(everything(packs.SHIPPED))
CANONICAL = (
    "\u0301",
    "\u0323",
    "\u0334",
    "\u0308",
    "\u0345",
    "\u0f71",
    "\u0f73",
    "\u0f81",
    "\u0344",
    "\u20dd",
    "\u1d165",
)
MARKS = st.text(st.sampled_from("".join(CANONICAL)), min_size=30, max_size=90)


@given(st.lists(st.tuples(st.sampled_from(["a", "\u1e69", "\u1100", ""]), MARKS), max_size=3))
def test_long_runs_of_marks_are_normalised_as_by_the_standard_library(parts: list[tuple[str, str]]) -> None:
    """What is put in order beforehand comes out the same."""
    raw = "".join(map("".join, parts))
    assert _normalised(raw) == unicodedata.normalize("NFC", raw)


@pytest.mark.parametrize("unit", ["\u0301\u0323\u0334", "\u0323\u0301", "\u0f73", "\u0344\u0323"])
def test_marks_out_of_order_are_normalised_in_linear_time(unit: str) -> None:
    """The standard library alone takes the square of their number: a minute for these, and hours for a MiB."""
    began = process_time()
    Text(f"a{unit * (200_000 // len(unit))}")
    assert process_time() - began < 5


@pytest.mark.parametrize("limit", [0, 1, 50, 500])
@pytest.mark.parametrize("kind", hostile.TEXTS)
def test_a_text_is_read_as_far_as_it_is_wanted_and_no_otherwise(kind: str, limit: int) -> None:
    """The first tokens are those of the whole text, wherever reading stops."""
    raw = hostile.TEXTS[kind](3_000)[: limit * CHARACTERS_PER_TOKEN]
    whole, cut = Text(raw, 10**6), Text(raw, limit)
    assert cut.tokens == whole.tokens[:limit]
    assert cut.kinds == whole.kinds[:limit]
    assert cut.cut == (len(whole.tokens) > limit)


def test_a_text_without_tokens_is_cut_all_the_same() -> None:
    """White space and signs are bounded by the characters, and the cut is told."""
    for raw in (" " * 1_000, "()" * 500, "\n" * 1_000):
        assert (Text(raw, 10).cut, len(Text(raw, 10).text)) == (True, 10 * CHARACTERS_PER_TOKEN)
        assert not Text(raw, 100).cut


def test_all_texts_of_an_event_share_one_budget() -> None:
    """Query and response come first, then expected answers, contexts and extractions; what is cut is told."""
    texts = {"query": "q " * 10, "response": "r " * 20}
    lists = {"expected": ["e " * 30] * 2, "contexts": [{"text": "c " * 25}] * 3}
    limits = TextLimits(max_event_tokens=130)
    view = View(example(**texts, **lists).interaction, limits)
    assert list(map(len, view.contexts)) == [25, 15, 0], "in whatever order they are asked for"
    assert list(map(len, view.expected)) == [30, 30]
    assert view.cuts == ("contexts_cut",)
    assert View(example(**texts, **lists).interaction, TextLimits(max_event_tokens=165)).cuts == ()
    assert CATALOGUE.score(View(example(**texts, **lists).interaction, TextLimits(max_event_tokens=1))).raised == []


EXTRACTED = {
    "many numbers": [{"field": "f", "value": [1.7e308] * 5_000, "evidence": "1"}],
    "many words": [{"field": "f", "value": ["a"] * 2_100, "evidence": "a"}] * 2,
    "a long text": [{"field": "f", "value": "a", "evidence": "b " * 20_001}],
    "many texts": [{"field": "f", "value": "a", "evidence": "b " * 15_000}] * 4,
}


@pytest.mark.parametrize("extractions", EXTRACTED.values(), ids=EXTRACTED)
def test_extractions_over_the_limits_are_null(extractions: list[dict[str, object]]) -> None:
    """A part of them would mislead."""
    scored = CATALOGUE.score(example(extractions=extractions))
    names = [metric.name for metric in CATALOGUE.free.values() if metric.group == "extraction"]
    reason = "the extractions hold more texts, or longer ones, than the limits allow"
    assert {name: scored.reasons.get(name) for name in names} == dict.fromkeys(names, reason)
    assert CATALOGUE.explain(example(extractions=extractions)).keys().isdisjoint(names)


def test_a_list_of_too_many_items_is_null() -> None:
    """A question pack reads 2,000 list items of an event."""
    items = "* hail\n" * 1_000
    few = example(response=items, expected=items, question_id="EF_1")
    many = example(response=items + "* wind", expected=items, question_id="EF_1")
    assert CATALOGUE.score(few).scores["EF_1.rules_coverage"] == 1
    assert CATALOGUE.score(many).reasons["EF_1.rules_found"] == "the texts have over 2,000 list items together"


@pytest.mark.heavy
def test_no_list_or_text_of_128_kib_takes_a_second(tmp_path: Path) -> None:
    """A small part of `bench/worst.py`; a product of two lengths shows in it already."""
    some = (": 32 answers alike", "marks that take turns: response", "answers and a long response", *hostile.PRODUCTS)
    assert_within_limits(tmp_path, "--bytes", str(128 * 1024), *some)


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 16])
def test_no_shape_costs_more_than_a_second_and_200_mb_per_mib(tmp_path: Path, size: int) -> None:
    """The worst of all events that the generator makes."""
    assert_within_limits(tmp_path, "--bytes", str(size * 1024 * 1024))


def assert_within_limits(folder: Path, *arguments: str) -> None:
    with (folder / "table").open("w+b") as table:
        command = [sys.executable, "-m", "bench.worst", "--rows", "5", *arguments]
        done = subprocess.run(command, stdout=table, stderr=subprocess.STDOUT, check=False, env=environment())
    assert done.returncode == 0, (folder / "table").read_text()


class Run(NamedTuple):
    """What became of one run of `ragweir score`."""

    status: int
    cpu_s: float
    memory_mb: float
    said: str
    evaluations: Path


# Linux counts the memory of whoever starts a program as the program's own, so that a small one starts it.
_MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def scored(folder: Path, lines: Path) -> Run:
    """`ragweir score` over a file, in a process of its own."""
    out = folder / "evaluations.jsonl"
    command = [*COMMAND, "score", lines, "--out", out, "--windows", folder / "windows.jsonl"]
    with (folder / "said").open("wb") as said:
        measured = subprocess.run(
            [sys.executable, "-c", _MEASURE, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=said,
            check=True,
            cwd=ROOT,
            env=environment(),
        )
    status, cpu_s, memory_mb = measured.stdout.split()
    return Run(int(status), float(cpu_s), float(memory_mb), (folder / "said").read_text(), out)


@pytest.mark.heavy
@pytest.mark.parametrize("number", [1_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_odd_and_hostile_events_through_the_command_line(tmp_path: Path, number: int) -> None:
    """Every line has its evaluation or its reason, no metric raises, and time and memory stay within bounds."""
    file = tmp_path / "odd.jsonl"
    size = 0
    with file.open("wb") as sink:
        for line in hostile.lines(number):
            size += sink.write(line + b"\n")
    run = scored(tmp_path, file)
    assert run.status == 0, run.said[-2_000:]
    assert "Traceback" not in run.said
    assert " raised " not in run.said
    told = re.search(r"^(\d+) scored, (\d+) rejected, (\d+) duplicates left out", run.said, re.MULTILINE)
    assert told, run.said[-2_000:]
    evaluated, refused, duplicates = map(int, told.groups())
    assert evaluated + refused + duplicates == number
    grouped = re.search(r"^([\d,]+) rejected, by reason:\n((?: +[\d,]+  .*\n)+)", run.said, re.MULTILINE)
    assert grouped, run.said[-2_000:]
    counts = re.findall(r"^ +([\d,]+)  ", grouped[2], re.MULTILINE)
    assert refused == int(grouped[1].replace(",", "")) == sum(int(count.replace(",", "")) for count in counts)
    assert min(evaluated, refused, duplicates) > number / 100, "the generator makes some of each"
    raised: Counter[str] = Counter()
    written = 0
    with run.evaluations.open("rb") as source:
        for line in source:
            written += 1
            reasons = orjson.loads(line)["reasons"].items()
            raised.update(name for name, reason in reasons if reason.startswith("the metric raised"))
    assert written == evaluated
    assert not raised
    print(f"{number} lines, {size / 1e6:.1f} MB: {run.cpu_s:.1f} s, {run.memory_mb:.0f} MB")
    assert run.cpu_s < 10 + size / 2**20 + number * 0.005, "a second per MiB, and 5 ms for each line"
    assert run.memory_mb < 400
