"""Reads the steps of a page of the documents: the files it shows, the commands it tells to type, the Python it runs.

A page is written for its reader, and these are all the conventions:

- A ```console fence has commands behind `$ `, and below each the output that it is to have: see `shown_output`. Without
  any, all output will do. Each command ends with status 0; `...; echo "exit status $?"` shows another one.
- A command that runs on (`ragweir up`, `... &`) runs until the page ends, or until `<!-- stop: ragweir up -->`. While
  one runs, a command that only reads is repeated until its output is the shown one, for a minute.
- A fence is a file if the line before it ends with its name and a colon ("Write `map.toml`:"), or if it has
  `title="map.toml"`. With "add" in that line, the text is added to the file. A part of a file of `deploy/` or
  `examples/` is compared with it.
- Other ```python fences run in one process per page; those with `>>> ` as doctests. Other fences are illustrations.
- `localhost:9092` (or 127.0.0.1) is a Kafka of the page's own, and the default ports of telemetry, the simulated judge,
  Prometheus and Alertmanager are free ones. `deploy/`, `examples/` and an empty `.venv/bin/activate` are there.
- `<!-- shows: words | other words -->` after a paragraph with a link to the console (`http://127.0.0.1:8600/...`): that
  page has these words, once the services that run have done their work.
- `<!-- not run: the reason in some words -->` before a fence leaves it out; a test limits their number.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_FILES: Final = ("toml", "python", "json", "jsonl", "yaml", "csv", "text", "sh")
_TITLE: Final = re.compile(r'title="([^"]+)"')
# The line before a fence names the file that it holds: "`map.toml`:", "Add to `ragweir.toml`:".
_NAMED: Final = re.compile(r"`([\w./-]+\.(?:toml|py|json|jsonl|ya?ml|csv|txt|sh))`[^`]*:\s*$")
_ADDED: Final = re.compile(r"\badd(?:ed)?\b|\bappend", re.IGNORECASE)
_STOP: Final = re.compile(r"<!--\s*stop:\s*(.*?)\s*-->")
_SHOWS: Final = re.compile(r"<!--\s*shows:\s*(.*?)\s*-->", re.DOTALL)
_CONSOLE: Final = re.compile(r"\(http://127\.0\.0\.1:8600(/[^)\s]*)\)")
_NOT_RUN: Final = re.compile(r"<!--\s*not run:?\s*(.*?)\s*-->", re.DOTALL)


class PageError(Exception):
    """A page cannot be read as steps; the message names page and line."""


@dataclass(frozen=True)
class File:
    """A file that the reader makes, or text that the reader adds to one."""

    line: int
    name: str
    text: str
    added: bool = False


@dataclass(frozen=True)
class Command:
    """A command that the reader types, and the output that the page shows below it (nothing: any)."""

    line: int
    text: str
    output: tuple[str, ...] = ()


@dataclass(frozen=True)
class Python:
    """A block of Python, run in one process with the page's other blocks."""

    line: int
    text: str


@dataclass(frozen=True)
class NotRun:
    """A fence that is not run, with the reason that the page gives."""

    line: int
    reason: str


@dataclass(frozen=True)
class Stop:
    """The place where the reader stops a service: `<!-- stop: ragweir up -->` below the sentence that says so."""

    line: int
    text: str


@dataclass(frozen=True)
class Visit:
    """A link to a page of the console, and the words that it is to show."""

    line: int
    text: str
    """The path of the page."""
    words: tuple[str, ...]


Step = File | Command | Python | NotRun | Stop | Visit


def steps(page: Path) -> Iterator[Step]:
    """Read a page's steps in the page's order.

    Raises:
        PageError: a console fence does not begin with a command, a fence is not run without a reason, or no page is to
            show words.
    """
    before: Token | None = None
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            yield from _fence(page.name, token, before)
        if token.type == "html_block" and (stopped := _STOP.search(token.content)):
            yield Stop(token.map[0] + 1 if token.map else 0, stopped[1])
        if token.type == "html_block" and (shown := _SHOWS.search(token.content)):
            yield _visit(page.name, token, before, shown[1])
        if token.type in {"fence", "html_block", "inline"}:
            before = token


def _visit(page: str, token: Token, before: Token | None, words: str) -> Visit:
    line = token.map[0] + 1 if token.map else 0
    link = _CONSOLE.search(before.content) if before is not None and before.type == "inline" else None
    if link is None:
        raise PageError(f"{page}:{line}: words are to be shown, and the paragraph before has no link to the console")
    return Visit(line, link[1], tuple(each.strip() for each in " ".join(words.split()).split("|")))


def _fence(page: str, token: Token, before: Token | None) -> Iterator[Step]:
    line = token.map[0] + 1 if token.map else 0
    language, _, rest = token.info.strip().partition(" ")
    marked = _NOT_RUN.search(before.content) if before is not None and before.type == "html_block" else None
    title = _TITLE.search(rest)
    introduction = before.content.splitlines()[-1] if before is not None and before.type == "inline" else ""
    named = _NAMED.search(introduction)
    if marked is not None:
        if len(marked[1].split()) < 3:
            raise PageError(f"{page}:{line}: a fence is not run, and the comment before it gives no reason")
        yield NotRun(line, " ".join(marked[1].split()))
    elif language == "console":
        yield from _commands(page, line, token.content.splitlines())
    elif language in _FILES and (title or named):
        name = title[1] if title else named[1] if named else ""
        yield File(line, name, token.content, added=bool(_ADDED.search(introduction)))
    elif language == "python":
        yield Python(line, token.content)


def _commands(page: str, fence: int, lines: list[str]) -> Iterator[Command]:
    """Split a console fence into commands; a backslash at a line's end continues a command on the next line."""
    command: list[str] = []
    output: list[str] = []
    start = 0
    for number, line in enumerate(lines, fence + 1):
        if command and command[-1].endswith("\\") and not output:
            command.append(line.removeprefix("> "))
        elif line.startswith("$ "):
            if command:
                yield Command(start, "\n".join(command), _trimmed(output))
            command, output, start = [line[2:]], [], number
        elif command:
            output.append(line)
        elif line.strip():
            raise PageError(f"{page}:{number}: a console fence begins with output: {line!r}; commands begin with '$ '")
    if command:
        yield Command(start, "\n".join(command), _trimmed(output))


def _trimmed(lines: list[str]) -> tuple[str, ...]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return tuple(lines)


_SERVICES: Final = frozenset({"up", "evaluate", "judge", "aggregate", "export", "kafka", "simulate-judge", "console"})
_READERS: Final = frozenset(
    {"explain", "dead-letter list", "dead-letter show", "topics show", "doctor", "tap", "runs list", "runs show"}
    | {"compare", "slo rehearse"}
)
_READING_PROGRAMS: Final = frozenset({"curl", "cat", "head", "tail", "grep", "jq", "ls", "promtool"})
_OPTIONS_WITH_VALUES: Final = frozenset({"--config", "--bootstrap-servers", "--prefix"})


def is_service(command: str) -> bool:
    """True if the command runs until it is stopped, as `ragweir up` does.

    >>> is_service("ragweir --config my.toml evaluate --workers 2"), is_service("ragweir evaluate --help")
    (True, False)
    >>> is_service("ragweir judge"), is_service("ragweir judge try events.jsonl")
    (True, False)
    >>> is_service("RAGWEIR_SLOT=0 faust -A ragweir.streams.faust_app worker"), is_service("ragweir publish up")
    (True, False)
    """
    words = _words(command)
    if "--help" in words or _subcommand(words)[:2] == ["judge", "try"]:
        return False
    if command.rstrip().endswith("&") or words[:1] in (["prometheus"], ["alertmanager"], ["faust"]):
        return True
    sub = _subcommand(words)
    return sub[:1] != [] and (sub[0] in _SERVICES or (sub[0] == "demo" and "--keep" in words))


def only_reads(command: str) -> bool:
    """True if the command changes nothing, so that it may be repeated until a service has done its work.

    >>> only_reads("ragweir explain q-1"), only_reads("ragweir dead-letter redrive"), only_reads("curl -s x | wc -l")
    (True, False, True)
    """
    words = _words(command)
    sub = _subcommand(words)
    return words[:1] != [] and (
        words[0] in _READING_PROGRAMS or (sub[:1] != [] and (sub[0] in _READERS or " ".join(sub[:2]) in _READERS))
    )


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
    except ValueError:  # a quotation of the shell that shlex does not know
        words = command.split()
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        words.pop(0)
    return words


def _subcommand(words: list[str]) -> list[str]:
    if words[:1] != ["ragweir"]:
        return []
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in _OPTIONS_WITH_VALUES else 1 :]
    return rest
