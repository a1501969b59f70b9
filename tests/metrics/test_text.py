"""The tokenised view, case by case, and against a plain scanner that is written from the grammar's text alone."""

import random
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweir.metrics.text import grammar, tokens, unicode14
from ragweir.metrics.text.grammar import code_points
from ragweir.metrics.text.phrases import Phrases
from ragweir.metrics.text.text import Text
from ragweir.metrics.text.tokens import fold
from ragweir.metrics.text.words import ABBREVIATIONS, MONTHS, STOP_WORDS

ROOT = Path(__file__).parents[2]


def read(text: str) -> str:
    """The tokens with their kinds, the way the case tables write them."""
    found = Text(text)
    return " ".join(f"{kind}:{token}" for kind, token in zip(found.kinds, found.tokens, strict=True))


CASES = {
    # Dates
    "Dec 9, 2025": "D:2025-12-09",
    "December 9, 2025": "D:2025-12-09",
    "2025-12-09": "D:2025-12-09",
    "as of DECEMBER 9th 2025.": "W:as W:of D:2025-12-09",
    "9 December 2025": "D:2025-12-09",
    "9th Sept. 2025": "D:2025-09-09",
    "09-Dec-2025": "D:2025-12-09",
    "9 December, 2025": "D:2025-12-09",
    "Dec  9,  2025": "D:2025-12-09",
    "(Dec\u00a09,2025)": "D:2025-12-09",
    "May 1 2025": "D:2025-05-01",
    "May 2025": "W:may N:2025",
    "Dec 32, 2025": "W:dec N:32 N:2025",
    "Dec 9, 20255": "W:dec N:9 N:20255",
    "Dec\n9, 2025": "W:dec N:9 N:2025",
    "Decem 9, 2025": "W:decem N:9 N:2025",
    "31/12/2025": "D:2025-12-31",
    "12/31/2025": "D:2025-12-31",
    "5/13/2025": "D:2025-05-13",
    "12/11/2025": "N:12 N:11 N:2025",
    "13/14/2025": "N:13 N:14 N:2025",
    "2025/12/09": "D:2025-12-09",
    "2025-13-01": "N:2025 N:13 N:1",
    "2025-12-091": "N:2025 N:12 N:91",
    "2025-12-09T14:30:00Z": "D:2025-12-09 T:14:30 W:z",
    # Clock times
    "14:30": "T:14:30",
    "2 pm": "T:14:00",
    "2:05 p.m. sharp": "T:14:05 W:sharp",
    "12 AM": "T:00:00",
    "12pm": "T:12:00",
    "9:07:30": "T:09:07:30",
    "24:30": "N:24 N:30",
    "14:60": "N:14 N:60",
    "14:300": "N:14 N:300",
    "2 pmx": "N:2 W:pmx",
    "13 pm": "N:13 W:pm",
    "13:30 pm": "T:13:30",
    # Identifiers
    "Rule C-1": "W:rule I:c-1",
    "GPT-4o": "I:gpt-4o",
    "GPT\u20114": "I:gpt-4",
    "COVID-19": "I:covid-19",
    "state-of-the-art": "W:state W:of W:the W:art",
    "X-ray": "W:x W:ray",
    "GPT-4-turbo": "I:gpt-4 W:turbo",
    "H5N1-2": "W:h5n1 N:2",
    "C- 1": "W:c N:1",
    # Numbers
    "$604 604.00 $604.0": "N:604 N:604 N:604",
    "1,200 1200 01200": "N:1200 N:1200 N:1200",
    "-0.133 0.133": "N:-0.133 N:0.133",
    "\u22120.133": "N:-0.133",
    "0.305%": "N:0.305",
    "₹842.50": "N:842.5",
    "-$604": "N:-604",
    "$-604": "N:-604",
    "-$-604": "N:-604",
    "(-5) [-5] ({-5})": "N:-5 N:-5 N:-5",
    "5-10": "N:5 N:10",
    "a-5": "I:a-5",
    "5 -10": "N:5 N:-10",
    '"-5': "N:5",
    "--5": "N:5",
    "+5": "N:5",
    "-0 -0.00": "N:0 N:0",
    ".5 $.50 -.5": "N:0.5 N:0.5 N:-0.5",
    "a.5": "W:a N:5",
    "1,2005": "N:1 N:2005",
    "1234,567": "N:1234 N:567",
    "1,234,567.80": "N:1234567.8",
    "12,34,567": "N:1234567",
    "1,2,3": "N:1 N:2 N:3",
    "1,10,20,30,40,50,60,700": "N:1102030405060700",
    "1,1,10,20,30,40,50,60,700": "N:1 N:1102030405060700",
    "1,10,20,30,40,50,60,70,800": "N:1 N:10203040506070800",
    "1.5.2": "N:1.5 N:2",
    "5.": "N:5",
    "x\n5.\ny": "W:x N:5 W:y",
    "1.5 million 1500000": "N:1500000 N:1500000",
    "3k 3 k 3K": "N:3000 N:3 W:k N:3 W:k",
    "2bn 2 Billion": "N:2000000000 N:2000000000",
    "$5M 5m": "N:5000000 N:5 W:m",
    "10 thousand": "N:10000",
    "0.5 thousand": "N:500",
    "1.2345k": "N:1234.5",
    "3km 10km": "N:3 W:km N:10 W:km",
    "5 millions": "N:5 W:millions",
    "3k東": "N:3 W:k P:東",
    "1e999": "N:1 W:e999",
    "٣ ५": "W:٣ W:५",
    # Words
    "Don’t DON'T": "W:don't W:don't",
    "rock'n'roll": "W:rock'n'roll",
    "dogs' 'tis": "W:dogs W:tis",
    "it''s": "W:it W:s",
    "h2'o": "W:h2 W:o",
    "x² m\u0301": "W:x² W:ḿ",
    "İstanbul ΣΟΦΟΣ σοφος": "W:istanbul W:σοφοσ W:σοφοσ",
    "cafe\u0301 café": "W:café W:café",
    "naïve_snake": "W:naïve W:snake",
    "❤\ufe0f 😀 \u0301": "",
    "שלום عليكم": "W:שלום W:عليكم",
    "한국 서울": "W:한국 W:서울",
    # Pairs
    "東京都": "P:東京 P:京都",
    "東": "P:東",
    "GPT模型です": "W:gpt P:模型 P:型で P:です",
    "第3章": "P:第 N:3 P:章",
    "ดี": "P:ดี",
    "データ": "P:デー P:ータ",
    # No tokens
    "1. One\n2) Two\n * three\n- 4": "W:one W:two W:three N:4",
    "  12. One": "W:one",
    "x\n\t 1. One": "W:x W:one",
    "1.5 One": "N:1.5 W:one",
    "2025. One": "N:2025 W:one",
    "One 2) two": "W:one N:2 W:two",
    "x\n1. ": "W:x",
    "so [1], [2][3] and [ 4 , 5 ]": "W:so W:and",
    "[2025] [1;2] [a1]": "N:2025 N:1 N:2 W:a1",
    "": "",
    "\x00\ud800\udfff \U0010ffff": "",
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_tokens_are_those_of_the_rule(text: str, expected: str) -> None:
    assert read(text) == expected
    assert read(f"(\n{text}\n)") == expected


SENTENCES = {
    "One. Two! Three? Four; five": ["one", "two", "three", "four", "five"],
    "一。二！三？四": ["一", "二", "三", "四"],
    "سلام؟ नमस्ते। one\ntwo\r\nthree\u2028four": ["سلام", "नमस्ते", "one", "two", "three", "four"],
    "Pay 1.5 now. Done.": ["pay 1.5 now", "done"],
    "Dr. Smith and J. Doe met. See example.com etc. for e.g. this.": [
        "dr smith and j doe met",
        "see example com etc for e g this",
    ],
    "It was me. I left.": ["it was me", "i left"],
    "Mr! No": ["mr", "no"],
    "1. One\n2. Two": ["one", "two"],
    "... !?": [],
    "Apples etc... More": ["apples etc", "more"],
}


@pytest.mark.parametrize(("text", "expected"), SENTENCES.items())
def test_sentences_end_where_the_rule_says(text: str, expected: list[str]) -> None:
    found = Text(text)
    assert [" ".join(found.tokens[start:stop]) for start, stop in found.sentences] == expected


PHRASES = {
    "The rate of Territory 118 rose": {("territory", "118")},
    "by Rule C-1 and then": {("rule", "c-1")},
    "Territory 118 rose": {("territory", "118")},
    "Paris is big": set(),
    "I like Paris": {("paris",)},
    "(Paris) is": set(),
    "The HDFC Top 100 Fund, Bank of India": {("hdfc", "top", "100", "fund"), ("bank",), ("india",)},
    "see Paris, Berlin": {("paris",), ("berlin",)},
    "met Dr. Smith. Jones left": {("dr", "smith")},
    "met Anne-Marie": {("anne", "marie")},
    "about Bank The End": {("bank", "the", "end")},
    "in Paris I saw": {("paris",)},
    "118 Territory": {("territory",)},
    "since January 5 of Dec 9, 2025 Paris": {("january", "5"), ("paris",)},
    "um iPhone": set(),
    "the Élysée Palace": {("élysée", "palace")},
}


@pytest.mark.parametrize(("text", "expected"), PHRASES.items())
def test_phrases_are_runs_of_capitalised_words(text: str, expected: set[tuple[str, ...]]) -> None:
    assert Text(text).phrases == expected


def test_content_leaves_out_stop_words_and_words_of_two_letters() -> None:
    found = Text("The territories of EU and GPT-4 on 2025-12-09 at 14:30 by 7 km, don't 서울 東京")
    assert found.content == ["territories", "gpt-4", "2025-12-09", "14:30", "7", "서울", "東京"]
    assert found.stems == {"terri", "gpt-4", "2025-12-09", "14:30", "7", "서울", "東京"}
    assert found.content_set == set(found.content)


def test_sentence_stems_follow_the_sentences() -> None:
    assert Text("Rates rise. And so. Taxes fall!").sentence_stems == (
        frozenset({"rates", "rise"}),
        frozenset(),
        frozenset({"taxes", "fall"}),
    )


def test_numbers_dates_and_times_are_kept_apart() -> None:
    found = Text("On Dec 9, 2025 at 2 pm 604 of GPT-4")
    assert found.numbers == {"604"}
    assert found.dates == {"2025-12-09"}
    assert found.times == {"14:00"}


def test_citations_are_listed_in_order() -> None:
    assert Text("a [2][1] b [3, 10] c [0] [1234] [x] [1").citations == (2, 1, 3, 10, 0)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", None),
        ("604 😀", None),
        ("Größe", "Latin"),
        ("Привет мир ok", "Cyrillic"),
        ("東京はきれい", "Han"),
        ("مرحبا", "Arabic"),
        ("สวัสดี", "Thai"),
        ("안녕", "Hangul"),
        ("नमस्ते", "Devanagari"),
    ],
)
def test_script_is_that_of_most_letters(text: str, script: str | None) -> None:
    assert Text(text).script == script


@pytest.mark.parametrize(
    ("text", "supported"),
    [
        ("", True),
        ("604", True),
        ("Territory 118, Rule C-1", True),
        ("Los Angeles", True),
        ("The Las Vegas office of Le Figaro is in Los Angeles and it is open.", True),
        ("I don't know.", True),
        ("La política de la empresa no permite devoluciones en ese caso.", False),
        ("Je ne sais pas.", False),
        ("Das weiß ich nicht, aber es ist möglich.", False),
        ("Я не знаю.", False),
        ("知らない", False),
        (" ".join(["talo", "auto", "kissa"] * 7), False),
        (" ".join(["talo", "auto"] * 10), True),
    ],
)
def test_only_what_may_be_english_is_supported(text: str, supported: bool) -> None:
    assert Text(text).is_supported is supported


def test_a_phrase_is_found_where_it_stands_and_nowhere_else() -> None:
    there = {("territory", "118"), ("c-1", "rule"), ("118",)}
    elsewhere = {("118", "territory"), ("11",), ("territory", "11")}
    found = Text("Territory 118 and Rule C-1, rule 118")
    assert Phrases(there | elsewhere).found_in([Text("nothing"), found]) == there
    assert set(Phrases(there | elsewhere).occurrences(found)) == there


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)), st.text("abc ", max_size=40))
def test_phrases_that_end_in_phrases_are_all_found(phrases: list[tuple[str, ...]], raw: str) -> None:
    text = Text(raw)
    runs = [tuple(text.tokens[start:stop]) for start in range(len(text)) for stop in range(start + 1, len(text) + 1)]
    automaton = Phrases(phrases)
    expected = {run: count for run, count in Counter(runs).items() if run in phrases}
    assert Counter(automaton.occurrences(text)) == expected
    assert automaton.found_in([text]) == set(runs) & set(phrases)
    assert automaton.occur_in(text) == bool(set(runs) & set(phrases))


@pytest.mark.parametrize("limit", range(9))
def test_the_limit_cuts_behind_its_last_token(limit: int) -> None:
    raw = "One, (two) 12/25/2025/7 東京都 end. Dr."
    whole, part = Text(raw), Text(raw, limit)
    assert len(whole.tokens) == 10
    assert (part.cut, whole.cut) == (True, False)
    assert part.tokens == whole.tokens[:limit]
    assert part.kinds == whole.kinds[:limit]
    assert part.spans == whole.spans[:limit]
    assert part.content == [token for token in whole.content if token in part.tokens]
    assert part.text == whole.text[: part.spans[-1][1] if limit else 0]
    assert all(start < stop <= limit for start, stop in part.sentences)


def test_a_stem_is_a_words_first_five_code_points() -> None:
    assert Text("The territory rate of 2025-12-09").token_stems == ["", "terri", "rate", "", "2025-12-09"]


# The grammar once more, without patterns --------------------------------------------------------------------------

L, N, M, U, B, C = (
    {chr(code) for first, last in code_points(lengths) for code in range(first, last + 1)}
    for lengths in (
        unicode14.LETTERS,
        unicode14.NUMERALS,
        unicode14.MARKS,
        unicode14.UNSPACED,
        unicode14.BRACKETS,
        unicode14.CURRENCIES,
    )
)
W = L | N | M
L_M, W_U, U_M = L | M, W | U, U | M
D = set("0123456789")
NOT_ASCII_N = N - D
ASCII_LETTERS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
H = set(" \t\u00a0\u202f")
R = set("\n\x0b\x0c\r\x85\u2028\u2029")
Z = H | R | set("\x1c\x1d\x1e\x1f\u1680\u205f\u3000") | {chr(code) for code in range(0x2000, 0x200B)}
BEFORE_SIGN = Z | B | C
APOSTROPHE, HYPHEN, SIGN, END = set("'\u2019"), set("-\u2010\u2011"), set("+-\u2212"), set("!?;。！？؟।")


class Scanner:
    """One text and the rules; each rule gives the end of its match at a position, or None."""

    def __init__(self, text: str) -> None:
        self.text = text

    def at(self, i: int) -> str:
        return self.text[i] if 0 <= i < len(self.text) else ""

    def run(self, i: int, allowed: set[str], most: int = 10**9) -> int:
        start = i
        while self.at(i) in allowed and i < len(self.text) and i - start < most:
            i += 1
        return i

    def digits(self, i: int, least: int, most: int) -> int | None:
        end = self.run(i, D, most)
        return end if end - i >= least else None

    def value(self, i: int, low: int, high: int, *, both: bool = False) -> int | None:
        """The end of a number from low to high, two digits before one (both: two only), whatever follows."""
        for width in (2,) if both else (2, 1):
            end = self.digits(i, width, width)
            if end is not None and low <= int(self.text[i:end]) <= high:
                return end
        return None

    def no_digit(self, i: int | None) -> int | None:
        return None if i is None or self.is_in(i, D) else i

    def is_in(self, i: int, allowed: set[str]) -> bool:
        return i < len(self.text) and i >= 0 and self.text[i] in allowed

    def name(self, i: int, names: list[str]) -> int | None:
        for name in sorted(names, key=len, reverse=True):
            part = self.text[i : i + len(name)]
            if part.isascii() and part.lower() == name:
                return i + len(name)
        return None

    def month(self, i: int) -> int | None:
        end = self.name(i, list(MONTHS))
        return None if end is None else end + (self.at(end) == ".")

    def day_of_month(self, i: int) -> int | None:
        end = self.no_digit(self.value(i, 1, 31))
        if end is None or self.text[end : end + 2] not in {"st", "nd", "rd", "th"}:
            return end
        return end if self.is_in(end + 2, ASCII_LETTERS | D) else end + 2

    def gap(self, i: int) -> int | None:
        end = self.run(i, H)
        return end if end > i else (i + 1 if self.at(i) == "-" else None)

    def to_year(self, i: int) -> int | None:
        return self.run(i + 1, H) if self.at(i) == "," else self.gap(i)

    def year(self, i: int) -> int | None:
        return self.no_digit(self.digits(i, 4, 4))

    def chain(self, i: int | None, *steps: Callable[[int], int | None]) -> int | None:
        for step in steps:
            if i is None:
                return None
            i = step(i)
        return i

    def literal(self, sign: str) -> Callable[[int], int | None]:
        return lambda i: i + 1 if self.at(i) == sign else None

    def month_day_year(self, i: int) -> int | None:
        return self.chain(i, self.month, self.gap, self.day_of_month, self.to_year, self.year)

    def tails(self, i: int) -> int:
        while self.is_in(i, APOSTROPHE) and self.is_in(i - 1, L_M) and self.is_in(i + 1, L):
            i = self.run(i + 1, W)
        return i

    def identifier(self, i: int) -> int | None:
        if not self.is_in(i, L):
            return None
        hyphen = self.run(i, L_M)
        end = self.run(hyphen + 1, W)
        has_digit = any(letter in D for letter in self.text[hyphen + 1 : end])
        return end if self.is_in(hyphen, HYPHEN) and has_digit else None

    def word(self, i: int) -> int | None:
        return self.tails(self.run(i, W)) if self.is_in(i, L) else None

    def list_mark(self, i: int) -> int | None:
        end = self.digits(i, 1, 3)
        if end is None or self.at(end) not in {".", ")"}:
            return None
        return end + 1 if self.is_in(end + 1, H) else None

    def line(self, i: int) -> int | None:
        if not self.is_in(i, R):
            return None
        end = self.run(i, Z)
        return self.list_mark(end) or end

    def full_stop(self, i: int) -> int | None:
        lower = {letter for letter in ASCII_LETTERS if letter.islower()}
        return i + 1 if self.at(i) == "." and not self.is_in(i + 1, lower | D) else None

    def iso(self, i: int) -> int | None:
        end = self.chain(
            self.digits(i, 4, 4),
            self.literal("-"),
            lambda at: self.value(at, 1, 12, both=True),
            self.literal("-"),
            lambda at: self.value(at, 1, 31, both=True),
            self.no_digit,
        )
        if end is not None and self.at(end) == "T" and self.digits(end + 1, 2, 2) and self.at(end + 3) == ":":
            end += 1
        return end

    def day_month_year(self, i: int) -> int | None:
        return self.chain(i, self.day_of_month, self.gap, self.month, self.to_year, self.year)

    def slashed(self, i: int) -> int | None:
        for first, second in (((1, 12), (13, 31)), ((13, 31), (1, 12))):
            middle = self.chain(self.value(i, *first), self.literal("/"))
            end = None if middle is None else self.value(middle, *second)
            end = self.chain(end, self.literal("/"), self.year)
            if end is not None and not (self.at(end) == "/" and self.is_in(end + 1, D)):
                return end
        return None

    def year_slashed(self, i: int) -> int | None:
        slash = self.literal("/")
        return self.chain(
            self.digits(i, 4, 4),
            slash,
            lambda at: self.value(at, 1, 12),
            slash,
            lambda at: self.no_digit(self.value(at, 1, 31)),
        )

    def half_day(self, i: int) -> int | None:
        i = self.run(i, H)
        if self.text[i : i + 4] in {"a.m.", "p.m.", "A.M.", "P.M."}:
            return i + 4
        end = self.name(i, ["am", "pm"])
        return None if end is None or self.is_in(end, W_U) else end

    def time(self, i: int) -> int | None:
        two_digits = self.digits(i, 2, 2)
        hour = two_digits if two_digits and int(self.text[i:two_digits]) < 24 else self.digits(i, 1, 1)
        minute = self.chain(hour, self.literal(":"), lambda at: self.value(at, 0, 59, both=True), self.no_digit)
        if minute is None:
            return self.chain(self.value(i, 1, 12), self.half_day)
        end = minute
        second = self.chain(end, self.literal(":"), lambda at: self.value(at, 0, 59, both=True), self.no_digit)
        if second is not None:
            fraction = self.digits(second + 1, 1, 10**9) if self.at(second) == "." else None
            end = fraction or second
        return self.half_day(end) or end

    def group(self, i: int, width: int) -> int | None:
        return self.digits(i + 1, width, width) if self.at(i) == "," else None

    def plain(self, i: int) -> int | None:
        whole = self.digits(i, 1, 10**9)
        if whole is None:
            return None
        end = self.run(i, D, 3)
        groups = 0
        while (after := self.no_digit(self.group(end, 3))) is not None:
            end, groups = after, groups + 1
        if not groups:
            end = self.run(i, D, 2)
            while groups < 6 and (after := self.group(end, 2)) is not None and self.at(after) == ",":
                end, groups = after, groups + 1
            last = self.no_digit(self.group(end, 3))
            end = last if groups and last is not None else whole
        fraction = self.digits(end + 1, 1, 10**9) if self.at(end) == "." else None
        return fraction or end

    def power(self, i: int) -> int:
        end = self.name(self.run(i, H), ["thousand", "million", "billion", "bn"])
        if end is not None and not self.is_in(end, W_U):
            return end
        return i + 1 if self.at(i) in {"k", "M"} and not self.is_in(i + 1, W_U) else i

    def number(self, i: int) -> int | None:
        end = self.plain(i)
        return None if end is None else self.power(end)

    def in_front(self, i: int) -> bool:
        return i == 0 or self.is_in(i - 1, BEFORE_SIGN)

    def fraction(self, i: int) -> int | None:
        return self.digits(i + 1, 1, 10**9) if self.at(i) == "." else None

    def signed(self, i: int) -> int | None:
        if not self.is_in(i, SIGN) or not self.in_front(i):
            return None
        i += 1 + self.is_in(i + 1, C)
        end = self.plain(i) or self.fraction(i)
        return None if end is None else self.power(end)

    def bare_fraction(self, i: int) -> int | None:
        end = self.fraction(i) if self.in_front(i) else None
        return None if end is None else self.power(end)

    def end(self, i: int) -> int | None:
        return i + 1 if self.is_in(i, END) else None

    def citation(self, i: int) -> int | None:
        if self.at(i) != "[":
            return None
        end: int | None = i
        while end == i or (end is not None and self.at(end) == ","):
            end = self.digits(self.run(end + 1, H), 1, 3)
            end = None if end is None else self.run(end, H)
        return end + 1 if end is not None and self.at(end) == "]" else None

    def bracket(self, i: int) -> int | None:
        return i + 1 if self.at(i) == "[" else None

    def pairs(self, i: int) -> int | None:
        return self.run(i, U_M) if self.is_in(i, U) else None

    def numeral_word(self, i: int) -> int | None:
        return self.tails(self.run(i, W)) if self.is_in(i, NOT_ASCII_N) else None

    def signs(self, i: int) -> int | None:
        end = i
        while end < len(self.text) and self.text[end] not in OUTSIDE_SIGNS:
            end += 1
        return end if end > i else None


OUTSIDE_SIGNS = Z | W | U | HYPHEN | APOSTROPHE | SIGN | END | set("&.[")
RULES: tuple[tuple[str, str], ...] = (
    ("D", "month_day_year"),
    ("I", "identifier"),
    ("W", "word"),
    ("!", "line"),
    (".", "full_stop"),
    ("D", "iso"),
    ("D", "day_month_year"),
    ("D", "slashed"),
    ("D", "year_slashed"),
    ("T", "time"),
    ("N", "number"),
    ("!", "end"),
    (",", "citation"),
    (",", "bracket"),
    ("N", "signed"),
    ("N", "bare_fraction"),
    ("P", "pairs"),
    ("W", "numeral_word"),
    (",", "signs"),
)


def scan(text: str) -> tuple[str, list[str], list[tuple[int, int]], list[int]]:
    """Kinds, tokens as they stand (pairs one by one), spans, and the number of tokens before each end of a sentence."""
    scanner = Scanner(text)
    kinds, found, spans, ends, last = "", [], [], [], ""
    i = scanner.list_mark(scanner.run(0, Z)) or 0
    while i < len(text):
        matches = ((kind, getattr(scanner, rule)(i)) for kind, rule in RULES)
        kind, end = next(((kind, end) for kind, end in matches if end is not None), ("", i + 1))
        if kind == "P":
            steps = [(at, at + 2) for at in range(i, end - 1)] or [(i, end)]
        else:
            steps = [(i, end)] if kind in "WNDTI" and kind else []
        kinds += kind * len(steps)
        found += [text[start:stop] for start, stop in steps]
        spans += steps
        abbreviation = last in ABBREVIATIONS or (len(last) == 1 and last not in STOP_WORDS)
        if kind == "!" or (kind == "." and not abbreviation):
            ends.append(len(kinds))
        if kind:
            last = fold(text[i:end]) if kind == "W" else ""
        i = end
    return kinds, found, spans, ends


def sentences(count: int, ends: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((start, stop) for start, stop in pairwise([0, *ends, count]) if start < stop)


PIECES = [
    *"aZé'’-‑−+.,:;!?/()[]{}$₹€%&*#_\"\n\r\t\u00a0\u2028\u3000\x1f",
    *"0123456789", *"東京かタดี한국שлΣςİ٣²\u0301\ufe0f😀𝐀𠀀\U0001e900\x00\ud800\u0378",
    " ", " ", " ", " ", " ", " ", "  ", "12", "25", "2025", "604", "000", "09", "31", "13", "1,200", "0.5",
    "Dec", "may", "September", "Sept", "JUNE", "st", "th", "pm", "a.m.", "AM", "thousand", "million", "bn", "k", "M",
    "T14:30", "14:30", "2025-12-09", "Dec 9, 2025", "9 Dec 2025", "12/25/2025", "GPT-4", "C-1", "[1]", "[2, 3]",
    "\n1. ", "\n",
    "Dr", "etc", "Mr. ", "The", "Paris", "word", "don't", "1.5 million", "12,34,567", "2 pm", "-$604", "km",
]  # fmt: skip
mixtures = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
anything = st.text(st.characters(), max_size=60)


def agree(raw: str) -> None:
    found = Text(raw)
    kinds, as_written, spans, ends = scan(found.text)
    assert found.kinds == kinds
    assert found.spans == spans
    assert [found.text[start:stop] for start, stop in found.spans] == as_written
    assert found.sentences == sentences(len(kinds), ends)
    folded = [fold(token) for token in as_written]
    assert all(own == other for own, other, kind in zip(found.tokens, folded, kinds, strict=True) if kind in "WPI")


@pytest.mark.heavy
@settings(max_examples=600, deadline=None)
@given(mixtures)
def test_agrees_with_the_plain_scanner_on_mixtures(raw: str) -> None:
    agree(raw)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(anything)
def test_agrees_with_the_plain_scanner_on_any_characters(raw: str) -> None:
    agree(raw)


@pytest.mark.slow
def test_agrees_with_the_plain_scanner_on_long_texts() -> None:
    """The memory of pieces, the three patterns and the joining of pieces make no difference."""
    rng = random.Random(3)
    for _ in range(40):
        agree("".join(rng.choices(PIECES, k=400)))


@given(st.lists(st.sampled_from("0 1 9 00 , . 1,2 - $ 1000".split()), max_size=8).map("".join))
def test_a_number_is_its_value(digits: str) -> None:
    """Canonical numbers are equal exactly when the values are, and are written without anything superfluous."""
    found = Text(digits)
    for token, kind, (start, stop) in zip(found.tokens, found.kinds, found.spans, strict=True):
        if kind == "N":
            written = re.sub("[$,]", "", found.text[start:stop])
            assert float(token) == float(written)
            assert re.fullmatch(r"0|-?([1-9][0-9]*|0(?=\.))(\.[0-9]*[1-9])?", token)


@given(mixtures, mixtures)
def test_a_line_end_between_texts_joins_their_tokens(first: str, second: str) -> None:
    """What stands on one line is not read differently for what stands on another."""
    joined = Text(first + "\n" + second)
    assert joined.tokens == Text(first).tokens + Text(second).tokens
    assert joined.kinds == Text(first).kinds + Text(second).kinds


@given(st.one_of(mixtures, anything))
def test_every_property_survives_any_text(raw: str) -> None:
    found = Text(raw)
    assert len(found.tokens) == len(found.kinds) == len(found.spans) == len(found.token_stems)
    assert all(0 <= start < stop <= len(found.text) for start, stop in found.spans)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(found.spans))
    assert found.content_set | found.numbers | found.dates | found.times <= found.distinct
    assert Phrases(found.phrases).found_in([found]) == found.phrases
    assert [stop for _, stop in found.sentences[:-1]] == [start for start, _ in found.sentences[1:]]
    assert frozenset().union(*found.sentence_stems) == found.stems
    assert found.script in {None, *unicode14.SCRIPTS}
    assert found.is_supported in {True, False}
    assert Text(found.text).tokens == found.tokens == Text(raw).tokens
    assert all(isinstance(citation, int) for citation in found.citations)


@given(anything)
def test_folding_is_code_point_to_code_point_and_idempotent(raw: str) -> None:
    assert len(fold(raw)) == len(raw)
    assert fold(fold(raw)) == fold(raw)
    assert fold(raw) == "".join(map(fold, raw))


def test_folding_agrees_for_ascii_and_other_text() -> None:
    """Plain text takes a shorter way: the same way."""
    ascii_characters = "".join(map(chr, range(128)))
    assert fold(ascii_characters + "é") == fold(ascii_characters) + "é"


_ATTACK = 250_000
"""Characters: so many that a search of their square of steps does not come to its end."""

ATTACKS = {
    name: (unit * (_ATTACK // len(unit)))[:_ATTACK]
    for name, unit in {
        "digits": "7", "zeros": "0", "commas": ",", "hyphens": "-", "apostrophes": "'", "dots": ".", "brackets": "[",
        "spaces": " ", "lines": "\n", "letters": "a", "capitals": "A ", "marks": "a\u0301\u0327", "tabs": "\t",
        "groups": "1,", "grouped": ",000", "lakh": "1,10,", "citation": "[1,", "citations": "[1, ", "signs": "-$",
        "hyphened": "a-", "quoted": "a'", "dates": "Dec 9 ", "days": "9 Dec ", "times": "1:", "halves": "1 ",
        "list": "\n 1", "months": "Dec", "stops": "a.", "phrases": "Aa The ", "slashes": "1/", "han": "東",
        "thai": "ดี", "emoji": "😀", "far": "𝐀-", "surrogates": "\ud800", "nul": "\0",
        "unassigned": "a\u0378\u0323\u0301",
        "decimals": "1.", "powers": "1 thousan", "identifier": "a-bb", "numerals": "²'a", "signed": " -",
    }.items()
}  # fmt: skip
ATTACKS["one number"] = "1." + "0" * _ATTACK + "1 million"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ATTACKS)
def test_much_of_anything_is_read(name: str) -> None:
    found = Text(ATTACKS[name])
    assert len(found.tokens) <= 20_000
    assert len(found.kinds) == len(found.token_stems) == len(found.tokens)
    assert len(found.sentences) == len(found.sentence_stems)
    assert len(found.phrases) <= len(found.tokens)
    assert len(found.citations) <= len(found.text)
    assert found.is_supported in {True, False}


def repeats(parsed: Iterable[object]) -> Iterator[tuple[str, int, int]]:
    """Every repetition of a parsed pattern: its kind, least and greatest count."""
    for item in parsed:
        if isinstance(item, tuple) and len(item) == 2 and "REPEAT" in str(item[0]):
            least, most, inner = item[1]
            yield str(item[0]), int(least), int(most)
            yield from repeats(inner)
        elif isinstance(item, tuple | list | re._parser.SubPattern):  # type: ignore[attr-defined]
            yield from repeats(item)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CITATION", "CROSSING", "DATE", "NUMBER", "TIME", "_OPENING", "rules"])
def test_no_repetition_gives_back_what_it_took(name: str) -> None:
    """Each is possessive or of a fixed count, so that a position is never tried again with less."""
    pattern = grammar.grammar("é") if name == "rules" else getattr(grammar, name)
    found = list(repeats(re._parser.parse(pattern.pattern)))  # type: ignore[attr-defined]
    assert found
    assert [repeat for repeat in found if repeat[0] != "POSSESSIVE_REPEAT" and repeat[1] != repeat[2]] == []


def test_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    calls: list[str] = []

    def compute(key: str) -> int:
        calls.append(key)
        return len(key)

    remembered = tokens._AnalysisCache(compute)
    most = 0
    for number in range(60_000):
        assert remembered[f"piece {number}"] == len(f"piece {number}")
        assert remembered["often"] == 5
        most = max(most, len(remembered))
    assert most * len("piece 12345") <= remembered.CHARACTERS
    assert calls.count("often") == 1
    assert "piece 0" not in remembered
    assert remembered["x" * 1000] == 1000
    assert "x" * 1000 not in remembered


@pytest.mark.heavy
@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the table is of Unicode 14.0: Python 3.11")
def test_the_table_is_what_its_script_writes() -> None:
    script = ROOT / "tools" / "unicode_table.py"
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, encoding="utf-8")
    assert made.stdout == (ROOT / "metrics" / "text" / "unicode14.py").read_text(encoding="utf-8")


def test_characters_newer_than_the_table_stop_normalisation() -> None:
    """A mark that Unicode 15 added is no mark: what stands on its two sides is not put in another order around it."""
    newer = "\U00010efd"  # a combining mark since 15.0
    assert Text(f"a{newer}\u0323\u0301").text == unicodedata.normalize("NFC", "a") + newer + "\u0323\u0301"
    assert Text(f"q\u0301{newer}\u0323 e\u0301").text == f"q\u0301{newer}\u0323 é"
