"""Times as arguments of commands."""

from __future__ import annotations

from datetime import datetime, timedelta

from ragweir.errors import ConfigurationError
from ragweir.schemas.times import parse_rfc3339, parse_time
from ragweir.schemas.window import duration_s


def time_argument(text: str, flag: str, now: datetime | None = None) -> datetime:
    """Parse a time: RFC 3339, a date, or, if `now` is given, a duration before it.

    >>> time_argument("90m", "--from", time_argument("2026-11-22T12:00:00Z", "now")).isoformat()
    '2026-11-22T10:30:00+00:00'
    >>> time_argument("2026-11-22", "--to").isoformat()
    '2026-11-22T00:00:00+00:00'

    Raises:
        ConfigurationError: if it is no time.
    """
    if now is not None:
        try:
            return now - timedelta(seconds=duration_s(text))
        except (ValueError, OverflowError):
            pass
    try:
        return parse_rfc3339(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError:
        before = "" if now is None else ", nor a time before now such as 24h or 7d"
        raise ConfigurationError(f"{flag} {text!r} is no time such as 2026-11-21T10:00:00Z{before}") from None


def default_time_argument(text: str) -> datetime:
    """Parse the time of events that have none: RFC 3339, a date, or a number since 1970.

    >>> default_time_argument("2026-11-22") == default_time_argument("1795305600")
    True

    Raises:
        ConfigurationError: if it is no time.
    """
    try:
        return parse_time(text)
    except ValueError:
        raise ConfigurationError(
            f"--default-time {text!r} is no time such as 2026-11-21T10:00:00Z or 1795255200 (s, ms, us or ns)"
        ) from None
