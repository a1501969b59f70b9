"""Keyed hashes of documents, chunks, labels, sessions and questions, as rows of the topic `documents` have them.

The key keeps applications from choosing ids whose hashes are equal, and readers of the topic from guessing ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

HASH_BYTES = 8
NO_HASH = bytes(HASH_BYTES)
"""The hash of nothing, such as the session of an event without one."""
_MOST_KEPT = 65_536
"""Number of texts whose hashes are kept: most documents are served again and again."""
_LONGEST_KEPT = 200


class RowHashes(dict[str, bytes]):
    """The hashes of texts by a key, of which some are kept.

    >>> hashes = RowHashes("a secret")
    >>> hashes["d1"] == hashes["d1"], hashes["d1"] == RowHashes("another")["d1"]
    (True, False)

    Args:
        key: the secret, which is `labels.key`.
    """

    def __init__(self, key: str) -> None:
        super().__init__()
        own = blake2b(key.encode(), digest_size=32, person=b"documents").digest()
        self._keyed = blake2b(key=own, digest_size=HASH_BYTES)

    def __missing__(self, text: str) -> bytes:
        hashing = self._keyed.copy()
        hashing.update(text.encode(errors="replace"))
        found = hashing.digest()
        if len(text) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[text] = found
        return found

    def optional(self, text: str | None) -> bytes:
        """Return the hash of a text; NO_HASH for none."""
        return NO_HASH if text is None else self[text]

    def joined(self, texts: Iterable[str]) -> bytes:
        """Return the hashes of texts, one after the other."""
        return b"".join(map(self.__getitem__, texts))
