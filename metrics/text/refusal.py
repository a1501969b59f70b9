"""Detection of refusals, by regular expressions over the roles of words.

Refusals have many wordings ("I do not have specific information", "the passage never mentions it") but few parts: the
speaker, a negation, a verb, the missing thing. A word has one or more roles. A sentence becomes a string of one letter
per token, a letter for each combination of roles, and refusals are regular expressions over role names. Repetitions
are bounded, so that matching is linear. Roles and expressions are in refusal.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources

from ragweir.metrics.text.text import Text

OPENING = 2
"""Number of sentences in which a refusal is one of the whole answer; later it is a remark on one of its points."""

_GRAMMAR = tomllib.loads(resources.files("ragweir.metrics.text").joinpath("refusal.toml").read_text(encoding="utf-8"))
_ROLES: Mapping[str, frozenset[str]] = {role: frozenset(words.split()) for role, words in _GRAMMAR["roles"].items()}


def _letters() -> dict[str, str]:
    """Return the letter of each word. Words with the same roles have the same one."""
    roles: dict[str, set[str]] = {}
    for role, words in _ROLES.items():
        for word in words:
            roles.setdefault(word, set()).add(role)
    combinations = sorted({tuple(sorted(each)) for each in roles.values()})
    letters = {combination: chr(0x100 + index) for index, combination in enumerate(combinations)}
    return {word: letters[tuple(sorted(each))] for word, each in roles.items()}


_LETTERS = _letters()
_NEUTRAL = "-"


def _words(*roles: str) -> frozenset[str]:
    return frozenset().union(*(_ROLES[role] for role in roles))


def _class(words: frozenset[str], but: str = "") -> str:
    return f"[{but}{''.join(sorted({_LETTERS[word] for word in words}))}]"


def _compiled() -> re.Pattern[str]:
    """Return one expression over letters for all refusals."""
    classes = {role: _class(words) for role, words in _ROLES.items()}
    classes |= {
        "ANY": ".",
        "START": "^",
        "END": "$",
        "PLAIN": _class(_words("SELF", "SELFBE", "OTHER", "BUT"), but="^"),
    }

    def expanded(sentence: str) -> str:
        for part, meaning in _GRAMMAR["parts"].items():
            sentence = re.sub(rf"\b{part}\b", meaning, sentence)
        return re.sub("[A-Z]+", lambda name: classes[name[0]], sentence).replace(" ", "")

    return re.compile("|".join(map(expanded, _GRAMMAR["sentences"]["declining"])))


_DECLINES = _compiled()
_CONCEDING = _ROLES["CONCEDE"]
_NEGATIVE = _words(*_GRAMMAR["sentences"]["negative"])


def _sentence_declines(text: Text, start: int, stop: int) -> bool:
    tokens = text.tokens[start:stop]
    if _NEGATIVE.isdisjoint(tokens):
        return False
    letters = "".join([_LETTERS.get(token, _NEUTRAL) for token in tokens])
    if tokens[0] not in _CONCEDING:
        return _DECLINES.search(letters) is not None
    # "While the documents give no examples, they explain ..." answers; "While I would like to, I cannot say" declines.
    comma = text.text.find(",", text.spans[start][0], text.spans[stop - 1][0])
    ends = (start + found.end() - 1 for found in _DECLINES.finditer(letters))
    return comma >= 0 and any(comma < text.spans[end][0] for end in ends)


def declines(text: Text) -> bool:
    """Return True if one of the first two sentences of an answer, or at least half of all, declines to answer.

    >>> declines(Text("I do not have specific information about version 6.16.0."))
    True
    >>> declines(Text("While the documents give no examples, they explain the risks."))
    False
    """
    if _NEGATIVE.isdisjoint(text.distinct):
        return False
    sentences = text.sentences
    if any(_sentence_declines(text, *sentence) for sentence in sentences[:OPENING]):
        return True
    rest = sentences[OPENING:]
    return bool(rest) and 2 * sum(_sentence_declines(text, *sentence) for sentence in rest) >= len(sentences)
