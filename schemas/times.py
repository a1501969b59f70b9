"""Parsing of times: RFC 3339 text, or a number of s, ms, us or ns since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

Unit = Literal["s", "ms", "us", "ns"]
UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns")

FIRST_YEAR, LAST_YEAR = 2000, 2099
"""The plausible years of an event; a time in another year was probably written in another unit."""

_MICROSECONDS: dict[Unit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?")
_DATE_DIGITS = 8


def _in_utc(time: datetime) -> datetime:
    if time.tzinfo is UTC:
        return time
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def parse_rfc3339(text: str) -> datetime:
    """Parse RFC 3339 text to a time in UTC; a time without an offset is in UTC.

    A leap second is parsed as the second after it, as in Unix time.

    >>> parse_rfc3339("2026-11-21T12:00:00.250+02:00")
    datetime.datetime(2026, 11, 21, 10, 0, 0, 250000, tzinfo=datetime.timezone.utc)

    Raises:
        ValueError: if it is not one, or lies outside the years 1 to 9999.
    """
    try:
        if text[14:19] == "59:60":
            return parse_rfc3339(f"{text[:17]}59{text[19:]}") + timedelta(seconds=1)
        return _in_utc(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        raise ValueError("not an RFC 3339 time") from None


def epoch_number(value: object) -> int | float | None:
    """Return a time that is a number, or the text of one, as a number; None for any other value.

    Text of eight digits is a date (20261121), as in ISO 8601.

    >>> epoch_number(1764000000250), epoch_number("1764000000250000000"), epoch_number("1764000000.25")
    (1764000000250, 1764000000250000000, 1764000000.25)
    >>> epoch_number("20261121"), epoch_number("2026-11-21T12:00:00Z"), epoch_number(True)
    (None, None, None)
    """
    if isinstance(value, str):
        # Most texts are RFC 3339 dates, which have a hyphen here.
        if value[4:5] == "-" or (len(value) == _DATE_DIGITS and value.isdecimal()) or not _NUMBER.fullmatch(value):
            return None
        return float(value) if "." in value else int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def unit_of(number: float) -> Unit:
    """Return the unit of a number since 1970 by its magnitude: below 1e11 s, below 1e14 ms, below 1e17 us, else ns.

    >>> [unit_of(1764000000 * 1000**power) for power in range(4)]
    ['s', 'ms', 'us', 'ns']
    """
    size = abs(number)
    return "s" if size < 1e11 else "ms" if size < 1e14 else "us" if size < 1e17 else "ns"


def from_epoch(number: float, unit: Unit) -> datetime:
    """Return the time at a number of units since 1970, to the microsecond.

    Raises:
        ValueError: if it lies outside the years 1 to 9999.
    """
    try:
        # No float arithmetic on integers: a double of nanoseconds is exact only to 256 of them.
        return _EPOCH + timedelta(0, 0, number // 1000 if unit == "ns" else number * _MICROSECONDS[unit])
    except (ValueError, OverflowError):
        raise ValueError("outside the years 1 to 9999") from None


def parse_time(value: object) -> datetime:
    """Parse a time of an event to UTC: RFC 3339 text, or a number since 1970, whose unit follows from its magnitude.

    >>> parse_time(1764000000) == parse_time("1764000000000000000") == parse_time("2025-11-24T16:00:00Z")
    True

    Raises:
        ValueError: if it is neither, or lies outside the years 1 to 9999.
    """
    if type(value) is int and 10**11 <= value < 10**14:
        return _EPOCH + timedelta(0, 0, value * 1_000)  # A fast path: most applications send milliseconds.
    if type(value) is str and value[4:5] == "-":  # Another one, for RFC 3339 as most programs write it.
        try:
            return _in_utc(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            pass
    number = epoch_number(value)
    if number is not None:
        return from_epoch(number, unit_of(number))
    if isinstance(value, datetime):
        return _in_utc(value)
    try:
        if isinstance(value, str):
            return parse_rfc3339(value)
    except ValueError:
        pass
    raise ValueError("not a time: write RFC 3339, or a number of s, ms, us or ns since 1970")
