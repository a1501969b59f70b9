"""The kernel against the reference: every count of every event is the same, in value and type."""

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import hostile
from bench.interactions import interactions
from ragweir.metrics import native
from ragweir.metrics.counts import NAMES, wording
from ragweir.metrics.laws import corpus
from ragweir.metrics.text.grammar import code_points
from ragweir.metrics.text.tokens import _FOLDS
from ragweir.metrics.text.unicode14 import (
    BRACKETS,
    CURRENCIES,
    LETTERS,
    MARKS,
    NUMERALS,
    SCRIPTS,
    UNASSIGNED,
    UNSPACED,
)
from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from tools.labelled_answers import DATA, SETS

pytest.importorskip("ragweir_kernel", reason="the kernel is not built")

PIECES = [
    *"aZé'’-‑−+.,:;!?/()[]{}$₹€%&*#_\"\n\r\t\u00a0\u2028\u3000\x1f\x85",
    *"0123456789", *"東京かタดี한국שלΣςİ٣²\u0301\ufe0f😀𝐀𠀀\U0001e900\x00\u0378\u200d\u0958\U0001e2ff",
    "हिन्दी", "العربية", "\u1100\u1161", "…", "\ufeff",
    " ", " ", " ", " ", " ", " ", "  ", "12", "25", "2025", "604", "000", "09", "31", "13", "1,200", "0.5", "00",
    "Dec", "may", "May", "September", "Sept", "JUNE", "st", "th", "pm", "a.m.", "AM", "thousand", "Million", "bn", "k",
    "T14:30", "14:30", "2025-12-09", "Dec 9, 2025", "9 Dec 2025", "12/25/2025", "GPT-4", "C-1", "[1]", "[2, 3]",
    "\n1. ", "\n", "M", "x-ray",
    "Dr", "etc", "Mr. ", "The", "Paris", "word", "don't", "1.5 million", "12,34,567", "2 pm", "-$604", "km",
]  # fmt: skip
WORDS = """
    The the plan covers dental care and may might May include two cleanings . ? , ! I do not know don't have information
    about while Although costs Acme Mutual Territory 118 of which it was were founded in unknown none n/a according to
    source tables pdf und der die das John Smith B. C said Dr. Jones own named who appears to no provided documents
    mention Paris is the capital of France because if unless Yes you cannot answer sorry that not specified from 1889
""".split()  # fmt: skip
letters = st.sampled_from([chr(code) for code in range(0x41, 0x2500) if unicodedata.category(chr(code)) != "Cs"])
joined = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
sentences = st.lists(st.sampled_from([*WORDS, *WORDS, *WORDS, *PIECES]), max_size=40).map(" ".join)
texts = st.one_of(joined, sentences, st.text(st.one_of(letters, st.characters(exclude_categories=["Cs"])), max_size=40))
bounds = st.builds(TextLimits, st.integers(0, 40), st.integers(0, 4), st.just(0), st.integers(0, 90))

LIMITS = TextLimits()


@pytest.fixture(scope="module")
def kernel() -> native.NativeCounting:
    return native.counting()


def agree(kernel: native.NativeCounting, event: Interaction, limits: TextLimits = LIMITS) -> None:
    view = View(event, limits)
    if view.is_guarded:
        return
    found, failed = kernel(view), kernel.panics
    assert failed == 0
    wrong = {
        name: (getattr(found, name), getattr(view.reference, name))
        for name in NAMES
        if repr(getattr(found, name)) != repr(getattr(view.reference, name))
    }
    assert wrong == {}


def interaction(fields: dict[str, Any]) -> Interaction:
    return Interaction.model_validate({"event_id": "e", "query": "", "response": ""} | fields)


@st.composite
def events(draw: st.DrawFn) -> Interaction:
    response = draw(texts)
    start = draw(st.integers(0, len(response)))
    parts = st.one_of(texts, st.just(response), st.just(response[start:]), st.just(response.upper()))
    ids, ranks = st.sampled_from(["a", "b", None]), st.integers(1, 4) | st.none()
    contexts = st.lists(st.fixed_dictionaries({"text": parts, "chunk_id": ids, "rank": ranks}), max_size=4)
    fields = {"query": draw(texts), "response": response, "expected": draw(st.lists(parts, max_size=3))}
    return interaction(fields | {"contexts": draw(contexts)})


@pytest.mark.heavy
@settings(max_examples=1_500, deadline=None)
@given(events())
def test_any_texts_have_the_same_counts(kernel: native.NativeCounting, event: Interaction) -> None:
    agree(kernel, event)


@pytest.mark.heavy
@settings(max_examples=1_000, deadline=None)
@given(events(), bounds)
def test_texts_that_are_cut_have_the_same_counts(
    kernel: native.NativeCounting, event: Interaction, limits: TextLimits
) -> None:
    agree(kernel, event, limits)


def test_a_text_may_be_cut_at_each_of_its_tokens(kernel: native.NativeCounting) -> None:
    text = "On Dec 9, 2025 Dr. Jones of Acme Mutual said [1], “东京都 costs −$604.00 at 2 p.m.”! GPT-4 may differ."
    text += " 12/25/2025/7"
    fields = {"query": text, "response": text, "expected": [text, text], "contexts": [{"text": text}, {"text": text}]}
    for limit in range(40):
        agree(kernel, interaction(fields), TextLimits(max_tokens=limit))
        agree(kernel, interaction(fields), TextLimits(max_tokens=25, max_event_tokens=limit * 4))


DATES = ("{0}/{1}/2025", "2025/{0}/{1}", "2025-{0:02}-{1:02}", "{0}:{1:02}", "{1} Dec {0:02}:00", "Dec {1}, 20{0:02}")


@pytest.mark.parametrize("form", DATES)
def test_dates_and_times_end_at_the_same_numbers(kernel: native.NativeCounting, form: str) -> None:
    for first in range(35):
        text = " and ".join(form.format(first, second) for second in [*range(35), 59, 60, 61])
        agree(kernel, interaction({"query": text, "response": text}))


@pytest.mark.slow
def test_parts_of_phrases_are_no_phrases(kernel: native.NativeCounting) -> None:
    """Each phrase without its first or last words, at the start of a text, after a part of itself and before it."""
    for phrase in {*wording.DONT_KNOW, *wording.NON_ANSWERS, *wording.HEDGES, *wording.INDICATORS}:
        each = phrase.split() if isinstance(phrase, str) else phrase
        for cut in range(len(each)):
            first, last = " ".join(each[:cut]), " ".join(each[cut:])
            for text in (last, f"{first}. {last}", f"{first} {first} {last}", f"{last} {first}"):
                agree(kernel, interaction({"response": text}))


def test_many_contexts_have_the_same_counts(kernel: native.NativeCounting) -> None:
    """More than a machine word has bits."""
    texts = [f"Passage {number} covers {number * 7 % 13} dogs in Paris." for number in range(200)]
    for number in (63, 64, 65, 128, 130, 200):
        chosen = texts[:number]
        fields = {"query": chosen[-1], "response": " ".join([chosen[0], chosen[-1], chosen[number // 2], "No cats."])}
        event = interaction(fields | {"contexts": [{"text": each} for each in chosen]})
        agree(kernel, event, TextLimits(max_contexts=number))


def test_full_stops_end_the_same_sentences(kernel: native.NativeCounting) -> None:
    """After abbreviations, which take one full stop, and after marks between which there may be spaces."""
    marks = (".", "..", ". .", "...", ".. .", "?", "!.", ".)", ". -", ",", " ")
    for before in ("Dr", "etc", "A", "U.S", "2025", "word", "東", "[1]", "No"):
        text = "\n".join(f"{before}{mark}{after}" for mark in marks for after in ("Paris", " Paris", " it", " 7", ""))
        agree(kernel, interaction({"query": text, "response": text, "contexts": [{"text": text.lower()}]}))


@pytest.mark.slow
def test_every_character_is_of_the_same_class(kernel: native.NativeCounting) -> None:
    """Each is read alone, between letters, between digits and as a capital before a small letter."""
    sets = (LETTERS, NUMERALS, MARKS, UNSPACED, BRACKETS, CURRENCIES, UNASSIGNED, *SCRIPTS.values())
    spans = [span for lengths in sets for span in code_points(lengths)]
    edges = {code + step for span in (*spans, *native._STABLE) for code in span for step in (-1, 0, 1)}
    codes = sorted(
        code for code in edges | {*_FOLDS} | {*range(0x300)} if 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000
    )
    for start in range(0, len(codes), 64):
        some = [chr(code) for code in codes[start : start + 64]]
        text = "\n".join(f"{each} a{each}b {each}1 1{each}2 {each}{each}a -{each}5 {each}-5 b'{each}" for each in some)
        agree(kernel, interaction({"query": text, "response": text}))


SHAPES = dict(hostile.shapes())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SHAPES if "extractions" not in name])
def test_hostile_events_have_the_same_counts(kernel: native.NativeCounting, name: str) -> None:
    agree(kernel, decode(hostile.event(SHAPES[name](4_000))))


@pytest.mark.slow
def test_events_as_applications_publish_them_have_the_same_counts(kernel: native.NativeCounting) -> None:
    for fields in corpus.ORDINARY:
        agree(kernel, interaction(fields))
    for line in interactions(200):
        agree(kernel, decode(line))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_labelled_answers_have_the_same_counts(kernel: native.NativeCounting, name: str) -> None:
    path = Path(DATA) / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"the labelled answers are not here: {path.name}")
    for line in path.read_text(encoding="utf-8").splitlines():
        agree(kernel, interaction(SETS[name](json.loads(line))[0]))


@pytest.mark.slow
def test_counts_do_not_depend_on_events_before(kernel: native.NativeCounting) -> None:
    """The vocabulary is kept from event to event, and begun anew when it has grown large."""
    rng = random.Random(5)
    ordinary = interaction(corpus.ORDINARY[0])
    for _ in range(30):
        words = " ".join(f"w{rng.randrange(10**9)}" for _ in range(2_000))
        agree(kernel, interaction({"query": words[:500], "response": words, "contexts": [{"text": words[5_000:]}]}))
        agree(kernel, ordinary)


@pytest.mark.slow
def test_stable_characters_are_never_changed_by_normalisation() -> None:
    """They are no part of a composition but its first, and no combining marks, in any order."""
    later = {
        part
        for code in range(0x110000)
        if (parts := unicodedata.decomposition(chr(code)).split()) and parts[0][0] != "<"
        for part in parts[1:]
    }
    for first, last in native._STABLE:
        for code in range(first, last + 1):
            assert unicodedata.is_normalized("NFC", chr(code)), hex(code)
            assert unicodedata.combining(chr(code)) == 0, hex(code)
            assert f"{code:04X}" not in later, hex(code)
            assert not 0x1161 <= code <= 0x11FF, hex(code)
