"""Texts in values of any JSON type, and canonical forms by which such values are compared."""

from __future__ import annotations

import json
from decimal import Decimal

from ragweir.metrics.text.grammar import code_points
from ragweir.metrics.text.text import Text
from ragweir.metrics.text.tokens import fold
from ragweir.metrics.text.unicode14 import CURRENCIES

_BY_VALUE = frozenset("NDT")
"""Kinds of tokens that are compared by value: numbers, dates, times."""

_UNITS = {ord("%"): None} | {code: None for first, last in code_points(CURRENCIES) for code in range(first, last + 1)}
"""Percent and currency signs, which do not change a number's value."""


def _number(value: float) -> str:
    # Without an exponent: 5e-05 is three tokens, 0.00005 is one number.
    return format(Decimal(value if isinstance(value, int) else repr(value)), "f")


def leaves(value: object, limit: int) -> list[str] | None:
    """Return the texts and numbers in a value, or None if there are more than the limit.

    Keys, null, true and false are left out, since evidence does not repeat them.

    >>> leaves({"amounts": [1200, "$5"], "paid": True, "note": None}, 2)
    ['$5', '1200']
    """
    found: list[str] = []
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            rest.extend(part.values())
        elif isinstance(part, list):
            rest.extend(part)
        elif isinstance(part, str):
            found.append(part)
        elif isinstance(part, int | float) and not isinstance(part, bool):
            found.append(_number(part))
        if len(found) > limit:
            return None
    return found


def _canonical_text(text: Text) -> str:
    """Return a folded text with canonical numbers, dates and times, single spaces and no closing punctuation.

    >>> [_canonical_text(Text(price)) for price in ("$1,200", "1200.0", " 1,200. ", "1,200 MM")]
    ['1200', '1200', '1200', '1200 mm']
    """
    canonical = text.text
    if not _BY_VALUE.isdisjoint(text.kinds):
        pieces: list[str] = []
        reached = 0
        for token, kind, (start, stop) in zip(text.tokens, text.kinds, text.spans, strict=True):
            if kind in _BY_VALUE:
                pieces += text.text[reached:start], token
                reached = stop
        canonical = "".join((*pieces, text.text[reached:])).translate(_UNITS)
    canonical = " ".join(fold(canonical).split())
    return canonical.rstrip(" .,;:") or canonical


def canonical(value: object, texts: tuple[Text, ...]) -> str | None:
    """Return the form by which a value is compared, or None if it is no value.

    Text is folded and its numbers are compared by value; a list or an object becomes its compact JSON, folded. null,
    blank text, empty lists and objects, and values nested too deeply for JSON are no values; 0 and false are.

    Args:
        value: the value.
        texts: its leaves.

    >>> def read(value): return canonical(value, tuple(map(Text, leaves(value, 9))))
    >>> [read(value) for value in (1200, "Tile.", {"b": "X", "a": [1]}, False, " ", None)]
    ['1200', 'tile', '{"a":[1],"b":"x"}', 'false', None, None]
    """
    if value in (None, [], {}):
        return None
    if not isinstance(value, list | dict | bool):
        return _canonical_text(texts[0]) or None
    try:
        return fold(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")))
    except RecursionError:
        return None
