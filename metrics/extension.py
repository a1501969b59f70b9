"""Metrics from outside of ragweir: their checks when they are loaded, and the digest that identifies them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from hashlib import sha256
from itertools import islice
from typing import Any, get_args

from ragweir.errors import ConfigurationError
from ragweir.metrics.metric import Better, Flagged, Metric, Null, Unit
from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MOST = 1_000
"""Maximum number of metrics of one module."""
MAX_REASON_CHARACTERS = 200
"""Maximum length of the reason of a null."""


@dataclass(frozen=True, slots=True)
class Extension:
    """The metrics of one module, entry point or pack."""

    name: str
    """The same on every machine: it has no path."""
    version: str
    """Changes if the metrics may have other values for the same event."""
    metrics: tuple[Metric, ...]


def digest(extensions: Iterable[Extension]) -> str:
    """Return eight hexadecimal digits that change with a name, a version, or a field of a metric.

    >>> digest([Extension("mine.toml", "1", ())]) == digest([Extension("mine.toml", "2", ())])
    False
    """
    described = sorted([each.name, each.version, sorted(map(_described, each.metrics))] for each in extensions)
    return sha256(json.dumps(described).encode()).hexdigest()[:8]


def _described(metric: Metric) -> list[object]:
    """Return the fields of a metric that its values depend on, and those that tell readers how to take them."""
    question, needs, labels = metric.question or "", list(metric.needs), list(metric.labels)
    return [metric.name, metric.group, metric.unit, metric.better, needs, labels, question, metric.source, metric.cost]


def own_metrics(value: object, place: str, groups: Collection[str]) -> tuple[Metric, ...]:
    """Return the metrics that a module's attribute gives, whose results are checked whenever they are computed.

    Args:
        value: a metric or an iterable of metrics.
        place: the attribute, for errors.
        groups: the groups that ship with ragweir, which own metrics cannot join.

    Raises:
        ConfigurationError: if it gives something else, or a metric has a field that is wrong.

    >>> own_metrics([], "mine:METRICS", ())
    Traceback (most recent call last):
    ...
    ragweir.errors.ConfigurationError: mine:METRICS gives no metric
    """
    if isinstance(value, Metric):
        found: list[object] = [value]
    else:
        try:
            found = list(islice(value, _MOST + 1))  # type: ignore[call-overload]
        except (Exception, SystemExit) as error:
            raise ConfigurationError(
                f"{place} is neither a Metric nor an iterable of them: it is of type {type(value).__name__} "
                f"({type(error).__name__})"
            ) from None
    if not 0 < len(found) <= _MOST:
        raise ConfigurationError(f"{place} gives {f'more than {_MOST:,} metrics' if found else 'no metric'}")
    for number, metric in enumerate(found):
        if not isinstance(metric, Metric):
            raise ConfigurationError(f"{place}: item {number} is of type {type(metric).__name__}, not a Metric")
        if fault := next(_faults(metric, groups), None):
            raise ConfigurationError(f"{place}: the metric {metric.name!r:.80}: {fault}")
    metrics = [_guarded(metric) for metric in found if isinstance(metric, Metric)]
    if twice := sorted({one.name for one in metrics if sum(one.name == other.name for other in metrics) > 1}):
        raise ConfigurationError(f"{place}: two metrics are called {twice[0]}")
    return tuple(metrics)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value))


def _none_or(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


_NO_NAME = "is not a letter and then letters, digits or underscores, at most 64"
_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("compute", callable, "is no function"),
    ("name", _is_name, _NO_NAME),
    ("group", _is_name, _NO_NAME),
    ("unit", get_args(Unit).__contains__, f"is not one of {', '.join(get_args(Unit))}"),
    ("better", get_args(Better).__contains__, f"is not one of {', '.join(get_args(Better))}"),
    ("cost", ("free",).__contains__, "is not free, as that of an own metric has to be"),
    ("needs", _are_texts, "is not a tuple of names of fields of an interaction"),
    ("source", _is_text, "does not say where the definition is from"),
    ("order_free", lambda value: isinstance(value, bool), "is not True or False"),
    ("labels", _are_texts, "is not a tuple of texts"),
    ("aliases", _are_texts, "is not a tuple of texts"),
    ("question", _none_or(_is_text), "is no question id"),
    ("explain", _none_or(callable), "is no function"),
    ("meaning", _is_text, "is missing: the function needs a docstring, whose first line it is"),
)
"""The fields of an own metric, each with its test and the end of the sentence where that fails."""


def _faults(metric: Metric, groups: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each field that is wrong; the fields may have any type."""
    for field, is_right, why in _RULES:
        if not is_right(getattr(metric, field)):
            yield f"{field} {why}"
            return  # The other rules need the fields of those before them.
    if metric.group in groups:
        yield f'group {metric.group} ships with ragweir; take one of your own, such as "own"'
    if unknown := [need for need in metric.needs if need not in Interaction.model_fields]:
        yield f"needs has {unknown[0]!r:.80}, which is no field of an interaction"
    if (metric.unit == "category") != bool(metric.labels):
        yield "labels are those of a category: it needs some, and other units have none"


def _guarded(metric: Metric) -> Metric:
    """Return the metric with functions that raise where a result breaks the contract, so that it becomes null."""
    explain = metric.explain
    return replace(
        metric,
        compute=_checked(metric, metric.compute),
        explain=None if explain is None else _explaining(explain),
    )


def _checked(metric: Metric, compute: Callable[..., object]) -> Callable[[View], object]:
    low, high = metric.bounds
    text = metric.unit == "category"

    @wraps(compute)
    def checked(view: View) -> object:
        value = _called(compute, view)
        plain = value.value if isinstance(value, Flagged) else value
        if isinstance(plain, Null):
            if not _is_text(plain.reason) or len(plain.reason) > MAX_REASON_CHARACTERS:
                raise TypeError(f"a reason is not a text of 1 to {MAX_REASON_CHARACTERS} characters")
        elif text:
            if plain not in metric.labels:
                raise ValueError(f"the result {plain!r:.80} is not one of its labels")
        elif not isinstance(plain, float | int):
            raise TypeError(f"the result is of type {type(plain).__name__}, not a number or Null")
        elif (low is not None and plain < low) or (high is not None and plain > high):
            raise ValueError(f"the result {plain:g} is not within {metric.range}")
        elif metric.unit == "boolean" and plain not in (0, 1):
            raise ValueError(f"the result {plain:g} of a yes-or-no metric is not 0 or 1")
        elif isinstance(plain, int):
            float(plain)
        return value

    return checked


def _explaining(explain: Callable[[View], tuple[str, ...]]) -> Callable[[View], tuple[str, ...]]:
    @wraps(explain)
    def checked(view: View) -> tuple[str, ...]:
        lines = _called(explain, view)
        if not isinstance(lines, tuple | list) or not all(isinstance(line, str) for line in lines):
            raise TypeError("the explanation is not a tuple of texts")
        return tuple(lines)

    return checked


def _called(function: Callable[..., Any], view: View) -> Any:
    """Call a function whose author does not know that leaving the process ends a service."""
    try:
        return function(view)
    except SystemExit:
        raise RuntimeError("it called sys.exit") from None
