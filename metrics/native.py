"""The kernel: a compiled way to count, which gives the same numbers as `ragweir.metrics.counts.Counts`.

The package `ragweir-kernel` has it. All tables are those of `ragweir.metrics.text` and `ragweir.metrics.counts`, passed
to its constructor. An event that the kernel cannot read, such as one with a lone surrogate, is counted by the
reference.
"""

from __future__ import annotations

import importlib
import re
from collections import namedtuple
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.metrics.counts import NAMES, Counts, answers, wording
from ragweir.metrics.text import claims, grammar, refusal, text, tokens, unicode14, words
from ragweir.metrics.view import View

MODULE = "ragweir_kernel"

_STABLE = (
    *((0x0000, 0x02FF), (0x0370, 0x0373), (0x0376, 0x0377), (0x037B, 0x037D), (0x0388, 0x0482), (0x048A, 0x052F)),
    *((0x0531, 0x058A), (0x05D0, 0x05EA), (0x0620, 0x064A), (0x0660, 0x066F), (0x0671, 0x06D5), (0x0904, 0x093B)),
    *((0x093D, 0x094C), (0x0E01, 0x0E37), (0x0E40, 0x0E47), (0x1E00, 0x1EFF), (0x2002, 0x20CF), (0x2100, 0x2125)),
    *((0x2127, 0x2129), (0x212C, 0x2328), (0x232B, 0x2ADB), (0x2ADD, 0x2BFF), (0x3000, 0x3029), (0x3030, 0x3098)),
    *((0x309B, 0x30FF), (0x3105, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFE00, 0xFE0F)),
    *((0xFF01, 0xFFEE), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF)),
)
"""Ranges of code points that normalisation to NFC leaves as they are, next to any other ones of these ranges."""


class KernelUnavailable(Exception):
    """The kernel cannot be used. The message is the reason, as one sentence."""


def _matching(pattern: str) -> str:
    """Return the characters up to U+3000 that match a pattern; all white space, hyphens and signs are among them."""
    return "".join(re.findall(pattern, "".join(map(chr, range(0x3001)))))


def _word_lists() -> Mapping[str, Iterable[str]]:
    return {
        "stop": words.STOP_WORDS,
        "abbreviations": words.ABBREVIATIONS,
        "english": words.ENGLISH,
        "not_english": words.NOT_ENGLISH,
        "verbs": claims._VERBS,
        "auxiliaries": claims._AUXILIARIES,
        "contracted": claims._CONTRACTED,
        "hedges": claims._HEDGES,
        "may": ["may"],
        "of": ["of"],
        "joints": claims._JOINTS,
        "conditions": claims._CONDITIONS,
        "relatives": claims._RELATIVES,
        "pronouns": claims._PRONOUNS,
        "excluded_subjects": claims._EXCLUDED_SUBJECTS,
        "before_nouns": claims._BEFORE_NOUNS,
        "articles": claims._ARTICLES,
        "fillers": claims._FILLERS,
        "between": claims._BETWEEN,
        "conceding": refusal._CONCEDING,
        "negative": refusal._NEGATIVE,
    }


def tables() -> dict[str, Any]:
    """Return the tables of the kernel's constructor."""
    sizes = {
        "characters_per_token": text.CHARACTERS_PER_TOKEN,
        "stem_length": tokens.STEM_LENGTH,
        "min_keyword_letters": answers._MIN_KEYWORD_LETTERS,
        "long": text._LONG,
        "non_answer_characters": wording.NON_ANSWER_CHARACTERS,
        "phrase_tokens": claims.PHRASE_TOKENS,
        "min_stems": claims.MIN_STEMS,
        "opening": refusal.OPENING,
        "lcs_tokens": answers.LCS_TOKENS,
    }
    return {
        "letters": grammar.code_points(unicode14.LETTERS),
        "numerals": grammar.code_points(unicode14.NUMERALS),
        "marks": grammar.code_points(unicode14.MARKS),
        "unspaced": grammar.code_points(unicode14.UNSPACED),
        "currencies": grammar.code_points(unicode14.CURRENCIES),
        "brackets": grammar.code_points(unicode14.BRACKETS),
        "stable": _STABLE,
        "blanks": _matching(grammar._H),
        "line_ends": grammar.LINE_ENDS,
        "spaces": _matching(f"[{grammar._Z}]"),
        "apostrophes": _matching(f"[{grammar._APOSTROPHES}]"),
        "hyphens": _matching(f"[{grammar._HYPHENS}]"),
        "signs": _matching(f"[{grammar._SIGNS}]"),
        "ends": grammar.SENTENCE_ENDS,
        "question_marks": claims._QUESTION_MARKS,
        "white": "".join(filter(str.isspace, map(chr, range(0x3001)))),
        "folds": list(tokens._FOLDS.items()),
        "scripts": text._scripts(),
        "months": list(words.MONTHS.items()),
        "powers": list(grammar.POWERS.items()),
        "words": {name: sorted(listed) for name, listed in _word_lists().items()},
        "dont_know": sorted(wording.DONT_KNOW),
        "non_answers": sorted(wording.NON_ANSWERS),
        "hedges": sorted(wording.HEDGES),
        "indicators": sorted(wording.INDICATORS.items()),
        "roles": refusal._LETTERS,
        "refusal": refusal._DECLINES.pattern,
        "sizes": sizes,
        "normalised": text._normalised,
        "panic": None,
    }


class NativeCounting:
    """The counts of views by the kernel; a `ragweir.metrics.view.Counting`.

    Args:
        kernel: the kernel's module.
        own_tables: the tables of its constructor.
    """

    def __init__(self, kernel: Any, own_tables: Mapping[str, Any]) -> None:
        self._count = kernel.Kernel(own_tables).counts
        self._panic: type[BaseException] = kernel.PanicException
        named: Any = namedtuple  # noqa: PYI024 (mypy wants to see the fields of one)
        self._make = named("NativeCounts", NAMES)._make
        self.version: str = kernel.__version__
        """The version of the kernel's package."""
        self.panics = 0
        """The number of events so far at which the kernel failed, so that the reference counted them."""

    def __call__(self, view: View) -> Counts:
        """Return the counts of a view, of which no field is unavailable."""
        event, limits = view.interaction, view.limits
        contexts = [context.text or "" for context in (event.contexts or ())[: limits.max_contexts]]
        texts = event.query or "", event.response or "", event.expected or (), contexts
        try:
            counted = self._count(*texts, view.texts.passages, limits.max_tokens, limits.max_event_tokens)
        except UnicodeEncodeError:
            return view.reference
        except self._panic:
            self.panics += 1
            return view.reference
        return cast("Counts", self._make(counted))


def counting() -> NativeCounting:
    """Return the kernel's way to count.

    Raises:
        KernelUnavailable: if the kernel is not installed, cannot be loaded or is of another version.
    """
    try:
        kernel = importlib.import_module(MODULE)
    except ModuleNotFoundError:
        raise KernelUnavailable("the package ragweir-kernel is not installed") from None
    except ImportError as error:
        raise KernelUnavailable(f"the package ragweir-kernel cannot be loaded: {error}") from error
    if (version := kernel.CATALOGUE_VERSION) != CATALOGUE_VERSION:
        raise KernelUnavailable(
            f"the installed ragweir-kernel counts for version {version} of the catalogue, not for {CATALOGUE_VERSION}"
        )
    if kernel.NAMES != NAMES:
        raise KernelUnavailable("the installed ragweir-kernel has other counts than this ragweir")
    try:
        return NativeCounting(kernel, tables())
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise KernelUnavailable(
            f"the installed ragweir-kernel does not take the tables of this ragweir: {error}"
        ) from error
