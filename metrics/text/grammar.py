"""The grammar of tokens, as one regular expression that reads every position of a text once, without backtracking.

Classes of characters, all of Unicode 14.0 (`ragweir.metrics.text.unicode14`), the rest spelled out here:

    L  letters of scripts written with spaces      N  numerals of those      M  combining marks of all scripts
    U  letters and numerals of Han, kana, Thai, Lao, Khmer and Myanmar       W  any of L, N, M
    d  0-9        C  currency signs (Sc)           B  opening brackets (Ps)
    h  space, tab, U+00A0, U+202F                  r  line ends: U+000A to U+000D, U+0085, U+2028, U+2029
    z  white space: h, r, U+001C to U+001F, U+1680, U+2000 to U+200A, U+205F, U+3000
    '  U+0027, U+2019        -  U+002D, U+2010, U+2011        ±  U+002B, U+002D, U+2212        e  ! ? ; 。 ！ ？ ؟ ।

The text is in NFC. If it opens with z* list-mark, the scan starts after that. At each position the first rule that
matches consumes its part of the text and the scan continues after it; if none matches, one character is skipped.
Repetitions and options are possessive. `!x` means "not followed by x", `&x` "followed by x". Letters in quotes match as
they are, names of months and powers in any case.

    1  date         month "."? gap day-of-month to-year year
    2  identifier   L (L | M)* - &((W but d)* d) W+          at least one ASCII digit behind the hyphen
    3  word         L W* (' W+)*                             each ' between L or M and L
    4  line         r z* list-mark?
    5  full stop    "." !(a-z | d)
    6  date         dddd "-" dd "-" dd !d ("T" &(dd ":"))?   month 01 to 12, day 01 to 31, whatever the month
    7  date         day-of-month gap month "."? to-year year
    8  date         month-number "/" 13-31 "/" year !("/" d)  or the first two exchanged
    9  date         dddd "/" month-number "/" day
    10 time         hour ":" minute !d (":" second !d ("." d+)?)? half-day?      hour 0 to 23 or 00 to 23
    11 time         hour half-day                                                hour 1 to 12 or 01 to 12
    12 number       plain power?
    13 end          e
    14 citation     "[" n ("," n)* "]"                       n: one to three digits, h* around each
    15 bracket      "["
    16 number       ± C? (plain | "." d+) power?              only at the start, or behind one of z, B, C
    17 number       "." d+ power?                            only at the start, or behind one of z, B, C
    18 pairs        U (U | M)*
    19 word         (N but d) W* (' W+)*
    20 signs        all that is no z, L, N, M, U, -, ', ±, e, "&", "." or "["; one or more

    plain           d{1,3} ("," ddd !d)+, else dd? ("," dd &","){1,6} "," ddd !d, else d+; then ("." d+)?
    power           h* ("thousand" | "million" | "billion" | "bn") !(W | U), or at once ("k" | "M") !(W | U)
    half-day        h* (am | pm, each letter in any case, !(W | U); or a.m. p.m. A.M. P.M. as they are)
    month           the English name, its first three letters, or "sept"
    day-of-month    day, then ("st" | "nd" | "rd" | "th") !(A-Z | a-z | d) or nothing
    day             1 to 31 or 01 to 31, !d            month-number  1 to 12 or 01 to 12          year  dddd !d
    gap             h+ or "-"                          to-year       "," h*, or h+, or "-"
    list-mark       d{1,3} ("." | ")") &h

Rules 4, 5, 13, 14, 15 and 20 give no tokens. Rules 4, 5 and 13 end a sentence, except rule 5 after a match (of any
rule) that is an abbreviation (`ragweir.metrics.text.words`) or a single character and no stop word.

Details: a full stop before a small ASCII letter or a digit does not end a sentence (example.com), Indian grouping is a
number (12,34,567), a mark that follows no letter is not a word (the selector after an emoji), "-" may be U+2010 or
U+2011 (models write them), [n] has at most three digits (a year in brackets is a number).

Linear: lookahead reaches no further than the next few tokens; runs of h are read from the one token before them, lists
in brackets from the one "[" that opens them, and a run after a hyphen from that hyphen.
"""

import re
from functools import cache

from ragweir.metrics.text import unicode14
from ragweir.metrics.text.words import MONTHS

LINE_ENDS = "\n\x0b\x0c\r\x85\u2028\u2029"
SENTENCE_ENDS = "!?;。！？؟।"
POWERS = {"thousand": 3, "million": 6, "billion": 9, "bn": 9, "k": 3, "M": 6}
"""Power of ten by multiplier."""

_R = "\\n-\\r\\x85\\u2028\\u2029"
_Z = f"{_R}\\t\\x1c-\\x20\\xa0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000"
_H = "[ \\t\\xa0\\u202f]"
_HYPHENS = "\\-\\u2010\\u2011"
_APOSTROPHES = "'\\u2019"
_SIGNS = "+\\-\\u2212"
_ENDS = SENTENCE_ENDS


def code_points(lengths: str) -> list[tuple[int, int]]:
    """Return the first and last code point of each range of a set of `ragweir.metrics.text.unicode14`.

    >>> code_points("41 1a 6 1a")
    [(65, 90), (97, 122)]
    """
    ranges, position = [], 0
    parts = iter([int(length, 16) for length in lengths.split()])
    for gap, length in zip(parts, parts, strict=True):
        ranges.append((position + gap, position + gap + length - 1))
        position += gap + length
    return ranges


def characters(lengths: str, first: int = 0, last: int = 0x10FFFF) -> str:
    """Return the part of a set from first to last, as the content of a pattern's character class."""
    cut = ((max(start, first), min(end, last)) for start, end in code_points(lengths))
    return "".join(f"\\U{start:08x}-\\U{end:08x}" for start, end in cut if start <= end)


def _any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" for letter in word)


def _month() -> str:
    longest_first = sorted(MONTHS, key=lambda name: (MONTHS[name], -len(name)))
    # The guard is a cheap lookahead that rejects most words.
    guard = "(?=[JFMASONDjfmasond][aeucopAEUCOP][nbrylgptvcNBRYLGPTVC])"
    return f"{guard}(?>{'|'.join(map(_any_case, longest_first))})"


_MONTH = _month()
_DAY = "(?>3[01]|[12][0-9]|0?+[1-9])(?![0-9])"
_DAY_OF_MONTH = f"{_DAY}(?:(?>st|nd|rd|th)(?![A-Za-z0-9]))?+"
_YEAR = "[0-9]{4}(?![0-9])"
_GAP = f"(?>{_H}++|-)"
_TO_YEAR = f"(?>,{_H}*+|{_H}++|-)"
_MONTH_NUMBER = "(?>1[0-2]|0?+[1-9])"
_ABOVE_12 = "(?>1[3-9]|2[0-9]|3[01])"
_MONTH_FIRST = f"{_MONTH}\\.?+{_GAP}{_DAY_OF_MONTH}{_TO_YEAR}{_YEAR}"
_DAY_FIRST = f"{_DAY_OF_MONTH}{_GAP}{_MONTH}\\.?+{_TO_YEAR}{_YEAR}"
_ISO = "[0-9]{4}-(?>1[0-2]|0[1-9])-(?>3[01]|[12][0-9]|0[1-9])(?![0-9])(?:T(?=[0-9]{2}:))?+"
_SLASHED = f"(?>{_MONTH_NUMBER}/{_ABOVE_12}|{_ABOVE_12}/{_MONTH_NUMBER})/{_YEAR}(?!/[0-9])"
_YEAR_SLASHED = f"[0-9]{{4}}/{_MONTH_NUMBER}/{_DAY}"
_SECONDS = "(?::[0-5][0-9](?![0-9])(?:\\.[0-9]++)?+)?+"
_PLAIN = (
    "(?>[0-9]{1,3}+(?:,[0-9]{3}(?![0-9]))++"
    "|[0-9]{1,2}+(?:,[0-9]{2}(?=,)){1,6}+,[0-9]{3}(?![0-9])"
    "|[0-9]++)(?:\\.[0-9]++)?+"
)
_WRITTEN_POWERS = f"(?>{'|'.join(_any_case(name) for name in POWERS if len(name) > 1)})"
_LIST_MARK = f"[0-9]{{1,3}}+[.)](?={_H})"
_N = f"{_H}*+[0-9]{{1,3}}+{_H}*+"

CITATION = re.compile(f"\\[{_N}(?:,{_N})*+\\]")
"""A citation mark. No other match of the grammar that starts with `[` is longer than that character."""
DATE = re.compile(f"{_MONTH_FIRST}|{_ISO}|{_DAY_FIRST}|{_SLASHED}|{_YEAR_SLASHED}")
"""Matches dates among the matches of the grammar."""
TIME = re.compile(f"[0-9]{{1,2}}+(?::|{_H}*+[AaPp][Mm.])")
"""Matches times among the matches of the grammar that are times or numbers."""
NUMBER = re.compile(f"([{_SIGNS}]?+)[^0-9.]?+([0-9,]*+)(?:\\.([0-9]++))?+{_H}*+([a-zA-Z]*+)")
"""The parts of a number: its sign, whole part, fraction and multiplier."""


def _rules(reach: int) -> str:
    """Return all rules in order, for texts with no L, N, M, U or C above `reach`."""

    def known(lengths: str, first: int = 0) -> str:
        return characters(lengths, first, reach)

    letters, marks, unspaced = known(unicode14.LETTERS), known(unicode14.MARKS), known(unicode14.UNSPACED)
    numerals = known(unicode14.NUMERALS, first=0x80)
    currency, brackets = known(unicode14.CURRENCIES), known(unicode14.BRACKETS)
    undigited = letters + numerals + marks
    word = f"0-9{undigited}"
    run_on = f"(?![{word}{unspaced}])"
    apostrophes = f"(?:[{_APOSTROPHES}](?<=[{letters}{marks}].)(?=[{letters}])[{word}]++)*+"
    identifier = f"[{_HYPHENS}](?=[{undigited}]*+[0-9])[{word}]++"
    power = f"(?>{_H}*+{_WRITTEN_POWERS}{run_on}|[kM]{run_on})?+"
    half_day = f"{_H}*+(?>[AaPp][Mm]{run_on}|[ap]\\.m\\.|[AP]\\.M\\.)"
    hour_minute = f"(?>2[0-3]|[01][0-9]|[0-9]):[0-5][0-9](?![0-9]){_SECONDS}(?:{half_day})?+"
    hour = f"(?>1[0-2]|0?+[1-9]){half_day}"
    in_front = f"(?<![^{_Z}{brackets}{currency}].)"
    rules = [
        _MONTH_FIRST,
        f"[{letters}][{letters}{marks}]*+(?>{identifier}|[{word}]*+{apostrophes})",
        f"[{_R}][{_Z}]*+(?:{_LIST_MARK})?+",
        "\\.(?![a-z0-9])",
        f"(?=[0-9])(?>{_ISO}|{_DAY_FIRST}|{_SLASHED}|{_YEAR_SLASHED}|{hour_minute}|{hour}|{_PLAIN}{power})",
        f"[{_ENDS}]",
        f"\\[(?:{_N}(?:,{_N})*+\\])?+",
        f"[{_SIGNS}]{in_front}[{currency}]?+(?>{_PLAIN}|\\.[0-9]++){power}",
        f"\\.{in_front}[0-9]++{power}",
    ]
    if unspaced:
        rules += [f"[{unspaced}][{unspaced}{marks}]*+", f"[{numerals}][{word}]*+{apostrophes}"]
    rules.append(f"[^{_Z}{word}{unspaced}{_HYPHENS}{_APOSTROPHES}{_SIGNS}&.{_ENDS}\\[]++")
    return "|".join(f"(?>{rule})" for rule in rules)


@cache
def _pattern(reach: int) -> re.Pattern[str]:
    return re.compile(_rules(reach))


@cache
def _far_word() -> re.Pattern[str]:
    sets = (unicode14.LETTERS, unicode14.NUMERALS, unicode14.MARKS, unicode14.UNSPACED, unicode14.CURRENCIES)
    far = "".join(characters(lengths, first=0x10000) for lengths in sets)
    return re.compile(f"(?=[\\U00010000-\\U0010ffff])[{far}]")


def grammar(text: str) -> re.Pattern[str]:
    """Return the fastest pattern of all rules for a text: one with no more characters than the text has.

    Emoji are in no class, so that they do not need the slowest pattern, which has the classes beyond U+FFFF.
    """
    if text.isascii():
        return _pattern(0x7F)
    return _pattern(0x10FFFF if max(text) > "\uffff" and _far_word().search(text) else 0xFFFF)


_OPENING = re.compile(f"[{_Z}]*+{_LIST_MARK}")


def opening(text: str) -> int:
    """Return the position at which the scan of a text starts: after a list mark that opens it, else 0.

    >>> opening(" 1. One"), opening("1.5")
    (3, 0)
    """
    match = _OPENING.match(text)
    return match.end() if match else 0


CROSSING = re.compile(
    f"[0-9]"
    f"|\\A{_H}*+(?:{_MONTH}|[,\\]]|[AaPp]\\.?+[Mm]|{_WRITTEN_POWERS})"
    f"|(?:{_MONTH}\\.?+|\\[){_H}*+\\Z"
    f"|[{_R}][{_Z}]*+\\Z"
)
"""Found in every piece between two spaces that may share a match of the grammar with its neighbour, by rules 1, 4, 6 to
12, 14 and 16. A space between two other pieces is in no match but those of rule 4."""
