"""The exposition of windows: bytes that Prometheus scrapes, made once per close and served until the next.

The lines are the same in the text format and in OpenMetrics. They are gauges without timestamps: one with an old
timestamp is invisible to instant queries. Quantiles are of no declared type, which both formats allow: a summary's may
not be negative, as scores can be, and a gauge may not have the label `quantile`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from metrics.closing import Closed
from metrics.contents import Contents
from metrics.label_sets import Labels

QUANTILES = (0.5, 0.9, 0.99)
_LONGEST = 120
"""Characters of a label's value that are shown."""
_UNSEEMLY = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What no scraper should have to take: control characters but the newline, and surrogates."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Samples = Iterator[tuple[str, float]]
"""The labels that a sample has beside those of its window, as text that ends with a comma, and its value."""


@dataclass(frozen=True, slots=True)
class _Family:
    """One line of the table: a metric family, and its samples for one label set of a closed window."""

    name: str
    kind: str
    meaning: str
    samples: Callable[[Contents, Collection[str]], Samples]


def _events(contents: Contents, _: Collection[str]) -> Samples:
    yield "", contents.events


def _means(contents: Contents, booleans: Collection[str]) -> Samples:
    for name, summary in contents.metrics.items():
        if name not in booleans and (mean := summary.mean) is not None:
            yield f'metric="{quoted(name)}",', mean


def _quantiles(contents: Contents, booleans: Collection[str]) -> Samples:
    for name, summary in contents.metrics.items():
        if name not in booleans:
            metric = quoted(name)
            for share in QUANTILES:
                if (value := summary.quantile(share)) is not None:
                    yield f'metric="{metric}",quantile="{share}",', value


def _shares(contents: Contents, booleans: Collection[str]) -> Samples:
    for name, summary in contents.metrics.items():
        if name in booleans and (mean := summary.mean) is not None:
            yield f'metric="{quoted(name)}",label="true",', mean
    for name, counts in contents.categories.items():
        total = sum(counts.values())
        for label, count in counts.items():
            yield f'metric="{quoted(name)}",label="{quoted(label)}",', count / total


def _decisions(contents: Contents, _: Collection[str]) -> Samples:
    for suite, counts in contents.decisions.items():
        for status, count in counts.items():
            yield f'suite="{quoted(suite)}",status="{quoted(status)}",', count


_FAMILIES = (
    _Family("ragweir_window_events", "gauge", "Events of the last closed window", _events),
    _Family("ragweir_window_mean", "gauge", "Mean of a metric in the last closed window", _means),
    _Family("ragweir_window_quantile", "", "Quantile of a metric in the last closed window", _quantiles),
    _Family("ragweir_window_share", "gauge", "Share of a label, or of true, in the last closed window", _shares),
    _Family("ragweir_window_decisions", "gauge", "Decisions about judging in the last closed window", _decisions),
)
_END = "ragweir_window_end_timestamp_seconds"


def _head(name: str, kind: str, meaning: str) -> str:
    return f"# HELP {name} {meaning}\n" + (f"# TYPE {name} {kind}\n" if kind else "")


_HEADS = {family.name: _head(family.name, family.kind, family.meaning) for family in _FAMILIES} | {
    _END: _head(_END, "gauge", "End of the last closed window, in event time")
}


class Exposition:
    """The last closed window of each size, as bytes.

    Args:
        dimensions: what the label sets are made of.
        booleans: the metrics that are shown as shares.
    """

    def __init__(self, dimensions: Sequence[str], booleans: Collection[str]) -> None:
        self._names = label_names(dimensions)
        self._booleans = frozenset(booleans)
        self._chunks: dict[str, dict[str, str]] = {}
        self.content = b""
        """What to serve. It is replaced, never changed, so that any thread may read it."""

    def show(self, closed: Iterable[Closed]) -> None:
        """Show these windows in place of the earlier ones of their sizes."""
        for window in closed:
            self._chunks[window.size] = self._rendered(window)
        text = [head + "".join(chunk.get(name, "") for chunk in self._chunks.values()) for name, head in _HEADS.items()]
        self.content = "".join(text).encode()

    def _rendered(self, window: Closed) -> dict[str, str]:
        """One window's lines of each family."""
        lines: defaultdict[str, list[str]] = defaultdict(list)
        for labels, contents in sorted(window.sets.items()):
            common = f'window="{window.size}"{self._pairs(labels)}}}'
            for family in _FAMILIES:
                lines[family.name] += [
                    f"{family.name}{{{own}{common} {value}\n" for own, value in family.samples(contents, self._booleans)
                ]
        lines[_END].append(f'{_END}{{window="{window.size}"}} {window.end_s}\n')
        return {name: "".join(own) for name, own in lines.items()}

    def _pairs(self, labels: Labels) -> str:
        return "".join(f',{name}="{quoted(value)}"' for name, value in zip(self._names, labels, strict=True))


def label_names(dimensions: Sequence[str]) -> list[str]:
    """Names that Prometheus takes; two that would be the same are told apart by their places.

    >>> label_names(["model", "labels.region", "labels.größe"])
    ['model', 'labels_region', 'labels_gr__e']
    """
    names = [re.sub(r"[^a-zA-Z0-9_]", "_", name) for name in dimensions]
    return [name if names.count(name) == 1 else f"{name}_{place}" for place, name in enumerate(names)]


def quoted(value: str) -> str:
    r"""A label's value between its quotes. What cannot be shown whole ends with a hash, so that it stays distinct.

    >>> print(quoted('say "hi"\n'))
    say \"hi\"\n
    >>> len(quoted("x" * 500)), quoted("x" * 500) == quoted("x" * 501)
    (120, False)
    """
    shown = _UNSEEMLY.sub("\ufffd", value)
    if shown != value or len(value) > _LONGEST:
        mark = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        shown = f"{shown[: _LONGEST - 13]}~{mark}"
    return shown.translate(_ESCAPES)
