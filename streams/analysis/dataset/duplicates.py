"""Questions that are asked again in other words, found by MinHash.

A question is the set of its words and of its pairs of neighbouring words, without case, punctuation and Unicode's
variants of characters. Two are the same if their sets have a Jaccard similarity of 0.8 at least, and if they have the
same numbers and English negations, since "the fee of plan 7" is another question than "the fee of plan 8". MinHash
(Broder, 1997) with 16 bands of 4 hashes finds the candidates without comparing all pairs. Each is then compared
exactly, so that no two are taken for the same by chance; a pair at the limit is missed with probability 2e-4. The
packages for it bring SciPy.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

SAME = 0.8
"""Jaccard similarity from which two questions are the same."""
_BANDS, _ROWS = 16, 4
_PRIME = np.uint64((1 << 31) - 1)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_NEGATIONS = frozenset("no not never nor none nothing cannot without".split())
_SEED = 20_261_126
_FACTORS, _SHIFTS = np.random.default_rng(_SEED).integers(1, int(_PRIME), (2, _BANDS * _ROWS, 1), dtype=np.uint64)


def words_of(text: str) -> list[str]:
    """Return the words of a question without case, punctuation and variants of characters.

    >>> words_of("Who  wrote the ﬁrst PROGRAM?!")
    ['who', 'wrote', 'the', 'first', 'program']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))


class SameQuestions:
    """Questions, each with the place of the first one that is the same.

    >>> asked = SameQuestions()
    >>> [asked.add(text) for text in ("Who wrote the first program?", "who wrote the first  program", "Who was Ada?")]
    [0, 0, 2]
    """

    def __init__(self) -> None:
        self._sets: list[frozenset[str]] = []
        self._decisive: list[frozenset[str]] = []
        self._exact: dict[tuple[str, ...], int] = {}
        self._bands: dict[tuple[int, bytes], list[int]] = defaultdict(list)
        self._first: list[int] = []

    def add(self, text: str) -> int:
        """Add a question; return the place of the first one that is the same, its own if there is none."""
        place, words = len(self._first), words_of(text)
        first = self._exact.setdefault(tuple(words), place)
        own = frozenset([*words, *map(" ".join, pairwise(words))])
        self._sets.append(own)
        self._decisive.append(frozenset(filter(_is_decisive, words)))
        if first == place and own:
            keys = list(enumerate(band.tobytes() for band in _signature(own).reshape(_BANDS, _ROWS)))
            found = sorted({other for key in keys for other in self._bands[key]})
            first = next((other for other in found if self._are_same(place, other)), place)
            if first == place:  # Only first ones are compared with, so that no chain leads to another question.
                for key in keys:
                    self._bands[key].append(place)
            self._exact[tuple(words)] = first
        self._first.append(first)
        return first

    def _are_same(self, one: int, other: int) -> bool:
        a, b = self._sets[one], self._sets[other]
        return self._decisive[one] == self._decisive[other] and len(a & b) >= SAME * len(a | b)


def _is_decisive(word: str) -> bool:
    return word in _NEGATIONS or word.endswith(("n't", "n’t")) or any(map(str.isdigit, word))


def _signature(parts: Iterable[str]) -> NDArray[np.uint64]:
    """Return the least of each hash over the parts."""
    hashes = [int.from_bytes(blake2b(each.encode(errors="replace"), digest_size=4).digest()) >> 1 for each in parts]
    values = np.array(hashes, dtype=np.uint64) % _PRIME
    return np.asarray(((_FACTORS * values + _SHIFTS) % _PRIME).min(axis=1))
