"""Values that a text holds: JSON, or the literals in which Python, pandas and numpy write a list into a cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
        |(?P<open>[\[{(])
        |(?P<close>[\]})])
        |(?P<sign>[,:])
        |(?P<name>(?:None|True|False|nan|NaN|-?inf)\b)
        |(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
        |(?P<time>datetime\.datetime\([0-9,\s]+\))
        |(?P<wrapper>(?:np\.|numpy\.)?(?:array|str_|bool_?|u?int[0-9]+|float[0-9]+)\(|(?:UUID|Timestamp|Decimal)\()
        |(?P<dtype>dtype=[\w.<>'"]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_NAMES = {"None": "null", "True": "true", "False": "false"}
_BRACKETS = {"[": ("[", "]", "]"), "(": ("[", ")", "]"), "{": ("{", "}", "}")}
"""For an opening bracket: what is written for it, the bracket that closes it, and what is written for that."""

_REMEMBERED_TEXTS, _REMEMBERED_CHARACTERS = 8, 65_536
_DEEPEST = 1_000
"""Maximum depth of a literal; that of JSON is similar."""


def parse_json(text: str) -> Any:
    """Return the JSON value that a text holds.

    >>> parse_json('["a", "b"]')
    ['a', 'b']

    Raises:
        ValueError: if it holds none.
    """
    return orjson.loads(text)


def parse_python(text: str) -> Any:
    r"""Return the Python literal that a text holds, as JSON data: tuples and arrays are lists, nan is null.

    Nothing is evaluated: the literal is rewritten as JSON, which is parsed within the limits of JSON. The elements of a
    list need no commas between them, since numpy writes none, and Python would join the two texts of `['a' 'b']`.

    >>> parse_python("['a', \"it's\", None, (1, 2.50)]"), parse_python("['a' 'b'\n 'c']"), parse_python("[0.5 nan]")
    (['a', "it's", None, [1, 2.5]], ['a', 'b', 'c'], [0.5, None])
    >>> parse_python("[np.float64(0.5), array([1., 2.], dtype=float32)]"), parse_python("{'a': 1, 2: {'b': ()}}")
    ([0.5, [1.0, 2.0]], {'a': 1, '2': {'b': []}})

    Raises:
        ValueError: if it holds none. Sets, bytes, and arrays that are abbreviated by `...` are not JSON.
    """
    rewriting = _Rewriting()
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"not a literal at character {at + 1}")
        at, kind = token.end(), token.lastgroup or ""
        rewriting.add(kind, token[kind])
    return orjson.loads("".join(rewriting.parts))


class _Rewriting:
    """A literal that is rewritten as JSON, token by token."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._closing: list[tuple[str, str]] = []
        """The brackets that close those that are open, and what is written for each."""
        self._is_after_value = False

    def add(self, kind: str, found: str) -> None:
        """Add a token.

        Raises:
            ValueError: if it cannot stand here.
        """
        if kind == "sign":
            if found == ":" and self.parts and self.parts[-1][-1:].isdigit():
                self.parts[-1] = f'"{self.parts[-1]}"'  # Names are text in JSON.
            self.parts.append(found)
            self._is_after_value = False
        elif kind == "close":
            self._close(found)
        elif kind != "dtype":
            self._begin_value()
            self._is_after_value = kind not in {"open", "wrapper"}
            if len(self._closing) == _DEEPEST:
                raise ValueError("nested too deeply")
            if kind == "open":
                opening, closing, written = _BRACKETS[found]
                self._closing.append((closing, written))
                self.parts.append(opening)
            elif kind == "wrapper":
                self._closing.append((")", ""))
            else:
                self.parts.append(_WRITERS[kind](found))

    def _begin_value(self) -> None:
        if self._is_after_value:
            if not self._closing or self._closing[-1][1] != "]":
                raise ValueError("two values without a comma between them")
            self.parts.append(",")

    def _close(self, found: str) -> None:
        closing, written = self._closing.pop() if self._closing else ("", "")
        if found != closing:
            raise ValueError("brackets do not match")
        if self.parts and self.parts[-1] == ",":
            self.parts.pop()
        self.parts.append(written)
        self._is_after_value = True


def _string(found: str) -> str:
    text = found[1:-1]
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, text)
    try:
        return orjson.dumps(text).decode()
    except TypeError:  # Half of a surrogate pair.
        raise ValueError("not Unicode") from None


def _unescaped(escape: re.Match[str]) -> str:
    *digits, letter = escape.groups()
    if letter is not None:
        return _ESCAPED.get(letter, letter if letter in "'\"\\" else f"\\{letter}")
    number = int(next(filter(None, digits)), 16)
    return chr(number)  # A ValueError beyond Unicode.


def _number(found: str) -> str:
    return found.removeprefix("+") if found.lstrip("+-").isdigit() else repr(float(found))


def _name(found: str) -> str:
    return _NAMES.get(found, "null")


def _time(found: str) -> str:
    """Return the time that `repr` writes of a datetime without a zone.

    >>> _time("datetime.datetime(2026, 10, 1, 9, 0)")
    '"2026-10-01T09:00:00"'
    """
    return f'"{datetime(*map(int, re.findall("[0-9]+", found))).isoformat()}"'  # type: ignore[arg-type]  # noqa: DTZ001


_WRITERS = {"time": _time, "string": _string, "number": _number, "name": _name}


def parse_any(text: str) -> Any:
    """Return the JSON value or the Python literal that a text holds, or the text itself if it holds neither.

    It is for fields of which a tool writes text as it is, and other values as JSON or as Python shows them.

    >>> parse_any('{"a": 1}'), parse_any("{'a': None}"), parse_any("[1] says so."), parse_any("1843")
    ({'a': 1}, {'a': None}, '[1] says so.', '1843')
    """
    if text.lstrip()[:1] in _OPENING:
        for parser in (parse_json, parse_python):
            try:
                return parser(text)
            except ValueError:
                continue
    return text


_OPENING = ("{", "[", '"')


def _remembering(parser: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser that remembers a few short texts, since several rules of a map often parse the same cell."""
    remembering = lru_cache(_REMEMBERED_TEXTS)(parser)
    return lambda text: remembering(text) if len(text) <= _REMEMBERED_CHARACTERS else parser(text)


PARSERS = {
    "json": _remembering(parse_json),
    "python": _remembering(parse_python),
    "any": _remembering(parse_any),
}
"""The values of `parse` in a map. Values are shared between calls, and must not be changed."""
