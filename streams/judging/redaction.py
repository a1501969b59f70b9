"""Takes what identifies or opens doors out of an event's texts before they leave for the judge.

Patterns find what has a form of its own: e-mail addresses, telephone and card numbers, IBANs and keys; names of people
have none, and need the hook. Card numbers and IBANs have to pass their checksums, so that other long numbers stay. Time
is linear in a text's length: no built-in pattern looks at a character more than a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from metrics.judged.suite import Case
from streams.settings import JudgeSettings, WrongSettings, imported

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One kind of thing to be redacted."""

    name: str
    form: re.Pattern[str]
    end: Callable[[re.Match[str]], int] = re.Match.end
    """Where in the text what was found ends; not behind its start if it only looks like it."""

    def replaced(self, text: str) -> str:
        """The text with its name in brackets wherever it is found."""
        kept: list[str] = []
        done = at = 0
        while (match := self.form.search(text, at)) is not None:
            end = self.end(match)
            if end > match.start():
                kept += text[done : match.start()], f"[{self.name}]"
                done = at = end
            else:
                at = match.start() + 1
        return "".join((*kept, text[done:])) if kept else text


def _card_end(match: re.Match[str]) -> int:
    """Luhn's checksum (ISO/IEC 7812-1)."""
    digits = [int(character) for character in reversed(match[0]) if character.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return match.end() if (sum(digits[::2]) + sum(doubled)) % 10 == 0 else match.start()


def _iban_end(match: re.Match[str]) -> int:
    """The longest beginning that passes the checksum (ISO 13616: 1 modulo 97), since words may follow."""
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


# In this order: a key may hold an address, a card number looks like a telephone's. A quantifier without a bound is
# possessive, and what precedes it keeps a search from starting again within what it went over.
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
    """What the settings want redacted.

    Raises:
        WrongSettings: if a pattern or the hook cannot be used.

    >>> Redactor(JudgeSettings(redaction="on")).text("Write to ada@example.org or call +44 20 7946 0958.")
    'Write to [email] or call [phone].'
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._mode = settings.redaction
        self._patterns = (*_BUILT_IN, *(_own(name, form) for name, form in settings.redact_patterns.items()))
        self._hook = imported(settings.redact_hook) if settings.redact_hook else str

    def applied(self, case: Case) -> Case | None:
        """The case as it may leave; None if it may not leave at all.

        It may not where `refuse` is set and there is something to redact, nor where the hook fails.
        """
        if self._mode == "off":
            return case
        try:
            redacted = replace(
                case,
                query=self.text(case.query),
                response=self.text(case.response),
                contexts=self._texts(case.contexts),
                expected=self._texts(case.expected),
            )
        except Exception as error:  # Of the hook: what it could not look at must not leave.
            _log.error("judge.redact_hook failed; the event is not judged", error=type(error).__name__)
            return None
        return None if self._mode == "refuse" and redacted != case else redacted

    def text(self, text: str) -> str:
        """One text, redacted.

        Raises:
            Exception: whatever the hook raises.
        """
        for pattern in self._patterns:
            text = pattern.replaced(text)
        hooked = self._hook(text)
        if not isinstance(hooked, str):
            raise TypeError("the hook gave no text")
        return hooked

    def _texts(self, texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if texts is None else tuple(map(self.text, texts))


def _own(name: str, form: str) -> _Pattern:
    try:
        compiled = re.compile(form)
    except re.error as error:
        raise WrongSettings(f"judge.redact_patterns.{name} is no regular expression: {error}") from None
    if compiled.search(""):
        raise WrongSettings(f"judge.redact_patterns.{name} finds nothing everywhere: it must not match an empty text")
    return _Pattern(name, compiled)
