"""Queries for answers: the state of a list of answers, as it stands in the query string of a URL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode

from typing_extensions import override

from ragweir.errors import BadQuery
from ragweir.schemas.times import parse_time

PAGE_ROWS = 50
MAX_ROWS = 1_000
"""Limit for the answers of a page."""
FIELDS = ("application", "tenant", "environment", "pipeline_version", "model")
"""The fields of an evaluation that a query can name as dimensions, beside `labels.NAME` and `categories.NAME`."""
NESTED = ("labels", "categories")
TIME = "time"
"""The order by time of the event."""

_MAX_BYTES = 8 * 1024
_MAX_PARAMETERS = 100
_MAX_VALUE = 1_000
_MAX_NAME = 200
_MAX_NUMBER = 40
"""Limits on a query string: its bytes, its parameters, and the characters of a value, a name and a number."""
_EXPONENT = re.compile(r"[0-9.]{1,25}e\+?[0-9]{1,2}", re.IGNORECASE)
_YES_NO = {"yes": True, "no": False}


class Cursor(NamedTuple):
    """The place of an answer in an order: the value by which answers are sorted, and the number of its row."""

    key: float
    """The value; infinity for an answer that has none, which comes last."""
    row: int

    @override
    def __str__(self) -> str:
        return f"{self.key!r}~{self.row}"


@dataclass(frozen=True, slots=True)
class MetricRange:
    """A range of a metric, limits included. An answer without the metric is in no range."""

    metric: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """A list of answers: which ones, in which order, and which page of it.

    All conditions hold at once; several values of one dimension are alternatives.

    >>> query = AnswerQuery.parse("application=hr&min.unsupported_risk=0.5&sort=unsupported_risk&order=asc")
    >>> query.where, query.ranges, query.sort
    ((('application', 'hr'),), (MetricRange(metric='unsupported_risk', low=0.5, high=None),), 'unsupported_risk')
    >>> str(query)
    'application=hr&min.unsupported_risk=0.5&sort=unsupported_risk&order=asc'
    """

    where: tuple[tuple[str, str], ...] = ()
    """Dimensions with a value: `application`, `tenant`, `environment`, `pipeline_version`, `model`, `labels.NAME` or
    `categories.NAME`; an empty value is that of answers that have none. In the URL each is a parameter of its own."""
    since: datetime | None = None
    """Time of the first event (`from`): RFC 3339, or a number since 1970."""
    until: datetime | None = None
    """Time before which events are (`to`)."""
    ranges: tuple[MetricRange, ...] = ()
    """Ranges of metrics (`min.METRIC` and `max.METRIC`)."""
    flags: tuple[str, ...] = ()
    """Flags that an answer has, all of them (`flag`)."""
    slo: str | None = None
    """Name of an SLO for which an answer is bad, by the rule of `ragweir slo rehearse` (`slo`)."""
    judged: bool | None = None
    """True for judged answers, False for the others (`judged=yes` or `no`)."""
    labelled: bool | None = None
    """True for answers with a label of a person, False for the others (`labelled=yes` or `no`)."""
    given: tuple[tuple[str, str], ...] = ()
    """Feedback by name and value, as windows count it (`feedback.NAME`); values of one name are alternatives."""
    has_feedback: bool | None = None
    """True for answers about which users gave feedback, False for the others (`feedback=yes` or `no`)."""
    id_part: str | None = None
    """Part of the event id (`id`)."""
    session: str | None = None
    """Session of the answers (`session`)."""
    question: str | None = None
    """The `question_id` of the answers (`question`)."""
    trace: str | None = None
    """Trace of the answers (`trace`)."""
    document: str | None = None
    """Id of a document among the contexts (`document`)."""
    sort: str = TIME
    """`time`, or the metric by which answers are sorted; answers without it come last."""
    ascending: bool = False
    """True if the smallest value comes first (`order=asc`)."""
    after: Cursor | None = None
    """The answers after this place (`after`)."""
    before: Cursor | None = None
    """The answers before this place, nearest to it (`before`); not together with `after`."""
    limit: int = PAGE_ROWS
    """Number of answers of a page, at most 1,000 (`limit`)."""

    @classmethod
    def parse(cls, text: str, ignored: Iterable[str] = ()) -> Self:
        """Parse the query string of a URL, without its question mark.

        Args:
            text: the query string.
            ignored: names of parameters that say nothing about the list, such as those of the page.

        Raises:
            BadQuery: if it is none.
        """
        found: dict[str, Any] = {}
        ranges: dict[str, MetricRange] = {}
        listed: dict[str, list[Any]] = {"where": [], "given": [], "flags": []}
        without = frozenset(ignored)
        for name, value in _pairs(text):
            side, _, metric = name.partition(".")
            if name in without:
                continue
            if name in FIELDS or (side in NESTED and metric):
                listed["where"].append((name, value))
            elif side == _FEEDBACK and metric:
                listed["given"].append((metric, value))
            elif side in _SIDES and metric:
                old = ranges.get(metric, MetricRange(metric))
                if getattr(old, _SIDES[side]) is not None:
                    raise BadQuery(f"{name} is there twice")
                number = _number(name, value)
                ranges[metric] = replace(old, low=number) if side == "min" else replace(old, high=number)
            elif name == _FLAG:
                listed["flags"].append(_text(name, value))
            else:
                _add(found, name, value)
        if {"after", "before"} <= found.keys():
            raise BadQuery("after and before are there, and one of them is a place in the list")
        found |= {field: tuple(sorted(set(values))) for field, values in listed.items()}
        return cls(ranges=tuple(ranges[each] for each in sorted(ranges)), **found)

    @override
    def __str__(self) -> str:
        """Return the query string, which `parse` reads to an equal query."""
        return urlencode(list(self._parameters()), errors="surrogatepass")

    def _parameters(self) -> Iterator[tuple[str, str]]:
        yield from self.where
        for each in self.ranges:
            for side, field in _SIDES.items():
                number = getattr(each, field)
                if number is not None:
                    yield f"{side}.{each.metric}", repr(number)
        yield from ((_FLAG, flag) for flag in self.flags)
        yield from ((f"{_FEEDBACK}.{name}", value) for name, value in self.given)
        for name, parameter in _PARAMETERS.items():
            value = getattr(self, parameter.field)
            if name != _FLAG and value != parameter.default:
                yield name, parameter.written(value)

    def page(self, *, after: Cursor | None = None, before: Cursor | None = None) -> Self:
        """Return the query for another page of the same list; the first one without a place."""
        return replace(self, after=after, before=before)


def _pairs(text: str) -> list[tuple[str, str]]:
    if len(text) > _MAX_BYTES:
        raise BadQuery(f"a query string has at most {_MAX_BYTES:,} characters")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS, errors="strict")
    except UnicodeDecodeError:
        raise BadQuery("the query string is not UTF-8") from None
    except ValueError:
        raise BadQuery(f"a query string has at most {_MAX_PARAMETERS} parameters") from None
    for name, value in pairs:
        if len(name) > _MAX_NAME or len(value) > _MAX_VALUE:
            raise BadQuery(f"a value has at most {_MAX_VALUE:,} characters, and a name {_MAX_NAME}")
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError:
            raise BadQuery("the query string is not UTF-8") from None
    return pairs


def _add(found: dict[str, Any], name: str, value: str) -> None:
    """Add the value of a parameter to the fields of a query."""
    if (parameter := _PARAMETERS.get(name)) is None:
        raise BadQuery(f"there is no parameter {name!r}")
    if parameter.field in found:
        raise BadQuery(f"{name} is there twice")
    found[parameter.field] = parameter.read(name, value)


def _number(name: str, value: str) -> float:
    try:
        number = float(value) if len(value) <= _MAX_NUMBER else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadQuery(f"{name} needs a number")
    return number


def _text(name: str, value: str) -> str:
    if not value:
        raise BadQuery(f"{name} needs a value")
    return value


def _time(name: str, value: str) -> datetime:
    # Prometheus writes the seconds of its templates so.
    exact = str(int(float(value))) if _EXPONENT.fullmatch(value) and value.count(".") < 2 else value
    try:
        return parse_time(exact)
    except ValueError:
        raise BadQuery(f"{name} needs a time: RFC 3339, or a number of s, ms, us or ns since 1970") from None


def _yes_no(name: str, value: str) -> bool:
    if value not in _YES_NO:
        raise BadQuery(f"{name} is yes or no")
    return _YES_NO[value]


def _order(name: str, value: str) -> bool:
    if value not in ("asc", "desc"):
        raise BadQuery(f"{name} is asc or desc")
    return value == "asc"


def _cursor(name: str, value: str) -> Cursor:
    key, _, row = value.partition("~")
    try:
        number = float(key) if len(value) <= 2 * _MAX_NUMBER else math.nan
        place = int(row) if row.isascii() and row.isdecimal() else -1
    except ValueError:
        number, place = math.nan, -1
    if math.isnan(number) or not 0 <= place < 2**63:
        raise BadQuery(f"{name} is no place in a list")
    return Cursor(number, place)


def _limit(name: str, value: str) -> int:
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 9 else 0
    if not 1 <= number <= MAX_ROWS:
        raise BadQuery(f"{name} is a number from 1 to {MAX_ROWS:,}")
    return number


class _Parameter(NamedTuple):
    """A parameter of the query string."""

    field: str
    """The field of the query."""
    read: Callable[[str, str], Any]
    default: Any = None
    written: Callable[[Any], str] = str


def _written_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _written_yes_no(value: bool) -> str:  # noqa: FBT001 - as the table calls it
    return "yes" if value else "no"


_FLAG, _FEEDBACK = "flag", "feedback"
_SIDES = {"min": "low", "max": "high"}
_PARAMETERS = {
    "from": _Parameter("since", _time, written=_written_time),
    "to": _Parameter("until", _time, written=_written_time),
    _FLAG: _Parameter("flags", _text, ()),
    "slo": _Parameter("slo", _text),
    "judged": _Parameter("judged", _yes_no, written=_written_yes_no),
    "labelled": _Parameter("labelled", _yes_no, written=_written_yes_no),
    _FEEDBACK: _Parameter("has_feedback", _yes_no, written=_written_yes_no),
    "id": _Parameter("id_part", _text),
    "session": _Parameter("session", _text),
    "question": _Parameter("question", _text),
    "trace": _Parameter("trace", _text),
    "document": _Parameter("document", _text),
    "sort": _Parameter("sort", _text, TIME),
    "order": _Parameter("ascending", _order, default=False, written=lambda value: "asc" if value else "desc"),
    "after": _Parameter("after", _cursor),
    "before": _Parameter("before", _cursor),
    "limit": _Parameter("limit", _limit, PAGE_ROWS),
}
"""The parameters by name, beside dimensions and ranges."""
