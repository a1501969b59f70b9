"""Mergeable summaries of a metric's values: count, exact sums, extremes and a histogram.

Merging is associative and commutative with the empty summary as identity, so that partitions, parts and larger windows
come out the same in whatever order they are merged. Sums are integers of a fixed scale, so that no order of additions
changes them. Merging refuses summaries of different schemes.

A bounded metric counts its values in equal bins over its bounds, an unbounded one in logarithmic bins whose values
lie within 1 % of each other (Masson, Rim and Lee, DDSketch, 2019). So a quantile is off by at most one bin's width,
or by 1 % of itself. Bins are kept sparse: memory is that of the distinct bins met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil, isfinite, log
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.metric import Metric, Unit
from ragweir.schemas.window import MetricSummary

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Key = TypeVar("Key", int, str)

LINEAR_BINS = 100
ACCURACY = 0.01
_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_SMALLEST = 1e-9
"""What is nearer to 0 than this counts as 0 in a logarithmic histogram."""
_SHIFT = ceil(-log(_SMALLEST) / log(_GAMMA)) + 1
"""Makes the bin numbers of positive values positive, so that negative values can have the negative numbers."""
_FARTHEST = 2**16
"""No bin's number is farther from 0, not even that of the largest number there is."""
_EXACT = 2.0**53
_AS_NUMBER = 2**51
"""Sums below it come back exactly from their quotient by the scale; from 2**52 on the rounding already shows."""
_FINE, _COARSE = 1_000_000, 1_000
_COARSE_UNITS: frozenset[Unit] = frozenset({"ms", "count", "tokens_per_second"})


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a metric's values are summed and binned; two summaries merge only if theirs are equal.

    >>> Scheme(0.0, 1.0, 1, 1).name
    'linear:0:1:100'
    """

    low: float | None
    high: float | None
    """The bounds; None for logarithmic bins."""
    scale: int
    """Sums count in units of 1 / scale."""
    square_scale: int
    name: str = field(init=False)
    """As records have it: `linear:0:1:100` or `log:0.01`."""

    def __post_init__(self) -> None:
        name = f"log:{ACCURACY}" if self.high is None else f"linear:{self.low:g}:{self.high:g}:{LINEAR_BINS}"
        object.__setattr__(self, "name", name)

    def bins(self, values: Floats) -> Ints:
        """The bin of each value."""
        if self.low is not None and self.high is not None:
            # By way of fixed-point integers, so that 0.29 does not fall into the bin below it.
            width = (self.high - self.low) * self.scale / LINEAR_BINS
            offsets = np.rint((np.clip(values, self.low, self.high) - self.low) * self.scale)
            return np.minimum(np.floor_divide(offsets, width), LINEAR_BINS - 1).astype(np.int64)
        size = np.abs(values)
        numbers = np.ceil(np.log(np.maximum(size, _SMALLEST)) / log(_GAMMA)) + _SHIFT
        return np.where(size < _SMALLEST, 0, np.copysign(numbers, values)).astype(np.int64)

    def middle(self, number: int) -> float:
        """The value that stands for a bin."""
        if self.low is not None and self.high is not None:
            return self.low + (number + 0.5) * (self.high - self.low) / LINEAR_BINS
        if number == 0:
            return 0.0
        # From the lower edge, since the upper one may be too large for a number.
        size = _GAMMA ** (abs(number) - _SHIFT - 1) * (2 * _GAMMA / (_GAMMA + 1))
        return size if number > 0 else -size


DEFAULT_SCHEME = Scheme(None, None, _FINE, _FINE)


@cache
def scheme(metric: Metric) -> Scheme:
    """A metric's scheme, from its unit and bounds."""
    low, high = metric.bounds
    if metric.unit in _COARSE_UNITS:
        return Scheme(None, None, _COARSE, 1)
    return DEFAULT_SCHEME if low is None or high is None else Scheme(low, high, _FINE, _FINE)


@dataclass(slots=True)
class Summary:
    """A metric's values in brief. `total` and `squares` count in the scheme's units.

    >>> summary = Summary.of([0.2, 0.4, 0.9], Scheme(0.0, 1.0, 1_000_000, 1_000_000))
    >>> summary.count, summary.mean, summary.least, summary.most, summary.quantile(0.5)
    (3, 0.5, 0.2, 0.9, 0.405)
    """

    scheme: Scheme
    count: int = 0
    total: int = 0
    squares: int = 0
    least: float | None = None
    most: float | None = None
    bins: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Sequence[float], scheme: Scheme) -> Summary:
        """The summary of some finite values."""
        if not values:
            return cls(scheme)
        array = np.array(values, dtype=np.float64)
        return cls(
            scheme,
            len(values),
            sum(_units(value, scheme.scale) for value in values),
            sum(_square_units(value, scheme.square_scale) for value in values),
            float(array.min()),
            float(array.max()),
            dict(Counter(scheme.bins(array).tolist())),
        )

    def merge(self, other: Summary) -> None:
        """Take another summary in.

        Raises:
            ValueError: if the schemes differ.
        """
        if other.scheme is not self.scheme and other.scheme != self.scheme:
            raise ValueError(f"a summary of {other.scheme.name} cannot be merged into one of {self.scheme.name}")
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        if other.least is not None and (self.least is None or other.least < self.least):
            self.least = other.least
        if other.most is not None and (self.most is None or other.most > self.most):
            self.most = other.most
        bins = self.bins
        for number, count in other.bins.items():
            bins[number] = bins.get(number, 0) + count

    def since(self, earlier: Summary) -> Summary:
        """The values that came in after an earlier state of this summary. Its extremes are those of all values.

        >>> scheme = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
        >>> grown = Summary.of([0.2, 0.4, 0.9], scheme).since(Summary.of([0.9, 0.2], scheme))
        >>> grown.count, grown.mean, grown.bins
        (1, 0.4, {40: 1})

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        if self.scheme != earlier.scheme:
            raise ValueError(f"a summary of {earlier.scheme.name} is no earlier state of one of {self.scheme.name}")
        return Summary(
            self.scheme,
            growth(self.count, earlier.count),
            self.total - earlier.total,
            self.squares - earlier.squares,
            self.least,
            self.most,
            counts_since(self.bins, earlier.bins),
        )

    def copy(self) -> Summary:
        """The same, to be merged into."""
        return Summary(self.scheme, self.count, self.total, self.squares, self.least, self.most, dict(self.bins))

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self.total / (self.scheme.scale * self.count) if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value below which that share of the values lies, within the scheme's accuracy; None without values."""
        if self.least is None or self.most is None:
            return None
        wanted = share * (self.count - 1)
        passed = 0
        for number in sorted(self.bins):
            passed += self.bins[number]
            if passed > wanted:
                return min(max(self.scheme.middle(number), self.least), self.most)
        return self.most


def growth(count: int, earlier: int) -> int:
    """Return the growth of a count.

    Raises:
        ValueError: if it has shrunk.
    """
    if count < earlier:
        raise ValueError("a count of an earlier state is larger")
    return count - earlier


def counts_since(counts: Mapping[Key, int], earlier: Mapping[Key, int]) -> dict[Key, int]:
    """The counts that have grown, and how much.

    >>> counts_since({"a": 3, "b": 1}, {"b": 1})
    {'a': 3}

    Raises:
        ValueError: if one has shrunk.
    """
    grown = {name: growth(counts.get(name, 0), earlier.get(name, 0)) for name in (counts.keys() | earlier.keys())}
    return {name: count for name, count in grown.items() if count}


# Python's integers where numbers end, since no bound holds for what an application may report as its cost or time.
def _units(value: float, scale: int) -> int:
    units = value * scale
    return round(units) if isfinite(units) else int(value) * scale


def _square_units(value: float, scale: int) -> int:
    units = value * value * scale
    return round(units) if isfinite(units) else int(value) ** 2 * scale


def tally(schemes: Mapping[str, Scheme], values: Floats, groups: Ints) -> dict[int, dict[str, Summary]]:
    """The summaries of many events at once, per group and metric; those without values are left out.

    The same as `Summary.of` on each group's values, at a fraction of the cost per event.

    Args:
        schemes: the metrics, in the order of the columns.
        values: one row per event, one column per metric; NaN where there is no value.
        groups: the group of each event.
    """
    own = list(schemes.values())
    order = np.argsort(groups, kind="stable")
    values, groups = values[order], groups[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    with np.errstate(over="ignore"):
        scaled = np.rint(filled * np.array([scheme.scale for scheme in own], dtype=np.float64))
        squared = np.rint(filled * filled * np.array([scheme.square_scale for scheme in own], dtype=np.float64))
        # Beyond this the sums of 64-bit integers could overflow; Python's cannot.
        safe = (np.abs(scaled).sum(axis=0) < _EXACT) & (squared.sum(axis=0) < _EXACT)
    bins = _histograms(own, values, present, np.cumsum(np.r_[False, groups[1:] != groups[:-1]]))
    rows = zip(
        groups[starts].tolist(),
        np.add.reduceat(present, starts, axis=0, dtype=np.int64).tolist(),
        np.add.reduceat(np.where(safe, scaled, 0).astype(np.int64), starts, axis=0).tolist(),
        np.add.reduceat(np.where(safe, squared, 0).astype(np.int64), starts, axis=0).tolist(),
        np.fmin.reduceat(values, starts, axis=0).tolist(),
        np.fmax.reduceat(values, starts, axis=0).tolist(),
        strict=True,
    )
    summaries = {
        key: {
            name: Summary(scheme, count, total, squares, least, most, bins[row, column])
            for column, ((name, scheme), count, total, squares, least, most) in enumerate(
                zip(schemes.items(), *totals, strict=True)
            )
            if count
        }
        for row, (key, *totals) in enumerate(rows)
    }
    for column in np.flatnonzero(~safe).tolist():
        name = list(schemes)[column]
        for key, own_summaries in summaries.items():
            met = values[(groups == key) & present[:, column], column]
            if met.size:
                own_summaries[name] = Summary.of(met.tolist(), schemes[name])
    return summaries


def _histograms(
    schemes: Sequence[Scheme], values: Floats, present: NDArray[np.bool_], rows: Ints
) -> dict[tuple[int, int], dict[int, int]]:
    """The bins of each row and column, by sorting one code per value: its row, its column and its bin."""
    columns = len(schemes)
    cells = (rows[:, np.newaxis] * columns + np.arange(columns)) * (2 * _FARTHEST) + _FARTHEST
    codes = np.concatenate(
        [
            cells[:, own][present[:, own]] + scheme.bins(values[:, own][present[:, own]])
            for scheme in dict.fromkeys(schemes)
            if (own := [column for column, each in enumerate(schemes) if each == scheme])
        ]
    )
    codes, counts = np.unique(codes, return_counts=True)
    cell, number = codes // (2 * _FARTHEST), (codes % (2 * _FARTHEST) - _FARTHEST).tolist()
    firsts = np.flatnonzero(np.r_[True, cell[1:] != cell[:-1]]) if cell.size else cell
    ends, times = [*firsts[1:].tolist(), cell.size], counts.tolist()
    return {
        divmod(own, columns): dict(zip(number[first:end], times[first:end], strict=True))
        for own, first, end in zip(cell[firsts].tolist(), firsts.tolist(), ends, strict=False)
    }


def written(summary: Summary) -> dict[str, Any]:
    """A summary as records have it: sums as plain numbers, or as text where a number could not hold them exactly."""
    scheme = summary.scheme
    return {
        "count": summary.count,
        "sum": as_number(summary.total, scheme.scale),
        "sum_squares": as_number(summary.squares, scheme.square_scale),
        "min": summary.least,
        "max": summary.most,
        "histogram": {"scheme": scheme.name, "bins": summary.bins},
    }


def as_number(number: int, scale: int) -> float | str:
    """A sum in units of 1 / scale as records have it: a number, or its digits where a number could not hold them."""
    if abs(number) < _AS_NUMBER:
        return number / scale
    whole, rest = divmod(abs(number), scale)
    digits = len(str(scale)) - 1
    return f"{'-' if number < 0 else ''}{whole}" + (f".{rest:0{digits}d}" if digits else "")


def read(record: MetricSummary, own: Scheme) -> Summary:
    """A summary from a record.

    >>> own = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
    >>> summary = Summary.of([0.25, 0.5], own)
    >>> read(MetricSummary.model_validate(written(summary)), own) == summary
    True

    Raises:
        ValueError: if the record was made by another scheme.
    """
    if record.histogram.scheme != own.name:
        raise ValueError(f"a summary of {record.histogram.scheme} cannot be read as one of {own.name}")
    return Summary(
        own,
        record.count,
        as_units(record.sum, own.scale),
        as_units(record.sum_squares, own.square_scale),
        record.min,
        record.max,
        {int(number): count for number, count in record.histogram.bins.items()},
    )


def as_units(number: float | str, scale: int) -> int:
    """A sum of a record in units of 1 / scale."""
    if isinstance(number, float):
        return round(number * scale)
    whole, _, rest = number.partition(".")
    return int(whole + rest.ljust(len(str(scale)) - 1, "0"))
