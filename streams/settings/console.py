"""Settings of the console."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, IPvAnyNetwork, StringConstraints, field_validator, model_validator

from ragweir.streams.settings.group import SettingsGroup

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Host names of this machine that no DNS server answers for."""
_HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")]


class ConsoleSettings(SettingsGroup):
    """Pages on which people look at answers and label them, and who may see them."""

    enabled: bool = False
    """True to run the console in `ragweir up`."""
    host: str = "127.0.0.1"
    """Address that the console listens on. The default is reachable from this machine only; any other address needs
    `console.public_url`."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8_600
    """Port of the console. 0 lets the system choose."""
    folder: Path = Path("ragweir-console")
    """Folder of the console's store and of the comparisons that it shows, in its subfolder `compare`."""
    retention_h: Annotated[int, Field(ge=1)] = 168
    """Time that the console's store keeps evaluations, in hours."""
    max_bytes: Annotated[int, Field(ge=16 * 1024 * 1024)] = 2 * 1024**3
    """Size of the console's store in bytes above which its oldest evaluations are removed."""
    texts: Literal["on", "redacted", "off"] = "on"
    """Texts of events on the pages: `on` shows them, `redacted` replaces personal data as `judge.redaction` does, `off`
    shows none."""
    token_file: Path | None = None
    """File with the token that people log in with, at least 20 characters, which only ragweir's user may read. Default:
    on Kafka, the file `token` of `console.folder`, which is made at the first start, so that people stay logged in; on
    files, a new token at each start, which the console prints."""
    socket: Path | None = None
    """Path of a Unix socket to listen on in place of host and port. Only ragweir's user may connect to it, so that
    nobody is asked for the token."""
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    """Networks of reverse proxies that authenticate people, such as `10.0.0.0/8`. A proxy sends the token of
    `console.token_file` in the header X-Ragweir-Token and the person's name in `console.user_header`."""
    user_header: _HeaderName = "X-Forwarded-User"
    """Header in which a trusted proxy sends the name of the person. It is ignored from all others."""
    label_users: tuple[str, ...] = ()
    """Names of the people who may label; empty for everybody who is logged in. Names are authenticated by a trusted
    proxy only: who logs in with the token chooses a name."""
    public_url: str | None = None
    """URL by which people reach the console, such as `https://ragweir.example.org`, for links in alerts and for the
    checks of requests. It has no path, and is https unless its host is this machine."""
    trace_url: str | None = None
    """URL of a trace in your tracing tool, http or https, with `{trace_id}` in place of the id and, if it has one,
    `{span_id}`."""

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = _split(value)
        if parts.path not in {"", "/"} or parts.query or parts.fragment:
            raise ValueError("is the URL of a host without a path, such as https://ragweir.example.org")
        # Without Sec-Fetch-Site, which browsers send over https alone, no form of the console would be accepted.
        if parts.scheme == "http" and parts.hostname not in LOOPBACK_NAMES:
            raise ValueError("needs https, unless its host is this machine: the token would travel in clear")
        return f"{parts.scheme}://{parts.netloc}".lower()

    @field_validator("trace_url")
    @classmethod
    def _is_web_url(cls, value: str | None) -> str | None:
        if value is not None:
            _split(value)
            if "{trace_id}" not in value:
                raise ValueError("needs {trace_id} in place of the id of the trace")
        return value

    @model_validator(mode="after")
    def _is_guarded(self) -> ConsoleSettings:
        if self.trusted_proxies and self.token_file is None:
            raise ValueError(
                "console.trusted_proxies needs console.token_file, whose token the proxy sends: its address "
                "alone is also that of other programs of its machine"
            )
        if self.socket is None and self.public_url is None and not is_loopback(self.host):
            raise ValueError(
                f"console.host {self.host} is reachable from other machines, which needs console.public_url: the "
                "address that people use"
            )
        return self


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise ValueError("is no http or https URL, such as https://ragweir.example.org")
    return parts
