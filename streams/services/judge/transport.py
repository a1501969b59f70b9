"""HTTP requests to the judge's endpoint, with limits on the response: size, time, headers and redirects.

The endpoint is not trusted. A body is counted after decompression, while it arrives; redirects are not followed, since
they would send texts of events to another host; cookies are dropped. Any exception becomes a `JudgeError`.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.request import getproxies, proxy_bypass

import aiohttp
import structlog
from yarl import URL

from ragweir.errors import ConfigurationError
from ragweir.streams.runtime.awake import result_in_time
from ragweir.streams.runtime.certificates import certificate_error
from ragweir.streams.services.judge.protocol import EndpointFailed, EndpointUntrusted, JudgeError
from ragweir.streams.settings import JudgeSettings

MAX_HEADER_BYTES = 8_190
"""The longest status line or header."""
MAX_HEADERS = 64
_PIECE_BYTES = 64 * 1024
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_CA_SETTING = "judge.ca_file"
_OWN_HEADERS = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
_UNREACHED = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response within the limits."""

    status: int
    headers: Mapping[str, str]
    """Headers by case-insensitive names."""
    body: bytes
    """The body, decompressed."""


class Transport:
    """Connections to one endpoint, which stay open between requests.

    A request has a time limit from connecting to the last byte, of the time in which the process runs; connecting may
    take half of it.

    Args:
        settings: the judge's: URL, proxy, certificates, timeout and concurrency. The URL may hold a query.

    Raises:
        ConfigurationError: if a URL or a certificate cannot be read.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._url, self.basic = _split_credentials(_parsed(settings.base_url or "", "judge.base_url"))
        """The user and password of the URL as a header's value; empty without a user."""
        proxy = _parsed(settings.proxy, "judge.proxy") if settings.proxy else _environment_proxy(self._url)
        self._proxy: URL | None
        self._proxy, basic = _split_credentials(proxy) if proxy else (None, "")
        self._proxy_headers = {"Authorization": basic} if basic else None  # Sent as Proxy-Authorization.
        self._ssl = _tls(settings)
        self._timeout_s, self._connections = settings.timeout_s, settings.concurrency
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self,
        path: str,
        body: bytes,
        most_bytes: int,
        headers: Mapping[str, str] = MappingProxyType({}),
        query: Mapping[str, str] = MappingProxyType({}),
    ) -> Response:
        """Send JSON to a path below the base URL, and return a response of at most so many bytes, decompressed.

        Raises:
            JudgeError: if there is no response within the limits.
        """
        try:
            return await result_in_time(self._post(path, body, most_bytes, headers, query), self._timeout_s)
        except JudgeError:
            raise
        except Exception as error:
            raise judge_error(error) from None

    async def _post(
        self, path: str, body: bytes, most_bytes: int, headers: Mapping[str, str], query: Mapping[str, str]
    ) -> Response:
        url = self._url.with_path(self._url.raw_path.rstrip("/") + path, encoded=True, keep_query=True)
        async with self._opened().post(
            url.update_query(query) if query else url,
            allow_redirects=False,
            data=body,
            headers={name.title(): value for name, value in headers.items()} | _OWN_HEADERS,
            proxy=self._proxy,
            proxy_headers=self._proxy_headers,
        ) as response:
            try:
                encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
                pieces = response.content.iter_chunked(_PIECE_BYTES)
                read = await _read(pieces, encoding, most_bytes)
            except BaseException:
                response.close()  # Releasing it would first read the rest.
                raise
            return Response(response.status, response.headers, read)

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session, which has to be made within its event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                connector=aiohttp.TCPConnector(limit=self._connections, ssl=self._ssl),
                cookie_jar=aiohttp.DummyCookieJar(),
                max_field_size=MAX_HEADER_BYTES,
                max_headers=MAX_HEADERS,
                max_line_size=MAX_HEADER_BYTES,
                # `post` limits the total. The limit for connecting distinguishes an endpoint that cannot be reached
                # from a missing answer.
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout_s / 2),
            )
        return self._session

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def judge_error(error: Exception) -> JudgeError:
    """Return the meaning of an exception of the HTTP client. An unknown one counts as an unusable answer.

    All are billed as if the call had been answered, unless the endpoint was not reached.
    """
    if (why := certificate_error(error, _CA_SETTING)) is not None:
        return EndpointUntrusted("unreachable", f"the judge's endpoint cannot be trusted: {why}")
    if isinstance(error, _UNREACHED):
        return EndpointFailed("unreachable", "the judge's endpoint cannot be reached")
    if isinstance(error, TimeoutError):
        return EndpointFailed("timeout", "the judge did not answer in time", billed=True)
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        return EndpointFailed("cut", "the connection to the judge broke", billed=True)
    if not isinstance(error, aiohttp.ClientError | zlib.error):
        _log.warning("an answer of the judge's endpoint raised", error=type(error).__name__)
    return unusable()


def unusable() -> EndpointFailed:
    """Return the error for a response that is no answer."""
    return EndpointFailed("unusable", "the judge's endpoint sent what is no answer", billed=True)


async def _read(pieces: AsyncIterator[bytes], encoding: str, most: int) -> bytes:
    """Return a body, decompressed.

    Raises:
        JudgeError: if it is longer than `most`, or its encoding is unknown.
        zlib.error: if it does not have its encoding.
    """
    inflate = None
    if encoding in {"gzip", "x-gzip", "deflate"}:  # Some servers compress against the request.
        inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
    elif encoding != "identity":
        raise unusable()
    body = bytearray()
    async for piece in pieces:
        # Decompresses at most one byte beyond the limit.
        body += inflate.decompress(piece, most + 1 - len(body)) if inflate else piece
        if len(body) > most:
            raise EndpointFailed("unusable", "the judge's endpoint sent too long an answer", billed=True)
    if inflate and not inflate.eof:
        raise unusable()
    return bytes(body)


def _parsed(url: str, name: str) -> URL:
    try:
        return URL(url)
    except ValueError:
        raise ConfigurationError(f"{name} is no URL") from None


def _environment_proxy(url: URL) -> URL | None:
    """Return the environment's proxy for a URL."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return _parsed(proxy, "the environment's proxy") if proxy and not proxy_bypass(url.host or "") else None


def _tls(settings: JudgeSettings) -> ssl.SSLContext | bool:
    """Return the TLS context with the CA and the client certificate of the settings; True for the default one.

    Raises:
        ConfigurationError: if a file cannot be used.
    """
    if settings.ca_file is None and settings.certificate_file is None:
        return True
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ValueError):
        raise ConfigurationError("judge.ca_file has no certificate that can be read") from None
    if settings.certificate_file is not None:
        # Without a password OpenSSL would ask for one on the terminal.
        key_file, password = settings.certificate_key_file, settings.certificate_key_password or ""
        try:
            context.load_cert_chain(settings.certificate_file, key_file, lambda: password)
        except (OSError, ValueError):
            raise ConfigurationError(
                "judge.certificate_file, judge.certificate_key_file and judge.certificate_key_password do not give a "
                "certificate with its key"
            ) from None
    return context


def _split_credentials(url: URL) -> tuple[URL, str]:
    """Return a URL without its user and password, and these as a header's value; empty without a user."""
    if url.user is None:
        return url, ""
    return url.with_user(None), aiohttp.encode_basic_auth(url.user, url.password or "")
