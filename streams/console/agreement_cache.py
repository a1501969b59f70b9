"""The agreement with people as it was computed last, for pages that show it again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock

from ragweir.streams.analysis.labels.report import LabelReport


class AgreementCache:
    """Computes the agreement anew if the labels have changed.

    Args:
        version: returns a value that changes with the labels.
        compute: computes the agreement.
    """

    def __init__(self, version: Callable[[], Hashable], compute: Callable[[], LabelReport]) -> None:
        self._version, self._compute, self._lock = version, compute, Lock()
        self._known: tuple[Hashable, LabelReport] | None = None

    def __call__(self) -> LabelReport:
        """Return the agreement with the labels that there are now."""
        with self._lock:
            version = self._version()
            if self._known is None or self._known[0] != version:
                self._known = version, self._compute()
            return self._known[1]
