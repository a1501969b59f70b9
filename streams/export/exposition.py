"""The exposition of windows: bytes that Prometheus scrapes, made once per close and served until the next.

The lines are the same in the text format and in OpenMetrics. They are gauges without timestamps: one with an old
timestamp is invisible to instant queries. Quantiles are of no declared type, which both formats allow: a summary's may
not be negative, as scores can be, and a gauge may not have the label `quantile`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from ragweir.metrics.aggregation.estimate import parse_estimate_name
from ragweir.metrics.aggregation.merger import ClosedWindow
from ragweir.metrics.aggregation.summary import Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.window import EstimateResult

QUANTILES = (0.5, 0.9, 0.99)
_LONGEST = 120
"""Characters of a label's value that are shown."""
_UNSEEMLY = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What no scraper should have to take: control characters but the newline, and surrogates."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Samples = Iterator[tuple[str, float]]
"""The labels that a sample has beside those of its window, as text that ends with a comma, and its value."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of one label set of a closed window.

    Of a judged metric it is the estimate. The plain mean of what was judged speaks of suspicious events only.
    """

    contents: WindowAggregate
    results: Mapping[str, EstimateResult]
    booleans: Collection[str]
    """The metrics that are shown as shares."""
    judged: Collection[str]

    @classmethod
    def of(cls, contents: WindowAggregate, booleans: Collection[str]) -> Shown:
        """What is shown of these contents, which are all of the window's label set."""
        judged = {parse_estimate_name(name)[0] for name in contents.estimates}
        return cls(contents, contents.results(), booleans, judged)

    def plain(self, *, boolean: bool) -> Iterator[tuple[str, Summary]]:
        """The summaries to show, by metric."""
        for name, summary in self.contents.metrics.items():
            if (name in self.booleans) == boolean and name not in self.judged:
                yield quoted(name), summary


@dataclass(frozen=True, slots=True)
class Family:
    """One line of the table: a metric family, and its samples for one label set of a closed window."""

    name: str
    kind: str
    meaning: str
    samples: Callable[[Shown], Samples]


def _events(shown: Shown) -> Samples:
    yield "", shown.contents.events


def _means(shown: Shown) -> Samples:
    for metric, summary in shown.plain(boolean=False):
        if (mean := summary.mean) is not None:
            yield f'metric="{metric}",', mean


def _quantiles(shown: Shown) -> Samples:
    for metric, summary in shown.plain(boolean=False):
        for share in QUANTILES:
            if (value := summary.quantile(share)) is not None:
                yield f'metric="{metric}",quantile="{share}",', value


def _shares(shown: Shown) -> Samples:
    for metric, summary in shown.plain(boolean=True):
        if (mean := summary.mean) is not None:
            yield f'metric="{metric}",label="true",', mean
    for name, counts in shown.contents.categories.items():
        total = sum(counts.values())
        for label, count in counts.items():
            if name not in shown.judged:
                yield f'metric="{quoted(name)}",label="{quoted(label)}",', count / total


def _decisions(shown: Shown) -> Samples:
    for suite, counts in shown.contents.decisions.items():
        for status, count in counts.items():
            yield f'suite="{quoted(suite)}",status="{quoted(status)}",', count


def _judged(shown: Shown) -> Samples:
    for name, estimate in shown.contents.estimates.items():
        metric, label = parse_estimate_name(name)
        count = shown.contents.categories.get(metric, {}).get(label, 0) if label else estimate.count
        yield _subject(name), count


def _estimates(limit: Literal["mean", "low", "high"]) -> Callable[[Shown], Samples]:
    def samples(shown: Shown) -> Samples:
        for name, result in shown.results.items():
            if (value := getattr(result, limit)) is not None:
                yield _subject(name), value

    return samples


def _flags(shown: Shown) -> Samples:
    for name, result in shown.results.items():
        for flag in result.flags:
            yield f'{_subject(name)}flag="{flag}",', 1


def _versions(shown: Shown) -> Samples:
    if shown.contents.versions:  # None are known of what did not come from evaluations.
        yield "", len(shown.contents.versions)


def _subject(name: str) -> str:
    metric, label = parse_estimate_name(name)
    return f'metric="{quoted(metric)}",' + (f'label="{quoted(label)}",' if label else "")


_ESTIMATE = "of a judged metric, or of the share of a label, over all events that had a chance to be judged"
FAMILIES = (
    Family("ragweir_window_events", "gauge", "Events of the last closed window", _events),
    Family("ragweir_window_mean", "gauge", "Mean of a metric in the last closed window", _means),
    Family("ragweir_window_quantile", "", "Quantile of a metric in the last closed window", _quantiles),
    Family("ragweir_window_share", "gauge", "Share of a label, or of true, in the last closed window", _shares),
    Family("ragweir_window_decisions", "gauge", "Decisions about judging in the last closed window", _decisions),
    Family("ragweir_window_judged", "gauge", "Events judged by a metric, or with a label, in the window", _judged),
    Family("ragweir_window_estimate", "gauge", f"Weighted mean {_ESTIMATE}", _estimates("mean")),
    Family("ragweir_window_estimate_low", "gauge", f"Lower 95 % limit {_ESTIMATE}", _estimates("low")),
    Family("ragweir_window_estimate_high", "gauge", f"Upper 95 % limit {_ESTIMATE}", _estimates("high")),
    Family("ragweir_window_estimate_flag", "gauge", "What to know of an estimate; 1 where it holds", _flags),
    Family("ragweir_window_catalogue_versions", "gauge", "Catalogue versions that computed the window", _versions),
)
_END = "ragweir_window_end_timestamp_seconds"


def _head(name: str, kind: str, meaning: str) -> str:
    return f"# HELP {name} {meaning}\n" + (f"# TYPE {name} {kind}\n" if kind else "")


_HEADS = {family.name: _head(family.name, family.kind, family.meaning) for family in FAMILIES} | {
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

    def show(self, closed: Iterable[ClosedWindow]) -> None:
        """Show these windows in place of the earlier ones of their sizes."""
        for window in closed:
            self._chunks[window.size] = self._rendered(window)
        text = [head + "".join(chunk.get(name, "") for chunk in self._chunks.values()) for name, head in _HEADS.items()]
        self.content = "".join(text).encode()

    def _rendered(self, window: ClosedWindow) -> dict[str, str]:
        """One window's lines of each family."""
        lines: defaultdict[str, list[str]] = defaultdict(list)
        for labels, contents in sorted(window.sets.items()):
            shown = Shown.of(contents, self._booleans)
            common = f'window="{window.size}"{pairs(self._names, labels)}}}'
            for family in FAMILIES:
                lines[family.name] += [
                    f"{family.name}{{{own}{common} {value}\n" for own, value in family.samples(shown)
                ]
        lines[_END].append(f'{_END}{{window="{window.size}"}} {window.end_s}\n')
        return {name: "".join(own) for name, own in lines.items()}


def pairs(names: Iterable[str], values: Iterable[str]) -> str:
    """Further labels of a sample, behind others.

    >>> pairs(["model", "tenant"], ["m", "t"])
    ',model="m",tenant="t"'
    """
    return "".join(f',{name}="{quoted(value)}"' for name, value in zip(names, values, strict=True))


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
