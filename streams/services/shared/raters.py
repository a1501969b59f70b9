"""Raters: records hold keyed hashes in place of the names of people who label answers."""

from __future__ import annotations

import hmac
import unicodedata
from hashlib import sha256

_CHARACTERS = 16
_LONGEST = 200


def hashed_rater(name: str, key: str) -> str:
    """Return the hash that stands for a rater: HMAC-SHA256 of the name with `labels.key`, 16 hexadecimal digits.

    White space around a name does not count, and its two forms in Unicode give one hash.

    >>> hashed_rater("Ada", "k") == hashed_rater(" Ada ", "k")
    True
    """
    same = unicodedata.normalize("NFC", name.strip()).encode(errors="surrogatepass")
    return hmac.new(key.encode(), same, sha256).hexdigest()[:_CHARACTERS]


def fault_of_name(name: str) -> str:
    r"""Return the reason why a text is no name of a rater; empty if it is one.

    >>> fault_of_name("Ada"), fault_of_name(" "), fault_of_name("A\x1b[2J")
    ('', 'is empty', 'has control characters')
    """
    if not name.strip():
        return "is empty"
    if len(name) > _LONGEST:
        return f"has {len(name):,} characters, and may have {_LONGEST}"
    return "" if name.isprintable() else "has control characters"
