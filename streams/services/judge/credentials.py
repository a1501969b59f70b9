"""Headers and query by which the endpoint recognises the caller: from settings, environment, files and a function.

They are read once, and again when the endpoint rejects them, so that a key can be replaced without a restart.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from ragweir.errors import ConfigurationError
from ragweir.streams.runtime.awake import result_in_time
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.judge.protocol import EndpointUnusable
from ragweir.streams.settings import JudgeSettings, SecretSource, header_value, import_function

_RENEWAL_S = 30.0
"""The least time between two renewals, so that credentials which are rejected each time are not read all the time."""
_EARLY_S = 60.0
"""The time before their end at which the function's headers are replaced."""
_OWN_KEY = frozenset({"api-key", "authorization", "x-api-key", "x-goog-api-key"})
"""Headers in place of that with `judge.api_key`."""
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """The headers and the query that a call carries."""

    headers: Mapping[str, str]
    query: Mapping[str, str]


class CredentialSource:
    """Gives the credentials of each call, on one event loop.

    Args:
        settings: the judge's.
        basic: the value of the header Authorization from the URL; empty without a user.
        clock: epoch seconds.

    Raises:
        ConfigurationError: if a file or variable cannot be read, or `judge.auth` names no function.
    """

    def __init__(self, settings: JudgeSettings, basic: str = "", clock: Callable[[], float] = machine.time) -> None:
        self._settings, self._basic, self._clock = settings, basic, clock
        self._function = import_function(settings.auth) if settings.auth else None
        self._current = self._fixed = self._read()
        self._renew_at = self._until = -math.inf if self._function else math.inf
        """The times from which the function's headers are to be replaced, and until which they hold."""
        self._reread_at = -math.inf
        self._lock = asyncio.Lock()

    async def current(self) -> Credentials:
        """Return the credentials of a call that is made now.

        Raises:
            EndpointUnusable: if the function gives none.
        """
        if self._clock() >= self._renew_at:
            async with self._lock:
                if self._clock() >= self._renew_at:  # No other call has done it.
                    await self._call_function()
        return self._current

    async def renew(self, rejected: Credentials) -> bool:
        """Read credentials again that were rejected; return whether there are others now.

        Raises:
            EndpointUnusable: if the function gives none.
        """
        async with self._lock:
            if rejected is not self._current:
                return True  # Another call has renewed them.
            if 0 <= self._clock() - self._reread_at < _RENEWAL_S:
                return False
            self._reread_at = self._clock()
            try:
                self._fixed = self._read()
            except ConfigurationError as error:
                _log.warning("the judge's credentials cannot be read again", why=str(error))
                return False
            if self._function is None:
                self._replace(self._fixed)
            else:
                self._until = -math.inf
                await self._call_function()
            return self._current is not rejected

    def _replace(self, found: Credentials) -> None:
        self._current = self._current if found == self._current else found

    def _read(self) -> Credentials:
        settings = self._settings
        headers = {name: _value(value, f"judge.headers.{name}") for name, value in settings.headers.items()}
        if self._basic:
            headers["authorization"] = self._basic
        elif not _OWN_KEY & headers.keys() and (key := _key(settings)):
            headers["authorization"] = f"Bearer {key}"
        return Credentials(headers, {n: _value(value, f"judge.query.{n}") for n, value in settings.query.items()})

    async def _call_function(self) -> None:
        """Replace the function's headers. While the last ones hold, its failure is only logged."""
        now = self._clock()
        try:
            given, until = await result_in_time(_in_thread(self._function), self._settings.timeout_s)
            headers = {str(name).lower(): header_value(value) for name, value in given.items()}
            until = _future(until, now)
        except Exception as error:
            # The class only: the message may have parts of the token.
            why = f"judge.auth: {self._settings.auth} raised {type(error).__name__}"
            if now >= self._until:
                raise EndpointUnusable("refused", why, pause_s=_RENEWAL_S) from None
            _log.warning("the judge's headers are not replaced yet", why=why)
            self._renew_at = min(self._until, now + _RENEWAL_S)
            return
        self._until, self._renew_at = until, max(until - _EARLY_S, (now + until) / 2)
        self._replace(Credentials({**self._fixed.headers, **headers}, self._fixed.query))


async def _in_thread(function: Callable[[], Any] | None) -> Any:
    """Return the result of a function that may block; its thread does not keep the process alive."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # Its result is set even if nobody waits for it any more.

    def run() -> None:
        try:
            future.set_result(function() if function else None)
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="judge-auth", daemon=True).start()
    return await asyncio.wrap_future(future)


def _future(until: float, now: float) -> float:
    """Return a time in the future; raises ValueError for any other."""
    if not until > now:
        raise ValueError("the headers have expired")
    return until


def _value(value: str | SecretSource, name: str) -> str:
    """Return the value of a header or parameter."""
    if isinstance(value, str):
        return value
    if value.file is not None:
        return _text(value.file, name)
    try:
        return header_value(os.environ[value.variable or ""])
    except (KeyError, ValueError):
        raise ConfigurationError(f"{name}: the environment has no printable {value.variable}") from None


def _key(settings: JudgeSettings) -> str:
    return _text(settings.api_key_file, "judge.api_key_file") if settings.api_key_file else settings.api_key or ""


def _text(file: Path, name: str) -> str:
    try:
        return header_value(file.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        raise ConfigurationError(f"{name} cannot be read") from None
