"""A tokenised text. Everything but the tokens is derived on first access."""

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, chain, compress, groupby, islice, pairwise
from operator import itemgetter
from string import ascii_letters, digits

from ragweir.metrics.lazy import lazy
from ragweir.metrics.text import unicode14
from ragweir.metrics.text.grammar import CITATION, characters, code_points, grammar, opening
from ragweir.metrics.text.tokens import analyse, analysis
from ragweir.metrics.text.words import ENGLISH, NOT_ENGLISH

_TOKENS, _SHAPE, _STEMS = itemgetter(0), itemgetter(1), itemgetter(2)
_KINDS = {ord(shape): "W" for shape in "wCc"} | {ord(sign): None for sign in ".,"}
_NO_SIGNS = {ord(sign): None for sign in ".,"}
_PHRASE = re.compile(r"(\.,*+)?+(C(?:[CNI]|c++(?=[CNI]))*+)")


CHARACTERS_PER_TOKEN = 16
"""Maximum number of characters per token of the limit: twice what any language needs. It bounds texts of white space
and signs, which are no tokens."""

_LONG_RUN = 32
"""Longer runs of combining marks are put in canonical order here: the standard library's sort is quadratic."""


@cache
def _unassigned() -> re.Pattern[str]:
    near, far = characters(unicode14.UNASSIGNED, last=0xFFFF), characters(unicode14.UNASSIGNED, first=0x10000)
    return re.compile(f"([{near}]|(?=[\\U00010000-\\U0010ffff])[{far}])")


@cache
def _long_runs() -> re.Pattern[str]:
    return re.compile(f"[{characters(unicode14.MARKS)}]{{{_LONG_RUN},}}+")


def _ordered(run: re.Match[str]) -> str:
    """Return a run of combining marks, decomposed, each part between two marks of class 0 in canonical order."""
    decomposed = chain.from_iterable(unicodedata.normalize("NFD", mark) for mark in run[0])
    parts = groupby(decomposed, lambda mark: unicodedata.combining(mark) == 0)
    return "".join(chain.from_iterable(sorted(part, key=unicodedata.combining) for _, part in parts))


def _normalised(raw: str) -> str:
    """Return the NFC as of Unicode 14.0, with any version of Python: later characters are not changed."""
    if raw.isascii() or unicodedata.is_normalized("NFC", raw):
        return raw
    return "".join(unicodedata.normalize("NFC", part) for part in _unassigned().split(_long_runs().sub(_ordered, raw)))


class Text:
    """A text's tokens, and everything derived from them.

    Args:
        raw: any string.
        max_tokens: the text is cut after this many tokens, or sixteen times as many characters.

    >>> text = Text("On Dec 9, 2025 the rate of Territory 118 rose by 0.305% [1].")
    >>> text.tokens
    ['on', '2025-12-09', 'the', 'rate', 'of', 'territory', '118', 'rose', 'by', '0.305']
    >>> text.kinds, text.content
    ('WDWWWWNWWN', ['2025-12-09', 'rate', 'territory', '118', 'rose', '0.305'])
    >>> text.phrases, text.citations
    (frozenset({('territory', '118')}), (1,))
    """

    def __init__(self, raw: str, max_tokens: int = 20_000) -> None:
        readable = raw[: max_tokens * CHARACTERS_PER_TOKEN]
        self.text = _normalised(readable)
        """The text in NFC, cut at the limit."""
        self._pieces = analyse(self.text, max_tokens)
        self.tokens: list[str] = list(chain.from_iterable(map(_TOKENS, self._pieces)))
        """The canonical tokens in order."""
        shape = "".join(map(_SHAPE, self._pieces))
        self.cut = len(readable) < len(raw) or len(self.tokens) > max_tokens
        """True if the text was longer than the limit."""
        if len(self.tokens) > max_tokens:
            # Before the cut, since the rest may be read differently: the 12 of 12/25/2025/7 is a number.
            self.spans = list(islice(_spans(self.text), max_tokens))
            self.text = self.text[: self.spans[-1][1]] if self.spans else ""
            shape = _first_tokens(shape, max_tokens)
            del self.tokens[max_tokens:]
        for abbreviation, word in _ABBREVIATED:
            shape = shape.replace(abbreviation, word)
        self._shape = shape

    def __len__(self) -> int:
        return len(self.tokens)

    @lazy
    def kinds(self) -> str:
        """Each token's kind: W word, P pair, N number, D date, T clock time, I identifier."""
        return self._shape.translate(_KINDS)

    @lazy
    def spans(self) -> list[tuple[int, int]]:
        """Each token's start and stop in `text`."""
        return list(islice(_spans(self.text), len(self.tokens)))

    @lazy
    def sentences(self) -> tuple[tuple[int, int], ...]:
        """Each sentence that has tokens, as the start and stop of its tokens."""
        ends = accumulate(map(len, self._shape.replace(",", "").split(".")))
        return tuple(sentence for sentence in pairwise(chain((0,), ends)) if sentence[0] < sentence[1])

    @lazy
    def distinct(self) -> frozenset[str]:
        """The distinct tokens."""
        return frozenset(self.tokens)

    @lazy
    def token_stems(self) -> list[str]:
        """Each token's stem; empty if the token is not content."""
        return list(islice(chain.from_iterable(map(_STEMS, self._pieces)), len(self.tokens)))

    @lazy
    def content(self) -> list[str]:
        """The content tokens in order."""
        return list(compress(self.tokens, self.token_stems))

    @lazy
    def content_set(self) -> frozenset[str]:
        """The distinct content tokens."""
        return frozenset(self.content)

    @lazy
    def stems(self) -> frozenset[str]:
        """The distinct stems of the content tokens."""
        return frozenset(filter(None, self.token_stems))

    @lazy
    def sentence_stems(self) -> tuple[frozenset[str], ...]:
        """The distinct stems of each sentence's content tokens."""
        stems = self.token_stems
        return tuple(frozenset(filter(None, stems[start:stop])) for start, stop in self.sentences)

    @lazy
    def numbers(self) -> frozenset[str]:
        """The values of the numbers."""
        return self._of_kind("N")

    @lazy
    def dates(self) -> frozenset[str]:
        """The calendar dates."""
        return self._of_kind("D")

    @lazy
    def times(self) -> frozenset[str]:
        """The clock times."""
        return self._of_kind("T")

    def _of_kind(self, kind: str) -> frozenset[str]:
        if kind not in self._shape:
            return frozenset()
        return frozenset(token for token, own in zip(self.tokens, self.kinds, strict=True) if own == kind)

    @lazy
    def phrases(self) -> frozenset[tuple[str, ...]]:
        """The capitalised phrases, as their tokens."""
        found: set[tuple[str, ...]] = set()
        position = index = 0
        shape = "." + self._shape
        for match in _PHRASE.finditer(shape):
            start, end = match.span(2)
            index += len(shape[position:start].translate(_NO_SIGNS))
            position = start
            if end - start > 1 or match[1] is None:
                found.add(tuple(self.tokens[index : index + end - start]))
        return frozenset(found)

    @lazy
    def citations(self) -> tuple[int, ...]:
        """The numbers of the citation marks in order: [1, 2] and [1][2] alike."""
        return tuple(int(n) for mark in CITATION.findall(self.text) for n in _DIGITS.findall(mark))

    @lazy
    def script(self) -> str | None:
        """The script of most letters; None without letters of a known script. Kana counts as Han."""
        if self.text.isascii():
            return "Latin" if _ASCII_LETTER.search(self.text) else None
        starts = _scripts()
        counts = Counter({"Latin": sum(map(self.text.count, ascii_letters))})
        for letter, count in Counter("".join(_NOT_ASCII.findall(self.text))).items():
            counts[starts[bisect(starts, (ord(letter), "\U0010ffff")) - 1][1]] += count
        del counts[""]
        # The first by name of a tie, so that the order of the text does not matter.
        return min((-count, script) for script, count in counts.items())[1] if counts.total() else None

    @lazy
    def is_supported(self) -> bool:
        """True if the English word lists apply to the text.

        They do not if it is in another script than Latin, if it has at least two function words of other languages and
        more of those than of English, or if it has over 20 words and no English function word at all.
        """
        if self.script is None:
            return True
        if self.script != "Latin":
            return False
        english = sum(token in ENGLISH for token in self.tokens)
        other = sum(token in NOT_ENGLISH for token in self.tokens)
        return other <= max(english, 1) and (english > 0 or self.kinds.count("W") <= _LONG)


_LONG = 20
_ONE_TOKEN = frozenset(ascii_letters + digits)
_DIGITS = re.compile("[0-9]++")
_ASCII_LETTER = re.compile("[A-Za-z]")
_NOT_ASCII = re.compile("[^\\x00-\\x7f]++")
_ABBREVIATED = (("A.", "C"), ("a.", "w"), ("A", "C"), ("a", "w"), ("!", "."))
"""Replacements in shapes: a full stop after an abbreviation is no end of a sentence, and all other ends are equal."""


def _first_tokens(shape: str, count: int) -> str:
    kinds = (at for at, letter in enumerate(shape) if letter not in ".!,")
    return shape[: next(islice(kinds, count, None))]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for match in grammar(text).finditer(text, opening(text)):
        start, end = match.span()
        # A match that begins with a letter or a digit of ASCII is one token.
        shape = "W" if text[start] in _ONE_TOKEN else analysis(match[0])[1]
        if shape in {".", "!", ","}:
            continue
        if len(shape) == 1:
            yield start, end
        else:
            yield from ((at, at + 2) for at in range(start, end - 1))


@cache
def _scripts() -> list[tuple[int, str]]:
    """Return the start of each range of one script, and its name; an empty name for other characters."""
    starts = [(0, "")]
    ranges = ((*span, script) for script, lengths in unicode14.SCRIPTS.items() for span in code_points(lengths))
    for first, last, script in sorted(ranges):
        if starts[-1][0] == first:
            starts.pop()
        starts += [(first, script), (last + 1, "")]
    return starts
