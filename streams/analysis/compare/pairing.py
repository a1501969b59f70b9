"""Pairing of two sides' evaluations by event id.

One metric is taken out at a time, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.clusters import Floats, Ints, components
from ragweir.metrics.aggregation.paired_differences import OTHERS
from ragweir.schemas.evaluation import supersedes
from ragweir.streams.analysis.compare.columns import CLUSTERS, MAX_METRICS, Columns, in_other_process, read_columns
from ragweir.streams.analysis.compare.comparison import Side

MAX_VALUES = 20
"""Values of a dimension, or labels of a category, that are counted separately; the rest is counted together."""
NONE = "(none)"

_LARGE_BYTES = 64 * 1024 * 1024
"""Size of both files from which a second process is worth its start."""


class Pairing:
    """Pairs of two files, ordered by event id, so that the order of lines makes no difference.

    Args:
        files: evaluations in any format that is read; of several records with the same id one counts, by `supersedes`.
        names: display names of the sides.
        by: dimensions to read: fields of the evaluation, or `labels.NAME`.
        folder: directory of the columns.
        on_progress: called with the part of the files that is read, and the name of a file.

    Raises:
        PermanentError: if a file does not hold evaluations.
    """

    def __init__(
        self,
        files: Sequence[Path],
        names: Sequence[str],
        by: Sequence[str],
        folder: Path,
        on_progress: Callable[[float, str], None] = lambda _, __: None,
    ) -> None:
        self._names = tuple(names)
        self._sides = _read(files, names, by, folder, on_progress)
        self.metrics = _sorted(metric for side in self._sides for metric in side.metrics)
        self.categories = _sorted(category for side in self._sides for category in side.categories)
        if not self.metrics and not self.categories:
            raise PermanentError(f"neither {names[0]} nor {names[1]} holds scores; `ragweir score` makes evaluations")
        for side, name in zip(self._sides, names, strict=True):
            if side.nameless:
                raise PermanentError(
                    f"{side.nameless} of the lines of {name} have no event_id; it must be a file of evaluations"
                )
        self._newest = [_newest(side) for side in self._sides]
        self._lines = self._paired()

    def _paired(self) -> list[Ints]:
        """Return the lines of each pair on both sides, ordered by event id."""
        digests = [side.digests[lines] for side, lines in zip(self._sides, self._newest, strict=True)]
        both = np.concatenate(digests)
        order = np.lexsort((both[:, 1], both[:, 0]))
        # No id is there twice on one side, and the order of equal keys is kept: the first side comes first.
        firsts = np.flatnonzero((both[order[1:]] == both[order[:-1]]).all(axis=1))
        a = self._newest[0][order[firsts]]
        b = self._newest[1][order[firsts + 1] - len(digests[0])]
        paired = np.zeros(self._sides[0].lines, dtype=np.bool_)
        paired[a] = True
        ids = [
            own for own, is_paired in zip(self._sides[0].every_event_id(), paired.tolist(), strict=True) if is_paired
        ]
        by_line = np.argsort(a)
        by_id = by_line[sorted(range(len(ids)), key=ids.__getitem__)]
        return [a[by_id], b[by_id]]

    def clusters(self) -> Ints | None:
        """Return the cluster of each pair; None if each is by itself.

        Sessions and questions are those of the baseline, and for pairs without one there those of the other side.
        """
        found = []
        for name in CLUSTERS:
            a, b = (side.keys(name)[lines] for side, lines in zip(self._sides, self._lines, strict=True))
            found.append(np.where(a != 0, a, b))
        if not any(keys.any() for keys in found):
            return None
        numbers = components(found[0], found[1])
        return numbers if numbers.max(initial=-1) + 1 < len(self) else None

    def __len__(self) -> int:
        return len(self._lines[0])

    def sides(self) -> tuple[Side, Side]:
        """Return the contents of each side."""
        first, second = (self._side(place) for place in range(2))
        return first, second

    def _side(self, place: int) -> Side:
        side, newest = self._sides[place], self._newest[place]
        known, numbers = side.column("catalogue_version")
        counts = np.bincount(numbers[newest] + 1, minlength=len(known) + 1).tolist()
        versions = sorted((name, count) for name, count in zip((NONE, *known), counts, strict=True) if count)
        events = len(newest)
        return Side(self._names[place], side.lines, events, events - len(self), dict(versions))

    def values(self, metric: str) -> tuple[Floats, Floats]:
        """Return a metric of all pairs on both sides; NaN for none."""
        before, after = (side.scores(metric)[lines] for side, lines in zip(self._sides, self._lines, strict=True))
        return np.where(np.isfinite(before), before, np.nan), np.where(np.isfinite(after), after, np.nan)

    @property
    def times_ms(self) -> Ints:
        """Event times of all pairs, on the first side; `NO_TIME` for none."""
        return self._sides[0].times_ms[self._lines[0]]

    def labels(self, category: str) -> tuple[list[str], Ints, Ints]:
        """Return a category's labels by descending frequency, and the numbers of all pairs' labels; -1 for none."""
        columns = [side.column(f"categories.{category}") for side in self._sides]
        counts: Counter[str] = Counter()
        for known, numbers in columns:
            counts.update(
                dict(zip(known, np.bincount(numbers[numbers >= 0], minlength=len(known)).tolist(), strict=True))
            )
        frequent = _frequent(counts)
        before, after = (
            _renumbered(known, numbers[lines], frequent)
            for (known, numbers), lines in zip(columns, self._lines, strict=True)
        )
        return _with_others(frequent, max(before.max(initial=-1), after.max(initial=-1))), before, after

    def dimension(self, name: str) -> tuple[list[str], Ints]:
        """Return a dimension's values by descending frequency, and the numbers of all pairs' values.

        A pair whose sides differ has the value `before → after`.
        """
        (known_a, a), (known_b, b) = (side.column(f"by.{name}") for side in self._sides)
        # The number after the last one is that of no value.
        size = len(known_b) + 1
        codes, places = np.unique(
            (a[self._lines[0]] % (len(known_a) + 1)) * size + b[self._lines[1]] % size, return_inverse=True
        )
        texts_a, texts_b = ([text or NONE for text in (*known, "")] for known in (known_a, known_b))
        values = [
            texts_a[one] if texts_a[one] == texts_b[other] else f"{texts_a[one]} → {texts_b[other]}"
            for one, other in (divmod(code, size) for code in codes.tolist())
        ]
        counts: Counter[str] = Counter()
        for value, count in zip(values, np.bincount(places, minlength=len(values)).tolist(), strict=True):
            counts[value] += count
        frequent = _frequent(counts)
        numbers = _renumbered(values, places, frequent)
        return _with_others(frequent, numbers.max(initial=-1)), numbers

    def event_ids(self, places: Sequence[int]) -> list[str]:
        """Return the event ids of some pairs."""
        return [each.decode() for each in self._sides[0].event_ids(self._lines[0][list(places)].tolist())]


def _read(
    files: Sequence[Path],
    names: Sequence[str],
    by: Sequence[str],
    folder: Path,
    on_progress: Callable[[float, str], None],
) -> list[Columns]:
    """Read both files, large ones at the same time."""
    folders = [folder / side for side in "ab"]
    for own in folders:
        own.mkdir()
    sizes = [file.stat().st_size for file in files]
    is_large, done = min(sizes) >= _LARGE_BYTES, 0
    size = max(1, sizes[0] if is_large else sum(sizes))

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        on_progress(min(1.0, done / size) / 2, "reading both sides")

    with ExitStack() as stack:
        second: Callable[[], Columns] = partial(read_columns, files[1], names[1], by, folders[1], on_bytes)
        if is_large:
            second = stack.enter_context(in_other_process(files[1], names[1], by, folders[1]))
        return [read_columns(files[0], names[0], by, folders[0], on_bytes), second()]


def _newest(side: Columns) -> Ints:
    """Return the line of each event id that counts."""
    digests = side.digests
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    own = digests[order]
    is_first = np.append([True] * bool(len(own)), (own[1:] != own[:-1]).any(axis=1))
    firsts = np.flatnonzero(is_first)
    counting = order[firsts]
    # The few events with several lines, whose lines stand in their order.
    event = np.cumsum(is_first) - 1
    repeated = np.flatnonzero(~is_first)
    versions = dict(zip(firsts.tolist(), side.versions(counting), strict=True)) if len(repeated) else {}
    for place, version in zip(repeated.tolist(), side.versions(order[repeated]), strict=True):
        first = int(firsts[event[place]])
        if supersedes(versions[first], version):
            versions[first], counting[event[place]] = version, order[place]
    return np.sort(counting)


def _frequent(counts: Counter[str]) -> list[str]:
    """Return the most frequent values, and of equally frequent ones the first by their characters."""
    return sorted((text for text, count in counts.items() if count), key=lambda text: (-counts[text], text))[
        :MAX_VALUES
    ]


def _renumbered(known: Sequence[str], numbers: Ints, frequent: Sequence[str]) -> Ints:
    """Return numbers by frequency for numbers of known values; those of the other values are one more than the last."""
    places = {text: place for place, text in enumerate(frequent)}
    table = np.array([*(places.get(text, len(frequent)) for text in known), -1], dtype=np.int64)
    return np.asarray(table[numbers])


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    found = sorted(set(names))
    if len(found) > MAX_METRICS:
        raise PermanentError(f"the metrics of both sides are over {MAX_METRICS}")
    return tuple(found)


def _with_others(known: list[str], most: int) -> list[str]:
    return [*known, OTHERS] if most >= len(known) else known
