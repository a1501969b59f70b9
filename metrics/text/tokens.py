"""Analysis of the matches of the grammar: canonical tokens and their stems, with a cache of words.

Canonical forms: words, identifiers and pairs are folded; numbers are plain decimal digits; dates are 2025-12-09; times
are 14:30. A run of a script without spaces becomes its pairs of neighbouring code points, or itself if it has only one.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import Literal, TypeVar

from ragweir.metrics.text import unicode14
from ragweir.metrics.text.grammar import (
    CROSSING,
    DATE,
    LINE_ENDS,
    NUMBER,
    POWERS,
    SENTENCE_ENDS,
    TIME,
    characters,
    grammar,
    opening,
)
from ragweir.metrics.text.words import ABBREVIATIONS, MONTHS, STOP_WORDS

Kind = Literal["W", "P", "N", "D", "T", "I"]
"""Word, character pair, number, date, clock time, identifier."""

Analysis = tuple[tuple[str, ...], str, tuple[str, ...]]
"""The tokens of a piece of text, its shape, and the stems of its tokens, which are empty for tokens without content.

The shape has one letter for each token, those of `Kind` except for words: `w` plain, `C` capitalised, `c` capitalised
stop word, `a` and `A` abbreviation, plain and capitalised. It also has `.` for a full stop, `!` for any other end of a
sentence and `,` for other signs. A plain tuple is faster to read than a named one.
"""

STEM_LENGTH = 5


def _folds() -> dict[int, int]:
    folds = {0x2019: ord("'"), 0x2212: ord("-"), 0x2010: ord("-"), 0x2011: ord("-")}
    for run in unicode14.FOLDS.split():
        first, count, stride, shift = (int(part, 16) for part in run.split(":"))
        folds |= {code: code + shift for code in range(first, first + count * stride, stride)}
    return folds


_FOLDS = _folds()


def fold(text: str) -> str:
    """Return the text without case, code point for code point, with plain apostrophes, hyphens and minus signs.

    >>> fold("İSTANBUL ΣΟΦΟς don’t −5")
    "istanbul σοφοσ don't -5"
    """
    return text.lower() if text.isascii() else text.translate(_FOLDS)


_RUNS = re.compile("[A-Za-z]++|[0-9]++")


def date(lexeme: str) -> str:
    """Return a date in canonical form.

    >>> date("Dec 9, 2025"), date("9th December 2025"), date("12/25/2025")
    ('2025-12-09', '2025-12-09', '2025-12-25')
    """
    runs = _RUNS.findall(lexeme)
    numbers = [run for run in runs if run <= ":"]
    months = [MONTHS[name] for name in map(str.lower, runs) if name in MONTHS]
    if months:
        (day, year), month = numbers, months[0]
    elif len(numbers[0]) == 4:
        year, month, day = numbers[0], int(numbers[1]), numbers[2]
    else:
        month, day = sorted(map(int, numbers[:2]))
        year = numbers[2]
    return f"{year}-{month:02}-{int(day):02}"


def clock(lexeme: str) -> str:
    """Return a time of day in canonical form, on a clock of 24 hours, without seconds that are 0.

    >>> clock("2 pm"), clock("14:00:00"), clock("12:05:09 a.m.")
    ('14:00', '14:00', '00:05:09')
    """
    runs = _RUNS.findall(lexeme)
    hour, minute, second = ([int(run) for run in runs[:3] if run <= ":"] + [0, 0])[:3]
    half = next((run[0].lower() for run in runs if run > ":"), "")
    if half and hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def number(lexeme: str) -> str:
    """Return a number in plain decimal digits. Only digits are moved, so that no number is too long.

    >>> number("-$604.00"), number("1,200"), number("1.5 million"), number(".50"), number("-0")
    ('-604', '1200', '1500000', '0.5', '0')
    """
    match = NUMBER.match(lexeme)
    sign, whole, fraction, multiplier = match.groups("") if match else ("", lexeme, "", "")
    whole = whole.replace(",", "")
    if multiplier:
        power = POWERS[multiplier if multiplier in POWERS else multiplier.lower()]
        fraction = fraction.ljust(power, "0")
        whole, fraction = whole + fraction[:power], fraction[power:]
    value = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    if fraction:
        value += "." + fraction
    return "-" + value if sign in {"-", "\u2212"} and value != "0" else value


def _one(shape: str, token: str) -> Analysis:
    return (token,), shape, (token,)


def _word(lexeme: str) -> Analysis:
    token = fold(lexeme)
    capital = token[0] != lexeme[0] and lexeme[0] != "ς"
    if token in STOP_WORDS:
        return (token,), "c" if capital else "w", ("",)
    # A Hangul syllable is two or three letters in one code point.
    content = len(token) > 2 or (len(token) == 2 and any("가" <= letter <= "힣" for letter in token))
    abbreviated = len(token) == 1 or token in ABBREVIATIONS
    shape = ("A" if capital else "a") if abbreviated else ("C" if capital else "w")
    return (token,), shape, (token[:STEM_LENGTH] if content else "",)


def _pairs(lexeme: str) -> Analysis:
    run = fold(lexeme)
    pairs = tuple(map("".join, pairwise(run))) or (run,)
    return pairs, "P" * len(pairs), pairs


_NOTHING: Analysis = ((), "", ())
_SIGNS: Analysis = ((), ",", ())
_MARKS: dict[str, Analysis] = {"[": _SIGNS} | dict.fromkeys(LINE_ENDS + SENTENCE_ENDS, ((), "!", ()))
"""Analysis by first character of what is no token: citations, line ends with list marks, and ends of sentences."""
_DIGIT = re.compile("[0-9]")
_NUMERIC_FIRST = frozenset("0123456789.+-\u2212")
_UNSPACED = re.compile(f"[{characters(unicode14.UNSPACED)}]")
_SPACED = re.compile(f"[{characters(unicode14.LETTERS)}{characters(unicode14.NUMERALS)}]")


def _with_digits(lexeme: str) -> Analysis:
    if DATE.match(lexeme):
        return _one("D", date(lexeme))
    if lexeme[0] in _NUMERIC_FIRST:
        return _one("T", clock(lexeme)) if TIME.match(lexeme) else _one("N", number(lexeme))
    token = fold(lexeme)
    return _one("I", token) if "-" in token else _word(lexeme)


def _analyse_lexeme(lexeme: str) -> Analysis:
    if lexeme.isascii() and lexeme.isalpha():
        return _word(lexeme)
    first = lexeme[0]
    if first in _MARKS:
        return _MARKS[first]
    if _DIGIT.search(lexeme):
        return _with_digits(lexeme)
    if _SPACED.match(first):
        return _word(lexeme)
    if _UNSPACED.match(first):
        return _pairs(lexeme)
    return ((), ".", ()) if first == "." else _SIGNS


def _scan(text: str, max_tokens: int) -> list[Analysis]:
    """Analyse a text's matches, at least until they have more than so many tokens."""
    lexemes = grammar(text).findall(text)
    if len(lexemes) <= max_tokens:
        return list(map(_LEXEMES.__getitem__, lexemes))
    found: list[Analysis] = []
    for lexeme in lexemes:
        found.append(_LEXEMES[lexeme])
        max_tokens -= len(found[-1][0])
        if max_tokens < 0:
            break
    return found


def _analyse_piece(piece: str) -> Analysis:
    if piece.isascii() and piece.isalpha():  # One word, as most are.
        return _LEXEMES[piece]
    parts = _scan(piece, len(piece))
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    tokens, shapes, stems = zip(*parts, strict=True)
    return tuple(chain.from_iterable(tokens)), "".join(shapes), tuple(chain.from_iterable(stems))


def _analyse_unless_crossing(piece: str) -> Analysis | None:
    # A long one is scanned with its neighbours, since a scan stops at the limit.
    return None if len(piece) > _AnalysisCache.LONGEST or CROSSING.search(piece) else _analyse_piece(piece)


T = TypeVar("T")


class _AnalysisCache(dict[str, T]):
    """A function of short texts with a cache of its results, in two generations, of which only the older is dropped.

    It is bounded by the characters of its keys, on which the size of the values depends: 20,000 words per generation.
    """

    CHARACTERS = 1 << 18
    LONGEST = 128

    def __init__(self, function: Callable[[str], T]) -> None:
        self._function = function
        self._older: dict[str, T] = {}
        self._size = 0

    def __missing__(self, key: str) -> T:
        if len(key) > self.LONGEST:
            return self._function(key)
        value = self._older[key] if key in self._older else self._function(key)
        self._size += len(key) + 8
        if self._size > self.CHARACTERS:
            self._older, self._size = dict(self), 0
            self.clear()
        self[key] = value
        return value


_LEXEMES = _AnalysisCache(_analyse_lexeme)
_PIECES = _AnalysisCache(_analyse_piece)
_UNLESS_CROSSING = _AnalysisCache(_analyse_unless_crossing)

_BLOCK = 4_096
"""Number of pieces after which tokens are counted."""
_TOKENS = itemgetter(0)

analysis: Callable[[str], Analysis] = _LEXEMES.__getitem__
"""The analysis of one match of the grammar."""


def analyse(text: str, max_tokens: int) -> list[Analysis]:
    """Analyse a text's pieces in order, at least until they have more than `max_tokens` tokens.

    Scanning takes five times as long as the cache. The analysis of a piece between two spaces does not depend on its
    context, except for pieces that may share a token with a neighbour: runs of these are scanned.
    """
    result: list[Analysis] = []
    for pieces, known in _blocks(text[opening(text) :].split(" ")):
        counted = len(result)
        last = len(pieces)
        done = 0
        while (start := known.index(None, done)) < last:
            result += known[done:start]  # type: ignore[arg-type]  # index() gave the first None
            done = ahead = start + 1
            while ahead < last and ((crossing := known[ahead] is None) or known[ahead] is _NOTHING):
                ahead += 1
                done = ahead if crossing else done
            run = " ".join(pieces[start:done]) + " " * (done < last)
            if done == start + 1 and len(run) <= _AnalysisCache.LONGEST:
                result.append(_PIECES[run])
            else:
                result += _scan(run, max_tokens)
        result += known[done:last]  # type: ignore[arg-type]
        max_tokens -= sum(map(len, map(_TOKENS, islice(result, counted, None))))
        if max_tokens < 0:
            break
    return result


def _blocks(pieces: list[str]) -> Iterator[tuple[list[str], list[Analysis | None]]]:
    """Yield blocks of pieces, each with its analyses, None for pieces that may share a token, and None at the end.

    No match reaches from one block into the next.
    """
    start, end = 0, len(pieces)
    while start < end:
        stop = min(start + _BLOCK, end)
        known = list(map(_UNLESS_CROSSING.__getitem__, pieces[start:stop]))
        while stop < end and (known[-1] is None or known[-1] is _NOTHING):
            known.append(_UNLESS_CROSSING[pieces[stop]])
            stop += 1
        known.append(None)
        yield pieces[start:stop], known
        start = stop
