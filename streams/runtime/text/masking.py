"""Masks the secrets among the settings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from ragweir.streams.settings import DEFAULT_ROUTING_KEY
from ragweir.streams.settings.labels import DEFAULT_LABEL_KEY

MASK = "********"
_PUBLIC_KEYS = (DEFAULT_ROUTING_KEY, DEFAULT_LABEL_KEY)

_URL = re.compile(r"([A-Za-z][\w+.-]*://)([^\s,;\"']*)")
_API_VERSION = re.compile(r"v?\d{1,4}(?:[.-]\d{1,2}){0,3}(?:-preview)?", re.ASCII)
_HOST = re.compile(r"(?:\[[^\]@]*\]|[^:@\[\]]*)(?::\d*)?")
_WORDS = r"password|passphrase|secret|credential|token|private|jaas|key$|pem$"
_PLAIN_PROPERTY = (
    r"(?:.*\.(?:location|locations|paths|list|suites|algorithm)|client\.(?:id|rack|dns\.lookup)|debug|"
    r"security\.protocol|sasl\.mechanisms?|sasl\.username|sasl\.kerberos\.(?:principal|service\.name|keytab)|"
    r"sasl\.oauthbearer\.(?:method|client\.id|scope)|ssl\.(?:engine\.id|providers)|"
    r"compression\.\w+|broker\.address\.family|topic\.blacklist|queuing\.strategy)"
)
_NUMBER = re.compile(r"[+-]?[\d.]+|true|false", re.IGNORECASE)


def masked_url(text: str) -> str:
    """Return a URL without user information and values of the query, but for `api-version`.

    A text with `@` that is no URL, and a URL whose host is ambiguous, is masked as a whole.

    >>> masked_url("https://me:hunter2@proxy.example:8443/v1?key=hunter2&v")
    'https://********@proxy.example:8443/v1?key=********&********'
    >>> masked_url("http://127.0.0.1:8089/v1"), masked_url("me:hunter2@proxy.example")
    ('http://127.0.0.1:8089/v1', '********')
    """
    if "://" not in text:
        return MASK if re.search("[@?#]", text) else text
    return _urls(text)


def _urls(text: str) -> str:
    return _URL.sub(lambda url: url[1] + _after_scheme(url[2]), text)


def _pair(name: str, equals: str, value: str) -> str:
    """Mask a value of a query, or a text that may be one; the version of an API is none."""
    if not equals:
        return MASK
    return f"{name}={value if name == 'api-version' and _API_VERSION.fullmatch(value) else MASK}"


def _after_scheme(rest: str) -> str:
    """Mask the part of a URL after `://`."""
    before, fragment_mark, fragment = rest.partition("#")
    before, query_mark, query = before.partition("?")
    authority, slash, path = before.partition("/")
    host = authority.rpartition("@")[2]
    if "@" in path or not _HOST.fullmatch(host):
        return MASK
    shown = [MASK + "@" if host != authority else "", host, slash, path, query_mark]
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    shown.append("&".join(_pair(*pair) for pair in pairs))
    return "".join((*shown, fragment_mark, MASK if fragment else ""))


_RULES: Sequence[tuple[re.Pattern[str], Callable[[str], str]]] = tuple(
    (re.compile(pattern), treatment)
    for pattern, treatment in (
        (r"(?:routing|labels)\.key", lambda text: text if text in _PUBLIC_KEYS else MASK),
        (r"judge\.(?:headers|query)\..*\.(?:file|variable)", _urls),
        (r"judge\.query\.api-version", lambda text: text if _API_VERSION.fullmatch(text) else MASK),
        (r"judge\.(?:headers|query)\..*", lambda _: MASK),
        (r"judge\.extra_body\.(?:reasoning_effort|reasoning\.effort|service_tier|verbosity)", _urls),
        (r"judge\.extra_body\..*", lambda _: MASK),
        (r"judge\.(?:base_url|proxy)|registry\.url|kafka\.client\.sasl\.oauthbearer\.token\.endpoint\.url", masked_url),
        (r"registry\.client\.ssl\..*\.location", _urls),
        (rf".*(?:{_WORDS}).*|registry\.client\..*", lambda _: MASK),
        (rf"kafka\.client\.{_PLAIN_PROPERTY}", _urls),
        # Of unknown properties, such as those of plugins, only numbers are shown.
        (r"kafka\.client\..*", lambda text: text if _NUMBER.fullmatch(text) else MASK),
        (r".*", _urls),
    )
)
"""The mask of each setting: the first pattern that matches the whole path of a setting applies."""


def masked(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as plain data with their secrets masked.

    >>> masked({"judge": {"api_key": "hunter2", "base_url": "https://hunter2@proxy.example/v1", "model": "m"}})
    {'judge': {'api_key': '********', 'base_url': 'https://********@proxy.example/v1', 'model': 'm'}}
    """
    return {name: _shown(name, value) for name, value in data.items()}


def digest_of_secrets(data: Mapping[str, Any], salt: str) -> str:
    """Return a digest of the masked values, by which two settings can be compared; empty without masked values.

    It is scrypt's, since a plain hash of a short secret is easy to guess: one guess takes 16 MiB and about 50 ms.

    >>> digest_of_secrets({"routing": {"key": "a"}}, "1") == digest_of_secrets({"routing": {"key": "b"}}, "1")
    False
    >>> digest_of_secrets({"judge": {"model": "m"}}, "1")
    ''
    """
    hidden = list(_hidden("", data))
    if not hidden:
        return ""
    return hashlib.scrypt(orjson.dumps(hidden), salt=salt.encode(), n=2**14, r=8, p=1, dklen=16).hex()


def _shown(path: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _shown(f"{path}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(path, inner) for inner in value]
    # In kafka.client a password of digits is a number in TOML.
    if not value or not (isinstance(value, str) or path.startswith("kafka.client.")):
        return value
    text = str(value)
    treatment = next(treatment for pattern, treatment in _RULES if pattern.fullmatch(path))
    shown = treatment(text)
    return value if shown == text else shown


def _hidden(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of all masked values, in the order of paths."""
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from _hidden(f"{path}.{name}" if path else name, value[name])
    elif _shown(path, value) != value:
        yield path, value
