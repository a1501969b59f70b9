"""Redacts personal data and keys in an event's texts before they are sent to the judge.

Built-in patterns find e-mail addresses, telephone and card numbers, IBANs and keys; names of people need the hook. Card
numbers and IBANs have to pass their checksums, so other long numbers stay. Each pattern is searched for in the text and
then in its plain form (`folding`), so that a no-break space, an en dash or a full width digit hides nothing. Time is
linear in a text's length: a built-in pattern reads each character a bounded number of times. The user's patterns and
hook may take any time, so they run in a separate process with a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.suite import Case
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.folding import Folded, folded
from ragweir.streams.services.judge.isolated_redaction import IsolatedRedactor, RedactionFailed
from ragweir.streams.settings import JudgeSettings, import_function
from ragweir.streams.settings.imports import REDACTION

_MUST_NOT_LEAVE = Null("its texts hold what must not leave (judge.redaction)")
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Pattern:
    name: str
    form: re.Pattern[str]
    end: Callable[[re.Match[str]], int] = re.Match.end
    """Returns the end of a match in the text; its start if the match is not one of the kind."""

    def replaced(self, text: str) -> str:
        """Return the text with each match, in itself or in its plain form, replaced by the name in brackets."""
        # The text first: what ends at a dash or a character without a width may go on in the plain form.
        text = self._replaced(Folded(text, text, None))
        return text if text.isascii() else self._replaced(folded(text))

    def _replaced(self, searched: Folded) -> str:
        spans = list(self._spans(searched.plain))
        return searched.replaced(spans, f"[{self.name}]") if spans else searched.text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        at = 0
        while (match := self.form.search(text, at)) is not None:
            end = self.end(match)
            if end > match.start():
                yield match.start(), end
                at = end
            else:
                at = match.start() + 1


def _card_end(match: re.Match[str]) -> int:
    """Check Luhn's checksum (ISO/IEC 7812-1)."""
    digits = [int(character) for character in reversed(match[0]) if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return match.end() if (sum(digits[::2]) + sum(doubled)) % 10 == 0 else match.start()


def _iban_end(match: re.Match[str]) -> int:
    """Find the longest beginning that passes the checksum (ISO 13616: 1 modulo 97), since words may follow."""
    country = int("".join(str(int(character, 36)) for character in match[0][:4]))
    end, length, remainder = match.start(), 4, 0
    for at, character in enumerate(match[0][4:], match.start() + 5):
        if character in " -":
            continue
        value = int(character, 36)
        length, remainder = length + 1, (remainder * (10 if value < 10 else 100) + value) % 97
        ends = length >= 15 and not match.string[at : at + 1].isalnum()
        if ends and (remainder * 1_000_000 + country) % 97 == 1:
            end = at
    return end


def _phone_end(match: re.Match[str]) -> int:
    return match.end() if 8 <= sum(map(str.isdigit, match[0])) <= 15 else match.start()


# In this order: a key may hold an address, and a card number resembles a telephone number. Unbounded quantifiers are
# possessive, and the part before them keeps a search from starting again within the same characters.
_BUILT_IN = (
    _Pattern(
        "key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s]*+(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
            r"|(?<![\w-])eyJ[\w-]{5,}+\.[\w-]{5,}+\.[\w-]*+"
            r"|(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
            r"|(?<![A-Za-z0-9])AIza[\w-]{35}(?![\w-])"
            r"|(?<![\w-])(?:[spr]k[-_]|xox[abeprs]-|gh[oprsu]_|github_pat_|glpat-|hf_|gsk_|npm_|pypi-)[\w-]{16,}+"
            r"|(?<![A-Za-z])(?i:bearer)[ \t:]{1,4}[\w.~+/-]{16,}+=*+",
            re.ASCII,
        ),
    ),
    _Pattern("email", re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]++(?:\.[\w-]++)++")),
    _Pattern(
        "iban",
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}+"),
        _iban_end,
    ),
    _Pattern(
        "card",
        re.compile(
            r"(?<![0-9])(?:[2-6][0-9]{12,18}|[2-6][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}"
            r"|3[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?![0-9])"
        ),
        _card_end,
    ),
    _Pattern(
        "phone",
        re.compile(
            r"(?<![\w+])\+[1-9](?:[ ./()-]{0,3}[0-9]){6,16}(?![0-9])"  # with its country
            r"|(?<![\w.,+-])00[1-9](?:[ ./()-]{0,3}[0-9]){7,16}(?![0-9])"
            r"|(?<![\w.,-])(?:\([0-9]{3}\) ?|[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}(?![\w-]|\.[0-9])"  # 3-3-4
            r"|(?<![\w.,-])\(?0[1-9][0-9]{1,3}\)?[ ./-]{1,3}[0-9](?:[ .-]?[0-9]){4,8}(?![\w-]|[.,][0-9])"  # 0 and area
            r"|(?<![\w.,-])0[1-9](?:[ .][0-9]{2}){4}(?![\w-]|[.,][0-9])"  # pairs
            r"|(?<![\w.,-])0[1-9][0-9]{8,9}(?![\w-]|[.,][0-9])"  # in one piece
        ),
        _phone_end,
    ),
)


class Redactor:
    """Redacts the texts of events by the settings.

    Raises:
        ConfigurationError: if a pattern or the hook cannot be used.

    >>> case = Case(query="Who?", response="Write to ada@example.org or call +44 20 7946 0958.")
    >>> Redactor(JudgeSettings(redaction="on")).redact(case).response
    'Write to [email] or call [phone].'
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._mode = settings.redaction
        own = dict(settings.redact_patterns), settings.redact_hook
        _user_hook(*own)
        self._own = IsolatedRedactor(_user_hook, own, settings.redact_timeout_s) if any(own) else None

    def redact(self, case: Case) -> Case | Null:
        """Return the case as it may be sent, or the reason why it may not."""
        if self._mode == "off":
            return case
        lists = (case.contexts or (), case.expected or ())
        found = self.texts([case.query, case.response, *lists[0], *lists[1]])
        if isinstance(found, Null):
            return found
        query, response, *rest = found
        contexts, expected = tuple(rest[: len(lists[0])]), tuple(rest[len(lists[0]) :])
        return replace(
            case,
            query=query,
            response=response,
            contexts=None if case.contexts is None else contexts,
            expected=None if case.expected is None else expected,
        )

    def texts(self, texts: Sequence[str]) -> Sequence[str] | Null:
        """Return the texts of an event as they may leave, or the reason why they may not.

        They may not if `refuse` is set and there is something to redact, nor if the user's redaction fails.
        """
        if self._mode == "off":
            return texts
        try:
            redacted = self._redacted(texts)
        except RedactionFailed as error:
            _log.error("redaction failed; the event is left out", why=str(error))
            return Null(str(error))
        return _MUST_NOT_LEAVE if self._mode == "refuse" and redacted != list(texts) else redacted

    def _redacted(self, texts: Sequence[str]) -> list[str]:
        redacted = [_replaced(text, _BUILT_IN) for text in texts]
        return self._own.redacted(redacted) if self._own else redacted


def _replaced(text: str, patterns: Iterable[_Pattern]) -> str:
    for pattern in patterns:
        text = pattern.replaced(text)
    return text


def _user_hook(forms: Mapping[str, str], place: str | None) -> Callable[[str], str]:
    """Return a function that applies the user's patterns and then the hook; raises ConfigurationError."""
    patterns = [_compiled(name, form) for name, form in forms.items()]
    hook = import_function(place, REDACTION) if place else str

    def redact(text: str) -> str:
        hooked = hook(_replaced(text, patterns))
        if not isinstance(hooked, str):
            raise TypeError("the hook gave no text")
        return hooked

    return redact


def _compiled(name: str, form: str) -> _Pattern:
    try:
        compiled = re.compile(form)
    except re.error as error:
        raise ConfigurationError(f"judge.redact_patterns.{name} is no regular expression: {error}") from None
    if compiled.search(""):
        raise ConfigurationError(
            f"judge.redact_patterns.{name} finds nothing everywhere: it must not match an empty text"
        )
    return _Pattern(name, compiled)
