"""The screen on which a rater reads one answer: the question, the texts in pages, and the keys.

Nothing on it depends on a score, a judge or another rater, so that the rater is blind. It has no colours, which one
background or the other would swallow. Text has lines of its own, with no word of ragweir's beside it, so that text from
right to left turns nothing else around.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rich.cells import cell_len
from rich.control import Control
from rich.segment import Segment, SegmentLines
from rich.style import Style
from rich.text import Text

from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating import choices
from ragweir.streams.runtime.text.terminal import Terminal, printable
from ragweir.streams.settings.labels import Question

_WIDEST = 100
"""Columns of a text; longer lines are hard to read."""
_INDENT = 2
_PIECE = 4000
"""Characters of a paragraph that are wrapped at once, so that a long text delays no page."""
_FEWEST_LINES = 3
_KEYS = {"u": "undo", "s": "skip", "q": "leave", "?": "help"}
_MORE, _BACK = ("space", "more"), ("b", "back")
_HELP = """\
Read the question at the top, then what the user asked, the answer, and the passages that the answer was made from.
Judge the answer by the passages, not by what you know. Each key is one answer, without Enter, and is saved at once.

c   cannot tell: the text does not let you answer the question
u   undo: the last answer is taken back and asked again; once more takes back the one before
s   skip: asked again after all others
space, arrow down   the next page of the texts
b, arrow up   the page before
q   leave: the same command goes on with the next answer, and so it does after Ctrl-C

Scores and the verdict of the judge are hidden, as they sway people; `ragweir labels report` compares them with yours.

Any key goes back to the answer."""

Line = list[Segment]


@dataclass(slots=True)
class AnswerScreen:
    """Shows one answer after the other, in pages of the terminal's size; elsewhere the whole texts.

    Args:
        terminal: the console to print on.
    """

    terminal: Terminal
    _texts: Iterator[Line] = field(default_factory=lambda: iter(()))
    _lines: list[Line] = field(default_factory=list)
    """The lines that were wrapped so far."""
    _top: int = 0
    """The number of the first line on the page."""
    _body: int = 0
    """The number of lines on a page."""

    @property
    def is_paged(self) -> bool:
        """True if pages are drawn one over the other."""
        return self.terminal.is_terminal and not self.terminal.is_dumb_terminal

    def open(self, texts: EventTexts) -> None:
        """Begin with the first page of an answer."""
        self._texts, self._lines, self._top = self._wrapped(texts), [], 0

    def turn(self, pages: int) -> None:
        """Turn pages, on or back, as far as there are any."""
        step = max(1, self._body - 1)
        top = max(0, self._top + pages * step)
        if self._has(top):
            self._top = top

    def draw(self, progress: str, question: Question, messages: Sequence[str]) -> None:
        """Draw the page.

        Args:
            progress: the place of the answer, such as `12 of 100`.
            question: the question.
            messages: sentences below the texts, such as that a label is saved.
        """
        head = [*self._of(progress, "reverse"), *self._of(question.text, "bold"), self._rule()]
        said = [line for each in messages for line in self._of(each, "italic")]
        keys = [*((each.key, each.name) for each in choices(question)), *_KEYS.items()]
        if not self.is_paged:
            self._print([*head, *self._texts, self._rule(), *said, *self._keys(keys)])
            return
        room = self.terminal.height - len(head) - len(self._keys([*keys, _MORE, _BACK])) - 2
        if room - len(said) < _FEWEST_LINES:
            said = []
        self._body = max(_FEWEST_LINES, room - len(said))
        end = self._top + self._body
        there = [*([_MORE] if self._has(end) else []), *([_BACK] if self._top else [])]
        body = self._lines[self._top : end]
        body += [[]] * (self._body - len(body))
        self._print([*head, *body, self._rule(), *said, *self._keys([*keys, *there])])

    def draw_help(self) -> None:
        """Draw the help in place of the answer."""
        self.draw_text(_HELP)

    def draw_text(self, text: str) -> None:
        """Draw a text in place of the answer."""
        self._print([line for each in text.split("\n") for line in self._of(each)])

    def _print(self, lines: Sequence[Line]) -> None:
        """Print a screen at once, over the one before if pages are."""
        clear = [Control.clear(), Control.home()] if self.is_paged else []
        self.terminal.print(*clear, SegmentLines(lines, new_lines=True), sep="", end="" if clear else "\n")

    @property
    def _width(self) -> int:
        return min(self.terminal.width, _WIDEST)

    def _has(self, number: int) -> bool:
        """Return whether there is a line of a number; lines up to it are wrapped."""
        self._lines.extend(islice(self._texts, max(0, number + 1 - len(self._lines))))
        return number < len(self._lines)

    def _wrapped(self, texts: EventTexts) -> Iterator[Line]:
        """Yield the lines of the texts as they are asked for."""
        turns = len(texts.history)
        before = f"  (after {turns:,} earlier messages, which are at the end)" if turns else ""
        yield from self._of(f"THE USER ASKS{before}", "bold")
        yield from self._text(texts.query)
        yield []
        yield from self._of("THE ANSWER", "bold")
        yield from self._text(texts.response)
        passages = texts.contexts
        yield []
        yield from self._of("THE PASSAGES" if passages else "NO PASSAGES", "bold")
        for number, each in enumerate(passages or (), 1):
            name = each.document_id or each.chunk_id
            yield from self._of(f"{number}{f'  {name}' if name else ''}", "underline")
            yield from self._text(each.text)
        if turns:
            yield []
            yield from self._of("EARLIER IN THE CONVERSATION", "bold")
        for message in texts.history:
            yield from self._of(message.role, "underline")
            yield from self._text(message.text)

    def _text(self, text: str | None) -> Iterator[Line]:
        """Yield the lines of a text of an event."""
        shown = "(not captured)" if text is None else text.replace("\r\n", "\n").rstrip() or "(empty)"
        for paragraph in shown.split("\n"):
            for piece in _pieces(paragraph):
                yield from self._of(piece, indent=_INDENT)

    def _of(self, text: str, style: str = "", indent: int = 0) -> Iterator[Line]:
        """Yield the lines of a paragraph."""
        options = self.terminal.options.update(width=max(1, self._width - indent))
        for line in self.terminal.render_lines(Text(printable(text, None), style), options, pad=False):
            yield [Segment(" " * indent), *line] if indent else line

    def _rule(self) -> Line:
        return [Segment(("-" if self.terminal.options.ascii_only else "─") * self._width, Style(dim=True))]

    def _keys(self, keys: Iterable[tuple[str, str]]) -> list[Line]:
        """Return the lines that list keys; none is broken."""
        lines: list[Line] = [[]]
        used = 0
        for key, name in keys:
            shown = printable(name, None)
            width = cell_len(f"{key} {shown}") + 3
            if used and used + width - 3 > self._width:
                lines.append([])
                used = 0
            lines[-1] += [Segment(key, Style(bold=True)), Segment(f" {shown}   ")]
            used += width
        return lines


def _pieces(paragraph: str) -> Iterator[str]:
    """Yield a paragraph in pieces that are wrapped one by one.

    >>> [len(each) for each in _pieces("x" * 9000)], list(_pieces(""))
    ([4000, 4000, 1000], [''])
    """
    start = 0
    while len(paragraph) - start > _PIECE:
        cut = paragraph.rfind(" ", start, start + _PIECE) + 1
        end = cut if cut > start + _PIECE // 2 else start + _PIECE
        yield paragraph[start:end]
        start = end
    yield paragraph[start:]
