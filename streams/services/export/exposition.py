"""The exposition of closed windows for Prometheus, rendered when a window closes.

The lines are the same in the text format and in OpenMetrics. They are gauges without timestamps, since instant queries
ignore samples with old ones. Quantiles have no type, which both formats allow: those of a summary may not be negative,
as scores can be, and a gauge may not have the label `quantile`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from ragweir.metrics.aggregation.estimate import parse_estimate_name
from ragweir.metrics.aggregation.merger import ClosedWindow
from ragweir.metrics.aggregation.summary import Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.window import EstimateResult

QUANTILES = (0.5, 0.9, 0.99)
_MAX_CHARACTERS = 120
"""The length of the longest label value."""
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except the newline, and surrogates."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Samples = Iterator[tuple[str, float]]
"""The labels of each sample without those of its window, as text that ends with a comma, and its value."""


@dataclass(frozen=True, slots=True)
class LabelSet:
    """One label set of a closed window.

    A judged metric is shown as its estimate: events are selected for judging, so that their plain mean is biased.
    """

    aggregate: WindowAggregate
    results: Mapping[str, EstimateResult]
    booleans: Collection[str]
    """The metrics that are shown as shares."""
    judged: Collection[str]

    @classmethod
    def of(cls, aggregate: WindowAggregate, booleans: Collection[str]) -> LabelSet:
        """Return the label set of an aggregate."""
        judged = {parse_estimate_name(name)[0] for name in aggregate.estimates}
        return cls(aggregate, aggregate.results(), booleans, judged)

    def plain(self, *, boolean: bool) -> Iterator[tuple[str, Summary]]:
        """Yield the metrics that are not judged, with their summaries."""
        for name, summary in self.aggregate.metrics.items():
            if (name in self.booleans) == boolean and name not in self.judged:
                yield _name(name), summary


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family of the table, and the samples of one label set."""

    name: str
    kind: str
    meaning: str
    samples: Callable[[LabelSet], Samples]


def _events(labels: LabelSet) -> Samples:
    yield "", labels.aggregate.events


def _means(labels: LabelSet) -> Samples:
    for metric, summary in labels.plain(boolean=False):
        if (mean := summary.mean) is not None:
            yield f'metric="{metric}",', mean


def _quantiles(labels: LabelSet) -> Samples:
    for metric, summary in labels.plain(boolean=False):
        for share, value in zip(QUANTILES, summary.quantiles(QUANTILES), strict=False):
            yield f'metric="{metric}",quantile="{share}",', value


def _shares(labels: LabelSet) -> Samples:
    for metric, summary in labels.plain(boolean=True):
        if (mean := summary.mean) is not None:
            yield f'metric="{metric}",label="true",', mean
    for name, counts in labels.aggregate.categories.items():
        total = sum(counts.values())
        for label, count in counts.items():
            if name not in labels.judged:
                yield f'metric="{quoted(name)}",label="{quoted(label)}",', count / total


def _decisions(labels: LabelSet) -> Samples:
    for suite, counts in labels.aggregate.decisions.items():
        for status, count in counts.items():
            yield f'suite="{quoted(suite)}",status="{quoted(status)}",', count


def _judged(labels: LabelSet) -> Samples:
    for name in labels.results:
        metric, label = parse_estimate_name(name)
        count = (
            labels.aggregate.categories.get(metric, {}).get(label, 0)
            if label
            else labels.aggregate.estimates[name].count
        )
        yield _subject(name), count


def _estimates(limit: Literal["mean", "low", "high", "unanswered"]) -> Callable[[LabelSet], Samples]:
    def samples(labels: LabelSet) -> Samples:
        for name, result in labels.results.items():
            if (value := getattr(result, limit)) is not None:
                yield _subject(name), value

    return samples


def _flags(labels: LabelSet) -> Samples:
    for name, result in labels.results.items():
        for flag in result.flags:
            yield f'{_subject(name)}flag="{flag}",', 1


def _versions(labels: LabelSet) -> Samples:
    if labels.aggregate.versions:  # Windows that were not made from evaluations have none.
        yield "", len(labels.aggregate.versions)


def _subject(name: str) -> str:
    metric, label = parse_estimate_name(name)
    return f'metric="{quoted(metric)}",' + (f'label="{quoted(label)}",' if label else "")


_ESTIMATE = "of a judged metric, or of the share of a label, over all events that could be selected for judging"
FAMILIES = (
    Family("ragweir_window_events", "gauge", "Events of the last closed window", _events),
    Family("ragweir_window_mean", "gauge", "Mean of a metric in the last closed window", _means),
    Family("ragweir_window_quantile", "", "Quantile of a metric in the last closed window", _quantiles),
    Family("ragweir_window_share", "gauge", "Share of a label, or of true, in the last closed window", _shares),
    Family("ragweir_window_decisions", "gauge", "Decisions about judging in the last closed window", _decisions),
    Family(
        "ragweir_window_judged",
        "gauge",
        "Events judged by a metric, or with a label, in the last closed window",
        _judged,
    ),
    Family("ragweir_window_estimate", "gauge", f"Weighted mean {_ESTIMATE}", _estimates("mean")),
    Family("ragweir_window_estimate_low", "gauge", f"Lower 95 % limit {_ESTIMATE}", _estimates("low")),
    Family("ragweir_window_estimate_high", "gauge", f"Upper 95 % limit {_ESTIMATE}", _estimates("high")),
    Family(
        "ragweir_window_estimate_unanswered",
        "gauge",
        "Weighted share of the events selected for judging that have no value of a judged metric for which they should",
        _estimates("unanswered"),
    ),
    Family(
        "ragweir_window_estimate_flag", "gauge", "Always 1: a flag of an estimate in the last closed window", _flags
    ),
    Family(
        "ragweir_window_catalogue_versions",
        "gauge",
        "Number of catalogue versions that computed the last closed window",
        _versions,
    ),
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
        dimensions: the dimensions of the label sets.
        booleans: the metrics that are shown as shares.
    """

    def __init__(self, dimensions: Sequence[str], booleans: Collection[str]) -> None:
        self._names = label_names(dimensions)
        self._booleans = frozenset(booleans)
        self._chunks: dict[str, dict[str, str]] = {}
        self.content = b""
        """The bytes to serve. They are replaced as a whole, so that any thread may read them."""

    def show(self, closed: Iterable[ClosedWindow]) -> None:
        """Replace the windows of the same sizes."""
        for window in closed:
            self._chunks[window.size] = self._rendered(window)
        text = [head + "".join(chunk.get(name, "") for chunk in self._chunks.values()) for name, head in _HEADS.items()]
        self.content = "".join(text).encode()

    def _rendered(self, window: ClosedWindow) -> dict[str, str]:
        """Return the lines of a window by family."""
        lines: defaultdict[str, list[str]] = defaultdict(list)
        for values, aggregate in sorted(window.sets.items()):
            labels = LabelSet.of(aggregate, self._booleans)
            common = f'window="{window.size}"{pairs(self._names, values)}}}'
            for family in FAMILIES:
                lines[family.name] += [
                    f"{family.name}{{{own}{common} {value}\n" for own, value in family.samples(labels)
                ]
        lines[_END].append(f'{_END}{{window="{window.size}"}} {window.end_s}\n')
        return {name: "".join(own) for name, own in lines.items()}


@lru_cache(1_024)
def _name(metric: str) -> str:
    """Return the name of a metric as a label value; there are few, and each is shown many times."""
    return quoted(metric)


def pairs(names: Iterable[str], values: Iterable[str]) -> str:
    """Return further labels of a sample as text.

    >>> pairs(["model", "tenant"], ["m", "t"])
    ',model="m",tenant="t"'
    """
    return "".join(f',{name}="{quoted(value)}"' for name, value in zip(names, values, strict=True))


def label_names(dimensions: Sequence[str]) -> list[str]:
    """Return valid label names of dimensions; equal ones get their positions appended.

    >>> label_names(["model", "labels.region", "labels.größe"])
    ['model', 'labels_region', 'labels_gr__e']
    """
    names = [re.sub(r"[^a-zA-Z0-9_]", "_", name) for name in dimensions]
    return [name if names.count(name) == 1 else f"{name}_{position}" for position, name in enumerate(names)]


def quoted(value: str) -> str:
    r"""Return a label value, escaped. A shortened or cleaned value ends with a hash, so that it stays distinct.

    >>> print(quoted('say "hi"\n'))
    say \"hi\"\n
    >>> len(quoted("x" * 500)), quoted("x" * 500) == quoted("x" * 501)
    (120, False)
    """
    shown = _UNPRINTABLE.sub("\ufffd", value)
    if shown != value or len(value) > _MAX_CHARACTERS:
        mark = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        shown = f"{shown[: _MAX_CHARACTERS - 13]}~{mark}"
    return shown.translate(_ESCAPES)
