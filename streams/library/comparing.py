"""Comparison of two sides that are files, evaluations or data frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from ragweir.errors import ConfigurationError, PermanentError, Rejected
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import CARRIED_OVER, Evaluation
from ragweir.streams.library.arguments import SettingsArgument, settings_of
from ragweir.streams.library.explaining import catalogue
from ragweir.streams.library.frames import DataFrame, library_of, rows_of
from ragweir.streams.library.python_values import as_json
from ragweir.streams.settings import check_dimensions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragweir.streams.analysis.compare.comparison import Comparison

ComparedSide = str | os.PathLike[str] | Iterable[Evaluation | Rejected] | DataFrame
"""A file of evaluations, evaluations, or what `score_frame` gave."""
_DIMENSIONS = frozenset(CARRIED_OVER) - {"event_id", "labels"}


def compare(
    a: ComparedSide, b: ComparedSide, *, by: Sequence[str] = (), settings: SettingsArgument = None
) -> Comparison:
    """Compare two evaluations of the same events, as `ragweir compare` does.

    Events are paired by id; those that only one side has are counted.

    >>> import ragweir
    >>> def answers(*responses):
    ...     return [{"event_id": str(number), "query": "Who?", "response": response, "contexts": ["Ada wrote it."]}
    ...             for number, response in enumerate(responses)]
    >>> before = ragweir.score(answers(*["Ada wrote it."] * 20))
    >>> after = ragweir.score(answers(*["Ada wrote it."] * 10, *["Bob read a book."] * 10))
    >>> comparison = ragweir.compare(before, after)
    >>> comparison.pairs, comparison.failures("context_support -0.1")
    (20, ('context_support changed by -0.5 (-0.7401 to -0.2599); the limit is -0.1',))
    >>> comparison.failures("context_support -0.8")
    ()

    Args:
        a: the baseline: the path of a file of evaluations, in any format that `ragweir score` reads; evaluations, of
            which those that are `Rejected` are left out; or a data frame that `score_frame` gave, with its rejected
            rows left out.
        b: the side that is compared with it.
        by: dimensions whose values are compared separately as well: application, tenant, environment,
            pipeline_version, model, question_id or labels.NAME; of a data frame columns with these names.
        settings: see `score`.

    Returns:
        The comparison. Printed, it is a summary; `failures` checks conditions as `--fail-on` does.

    Raises:
        ConfigurationError: if there is no such dimension, or a setting is wrong.
        ValueError: if a data frame has no column `event_id`.
        PermanentError: if a file cannot be read or holds no evaluations, or is Parquet and the package duckdb is not
            installed.
        TypeError: if a side is something else.
    """
    from ragweir.streams.analysis.compare.compare import compare as compared  # noqa: PLC0415 - it imports NumPy

    try:
        check_dimensions(by)
    except ValueError as error:
        raise ConfigurationError(f"by: {error}") from None
    metrics = catalogue(settings_of(settings))
    with ExitStack() as stack:
        (first, name), (second, other) = (
            stack.enter_context(_file(side, letter, metrics)) for side, letter in ((a, "a"), (b, "b"))
        )
        return compared((first, second), (name, other), tuple(dict.fromkeys(by)), metrics)


@contextmanager
def _file(side: ComparedSide, letter: str, metrics: Mapping[str, Metric]) -> Iterator[tuple[Path, str]]:
    """Give a side's file and its name for the length of a `with` block."""
    if isinstance(side, str | os.PathLike):
        path = Path(side)
        if not path.is_file() or not os.access(path, os.R_OK):
            raise PermanentError(f"{path} is no file that can be read")
        yield path, str(path)
        return
    lines = _frame_lines(side, metrics) if library_of(side) else _evaluation_lines(side, letter)
    with NamedTemporaryFile(prefix="ragweir-compare-", suffix=".jsonl") as copy:
        copy.writelines(line + b"\n" for line in lines)
        copy.flush()
        yield Path(copy.name), letter


def _evaluation_lines(side: object, letter: str) -> Iterator[bytes]:
    if not isinstance(side, Iterable):
        raise TypeError(f"{letter} is a path, an iterable of evaluations or a data frame, not a {type(side).__name__}")
    for each in side:
        if isinstance(each, Evaluation):
            yield encode(each)
        elif not isinstance(each, Rejected):
            raise TypeError(f"{letter} holds a {type(each).__name__} in place of an evaluation")


def _frame_lines(frame: Any, metrics: Mapping[str, Metric]) -> Iterator[bytes]:
    """Yield the rows of a frame as evaluations, as far as a comparison reads those."""
    if "event_id" not in frame.columns:
        raise ValueError("the data frame has no column event_id; score_frame() makes one")
    labels = {name for name, metric in metrics.items() if metric.unit == "category"}
    for row in rows_of(frame, None):
        if not isinstance(row["event_id"], str | int):  # A row that was rejected.
            continue
        part: dict[str, object] = {name: row[name] for name in ("event_id", *_DIMENSIONS) if name in row}
        part["scores"] = {name: value for name, value in row.items() if name in metrics and name not in labels}
        part["categories"] = {name: value for name, value in row.items() if name in labels}
        part["labels"] = {name[7:]: value for name, value in row.items() if str(name).startswith("labels.")}
        yield as_json(part)
