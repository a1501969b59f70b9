"""Mergeable summaries of a metric's values: count, exact sums, extremes and a histogram.

Merging is associative and commutative with the empty summary as identity, so that partitions, parts and larger windows
can be merged in any order. Sums are integers of a fixed scale. Only summaries of the same scheme can be merged.

A bounded metric has equal bins over its bounds, an unbounded one logarithmic bins whose values lie within 1 % of each
other (Masson, Rim and Lee, DDSketch, 2019). So the error of a quantile is at most one bin's width, or 1 %. Bins are
sparse: memory grows with the distinct bins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil, isfinite, log
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.metric import Metric, Unit
from ragweir.schemas.window_record import SummaryRecord

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Key = TypeVar("Key", int, str)

LINEAR_BINS = 100
ACCURACY = 0.01
_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_SMALLEST = 1e-9
"""Values nearer to 0 than this count as 0 in a logarithmic histogram."""
_SHIFT = ceil(-log(_SMALLEST) / log(_GAMMA)) + 1
"""Offset that makes the bin numbers of positive values positive; negative values have the negative numbers."""
_MAX_NUMBER = 2**51
"""Sums below this are restored exactly from their quotient by the scale; from 2**52 on they are rounded."""
_FINE, _COARSE = 1_000_000, 1_000
_COARSE_UNITS: frozenset[Unit] = frozenset({"ms", "count", "tokens_per_second"})


@dataclass(frozen=True, slots=True)
class Scheme:
    """Units of a metric's sums and bins of its histogram. Only summaries of equal schemes can be merged.

    >>> Scheme(0.0, 1.0, 1, 1).name
    'linear:0:1:100'
    """

    low: float | None
    high: float | None
    """Bounds of the values; None for logarithmic bins. Sums are in units of 1 / scale."""
    scale: int
    square_scale: int
    name: str = field(init=False)
    """Name in records: `linear:0:1:100` or `log:0.01`."""

    def __post_init__(self) -> None:
        name = f"log:{ACCURACY}" if self.high is None else f"linear:{self.low:g}:{self.high:g}:{LINEAR_BINS}"
        object.__setattr__(self, "name", name)

    def bins(self, values: Floats) -> Ints:
        """Return the bin of each value."""
        if self.low is not None and self.high is not None:
            # In fixed-point integers, or 0.29 would be in the bin below.
            width = (self.high - self.low) * self.scale / LINEAR_BINS
            offsets = np.rint((np.clip(values, self.low, self.high) - self.low) * self.scale)
            return np.minimum(np.floor_divide(offsets, width), LINEAR_BINS - 1).astype(np.int64)
        size = np.abs(values)
        numbers = np.ceil(np.log(np.maximum(size, _SMALLEST)) / log(_GAMMA)) + _SHIFT
        return np.where(size < _SMALLEST, 0, np.copysign(numbers, values)).astype(np.int64)

    def middle(self, number: int) -> float:
        """Return the value that represents a bin."""
        if self.low is not None and self.high is not None:
            return self.low + (number + 0.5) * (self.high - self.low) / LINEAR_BINS
        if number == 0:
            return 0.0
        # From the lower edge, since the upper one may be too large for a float.
        size = _GAMMA ** (abs(number) - _SHIFT - 1) * (2 * _GAMMA / (_GAMMA + 1))
        return size if number > 0 else -size


DEFAULT_SCHEME = Scheme(None, None, _FINE, _FINE)


@cache
def scheme(metric: Metric) -> Scheme:
    """Return a metric's scheme, which follows from its unit and bounds."""
    low, high = metric.bounds
    if metric.unit in _COARSE_UNITS:
        return Scheme(None, None, _COARSE, 1)
    return DEFAULT_SCHEME if low is None or high is None else Scheme(low, high, _FINE, _FINE)


@dataclass(slots=True)
class Summary:
    """A summary of a metric's values. `total` and `squares` are in the scheme's units.

    >>> summary = Summary.of([0.2, 0.4, 0.9], Scheme(0.0, 1.0, 1_000_000, 1_000_000))
    >>> summary.count, summary.mean, summary.minimum, summary.maximum, summary.quantile(0.5)
    (3, 0.5, 0.2, 0.9, 0.405)
    """

    scheme: Scheme
    count: int = 0
    total: int = 0
    squares: int = 0
    minimum: float | None = None
    maximum: float | None = None
    bins: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Sequence[float], scheme: Scheme) -> Summary:
        """Return the summary of finite values."""
        if not values:
            return cls(scheme)
        array = np.array(values, dtype=np.float64)
        return cls(
            scheme,
            len(values),
            sum(_units(value, 1, scheme.scale) for value in values),
            sum(_units(value, 2, scheme.square_scale) for value in values),
            float(array.min()),
            float(array.max()),
            dict(Counter(scheme.bins(array).tolist())),
        )

    def merge(self, other: Summary) -> None:
        """Add the values of another summary.

        Raises:
            ValueError: if the schemes differ.
        """
        self.check_scheme(other.scheme)
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        if other.minimum is not None and (self.minimum is None or other.minimum < self.minimum):
            self.minimum = other.minimum
        if other.maximum is not None and (self.maximum is None or other.maximum > self.maximum):
            self.maximum = other.maximum
        bins = self.bins
        for number, count in other.bins.items():
            bins[number] = bins.get(number, 0) + count

    def check_scheme(self, other: Scheme) -> None:
        """Check that a summary of another scheme can be merged.

        Raises:
            ValueError: if it is not this one's scheme.
        """
        if other is not self.scheme and other != self.scheme:
            raise ValueError(f"a summary of {other.name} cannot be merged into one of {self.scheme.name}")

    def since(self, earlier: Summary) -> Summary:
        """Return the summary of the values that were added after an earlier state, with the extremes of all.

        >>> scheme = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
        >>> grown = Summary.of([0.2, 0.4, 0.9], scheme).since(Summary.of([0.9, 0.2], scheme))
        >>> grown.count, grown.mean, grown.bins
        (1, 0.4, {40: 1})

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        if self.scheme != earlier.scheme:
            raise ValueError(f"a summary of {earlier.scheme.name} is no earlier state of one of {self.scheme.name}")
        return replace(
            self,
            count=growth(self.count, earlier.count),
            total=self.total - earlier.total,
            squares=self.squares - earlier.squares,
            bins=counts_since(self.bins, earlier.bins),
        )

    def copy(self) -> Summary:
        """Return a copy that can be merged into."""
        return Summary(self.scheme, self.count, self.total, self.squares, self.minimum, self.maximum, dict(self.bins))

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self.total / (self.scheme.scale * self.count) if self.count else None

    def quantile(self, share: float) -> float | None:
        """Return a quantile, within the scheme's accuracy; None without values."""
        return next(iter(self.quantiles((share,))), None)

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Return quantiles, within the scheme's accuracy, of ascending shares; none without values."""
        if self.minimum is None or self.maximum is None:
            return []
        found: list[float] = []
        bins = iter(sorted(self.bins))
        passed, number = 0, 0
        for share in shares:
            wanted = share * (self.count - 1)
            while passed <= wanted and (following := next(bins, None)) is not None:
                number = following
                passed += self.bins[number]
            if passed > wanted:
                found.append(min(max(self.scheme.middle(number), self.minimum), self.maximum))
            else:
                found.append(self.maximum)
        return found


def growth(count: int, earlier: int) -> int:
    """Return the growth of a count.

    Raises:
        ValueError: if it has shrunk.
    """
    if count < earlier:
        raise ValueError("a count of an earlier state is larger")
    return count - earlier


def counts_since(counts: Mapping[Key, int], earlier: Mapping[Key, int]) -> dict[Key, int]:
    """Return the growth of counts, without those that have not grown.

    >>> counts_since({"a": 3, "b": 1}, {"b": 1})
    {'a': 3}

    Raises:
        ValueError: if one has shrunk.
    """
    grown = {name: growth(counts.get(name, 0), earlier.get(name, 0)) for name in (counts.keys() | earlier.keys())}
    return {name: count for name, count in grown.items() if count}


def _units(value: float, power: int, scale: int) -> int:
    """Return a power of a value in units of 1 / scale; values of applications may be too large for floats."""
    units = (value if power == 1 else value * value) * scale
    return round(units) if isfinite(units) else int(value) ** power * scale


def to_record(summary: Summary) -> dict[str, Any]:
    """Return the record of a summary."""
    scheme, total, squares = summary.scheme, summary.total, summary.squares
    # The calls would double the time of nearly all summaries.
    exact = -_MAX_NUMBER < total < _MAX_NUMBER and squares < _MAX_NUMBER
    return {
        "count": summary.count,
        "sum": total / scheme.scale if exact else encode_sum(total, scheme.scale),
        "sum_squares": squares / scheme.square_scale if exact else encode_sum(squares, scheme.square_scale),
        "min": summary.minimum,
        "max": summary.maximum,
        "histogram": {"scheme": scheme.name, "bins": summary.bins},
    }


def encode_sum(number: int, scale: int) -> float | str:
    """Return a sum in units of 1 / scale as a number, or as its digits if a float cannot represent it exactly."""
    if abs(number) < _MAX_NUMBER:
        return number / scale
    whole, rest = divmod(abs(number), scale)
    digits = len(str(scale)) - 1
    return f"{'-' if number < 0 else ''}{whole}" + (f".{rest:0{digits}d}" if digits else "")


def from_record(record: SummaryRecord, own: Scheme) -> Summary:
    """Return the summary of a record.

    >>> from msgspec import convert
    >>> own = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
    >>> summary = Summary.of([0.25, 0.5], own)
    >>> from_record(convert(to_record(summary), SummaryRecord, str_keys=True), own) == summary
    True

    Raises:
        ValueError: if the record has another scheme.
    """
    if record.histogram.scheme != own.name:
        raise ValueError(f"a summary of {record.histogram.scheme} cannot be read as one of {own.name}")
    return Summary(
        own,
        record.count,
        decode_sum(record.sum, own.scale),
        decode_sum(record.sum_squares, own.square_scale),
        record.min,
        record.max,
        dict(record.histogram.bins),
    )


def decode_sum(number: float | str, scale: int) -> int:
    """Return a sum of a record in units of 1 / scale."""
    if isinstance(number, float):
        return round(number * scale)
    whole, _, rest = number.partition(".")
    return int(whole + rest.ljust(len(str(scale)) - 1, "0"))
