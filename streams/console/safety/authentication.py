"""Who sends a request: people who logged in, and those whom a trusted proxy names."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from starlette.requests import HTTPConnection
from starlette.responses import Response

from ragweir.errors import ConfigurationError
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.shared.raters import fault_of_name
from ragweir.streams.settings.console import ConsoleSettings
from ragweir.streams.settings.files import check_trusted
from ragweir.streams.settings.permissions import readable_by_others, replacing

PROXY_HEADER = "x-ragweir-token"
"""Header in which a trusted proxy sends the token."""
SESSION_SECONDS = 12 * 3600
"""Time after which a person has to log in again."""
KEPT = "token"
"""Name of the file in `console.folder` that has the token of a service without `console.token_file`."""
_TOKEN_BYTES = 24
_SHORTEST_TOKEN = 20


def read_token(settings: ConsoleSettings) -> str:
    """Return the token of `console.token_file`, else a new one.

    Raises:
        ConfigurationError: if the file cannot be read, is readable by others, or holds no token.
    """
    file = settings.token_file
    return machine.token_hex(_TOKEN_BYTES) if file is None else _token_in(file, f"console.token_file {file}")


def kept_token(settings: ConsoleSettings) -> str:
    """Return the token of `console.token_file`, else that of `console.folder`, which is made if there is none.

    Raises:
        ConfigurationError: as `read_token`, or if the folder cannot be written, or belongs to another user.
    """
    if settings.token_file is not None:
        return read_token(settings)
    file = settings.folder / KEPT
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_trusted(file)
        if not file.exists():
            with replacing(file) as sink:
                sink.write(f"{machine.token_hex(_TOKEN_BYTES)}\n".encode())
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}; set console.folder") from None
    return _token_in(file, f"the token {file}")


def _token_in(file: Path, name: str) -> str:
    if readable_by_others(file):
        raise ConfigurationError(f"others may read {name}; chmod 600 {file}")
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name} cannot be read: {error}") from None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{name} needs one line of at least {_SHORTEST_TOKEN} printable ASCII characters, such as "
            "`openssl rand -hex 24` prints"
        )
    return token


def login_path(settings: ConsoleSettings, token: str) -> str:
    """Return the path of the login. A token of a file is known to those who may read it, and is not shown."""
    return "/login" if settings.token_file or settings.socket else f"/login#{token}"


def kept_login(settings: ConsoleSettings, token: str, *, is_seen_by_person: bool) -> str:
    """Return the path of the login with a kept token, which is named by its file where a log would have it.

    Args:
        settings: the settings of the console.
        token: the token.
        is_seen_by_person: true if a terminal shows it, false if it is written to a file or a pipe.
    """
    if is_seen_by_person or settings.token_file or settings.socket:
        return login_path(settings, token)
    return f"/login with the token in {settings.folder / KEPT}"


class Access:
    """Names the person who sends a request.

    A session is a signed cookie, so that nothing is kept for it: it ends by its time, or when the token changes.

    Args:
        settings: the proxies, and whether a Unix socket is listened on.
        token: the token that people log in with.
        time: the time, in epoch seconds.
    """

    def __init__(self, settings: ConsoleSettings, token: str, time: Callable[[], float] = machine.time) -> None:
        self._settings, self._token, self._time = settings, token, time
        self._key = hmac.digest(token.encode(), b"ragweir console session", sha256)
        self._cookie = f"ragweir_{self._key.hex()[:8]}_session"
        """Cookies are those of all ports of a host: another console has another name."""
        self.is_private = settings.socket is not None
        """True if the operating system lets nobody but ragweir's user connect, so that no token is asked for."""

    def admits(self, token: str) -> bool:
        """Return whether a text is the token, in a time that does not depend on the text."""
        return self.is_private or _is_equal(token, self._token)

    def person(self, request: HTTPConnection) -> str | None:
        """Return the name of the person who sends a request; None if nobody vouches for one."""
        return self._named_by_proxy(request) or self._logged_in(request)

    def _named_by_proxy(self, request: HTTPConnection) -> str | None:
        secret, name = request.headers.get(PROXY_HEADER), request.headers.get(self._settings.user_header)
        if secret is None or name is None or not self._is_proxy(request) or not _is_equal(secret, self._token):
            return None
        return None if fault_of_name(name) else name.strip()

    def _is_proxy(self, request: HTTPConnection) -> bool:
        try:
            address = ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        return any(address in network for network in self._settings.trusted_proxies)

    def _logged_in(self, request: HTTPConnection) -> str | None:
        name, _, rest = request.cookies.get(self._cookie, "").partition(".")
        expires, _, mark = rest.partition(".")
        if not _is_equal(mark, self._mark(name, expires)) or not self._time() < float(expires):
            return None
        try:
            return base64.urlsafe_b64decode(name).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None

    def begin(self, response: Response, name: str) -> None:
        """Begin a session of a person, whose token was right."""
        packed = base64.urlsafe_b64encode(name.encode()).decode()
        expires = f"{int(self._time()) + SESSION_SECONDS}"
        response.set_cookie(
            self._cookie,
            f"{packed}.{expires}.{self._mark(packed, expires)}",
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=(self._settings.public_url or "").startswith("https:"),
        )

    def end(self, response: Response) -> None:
        """End the session of this browser."""
        response.delete_cookie(self._cookie, httponly=True, samesite="strict")

    def _mark(self, name: str, expires: str) -> str:
        return hmac.new(self._key, f"{name}.{expires}".encode(errors="replace"), sha256).hexdigest()


def _is_equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), known.encode())
