"""Write metrics/text/unicode14.py: the Unicode 14.0 data that tokens need, the same for every version of Python.

It needs a Python whose `unicodedata` is 14.0, which is 3.11:

    python3.11 tools/unicode_table.py > metrics/text/unicode14.py
"""

import sys
import unicodedata
from collections.abc import Iterable
from textwrap import wrap

NO_SPACES = (
    "CJK UNIFIED",
    "CJK COMPATIBILITY IDEO",
    "IDEOGRAPHIC",
    "VERTICAL IDEOGRAPHIC",
    "HIRAGANA",
    "HENTAIGANA",
    "KATAKANA",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
)
"""Prefixes of the names of characters of scripts that are written without spaces."""

SCRIPTS = {
    "Latin": ("LATIN", "FULLWIDTH LATIN"),
    "Greek": ("GREEK",),
    "Cyrillic": ("CYRILLIC",),
    "Armenian": ("ARMENIAN",),
    "Hebrew": ("HEBREW",),
    "Arabic": ("ARABIC",),
    "Devanagari": ("DEVANAGARI",),
    "Bengali": ("BENGALI",),
    "Gurmukhi": ("GURMUKHI",),
    "Gujarati": ("GUJARATI",),
    "Tamil": ("TAMIL",),
    "Telugu": ("TELUGU",),
    "Kannada": ("KANNADA",),
    "Malayalam": ("MALAYALAM",),
    "Sinhala": ("SINHALA",),
    "Thai": ("THAI",),
    "Lao": ("LAO",),
    "Tibetan": ("TIBETAN",),
    "Myanmar": ("MYANMAR",),
    "Georgian": ("GEORGIAN",),
    "Ethiopic": ("ETHIOPIC",),
    "Khmer": ("KHMER",),
    "Hangul": ("HANGUL", "HALFWIDTH HANGUL"),
    # A Japanese question may be all kanji and its answer mostly kana: one group, so that no mismatch is seen there.
    "Han": ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "HENTAIGANA", "IDEOGRAPHIC"),
}


CATEGORIES = [unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)]
NAMES = {code: unicodedata.name(chr(code), "") for code, category in enumerate(CATEGORIES) if category[0] in "LN"}
"""The names of letters and numerals."""
NO_SPACE = {code for code, name in NAMES.items() if name.removeprefix("HALFWIDTH ").startswith(NO_SPACES)}


def lower(code: int) -> int:
    """Return the code point to which case folding maps this one."""
    return ord("σ") if chr(code) == "ς" else ord(chr(code).lower()[0])


def ranges(codes: Iterable[int]) -> str:
    """Return ordered code points as alternating lengths of gaps and ranges, base 16."""
    lengths: list[int] = []
    behind = 0
    for code in codes:
        if lengths and code == behind:
            lengths[-1] += 1
        else:
            lengths += [code - behind, 1]
        behind = code + 1
    return " ".join(f"{length:x}" for length in lengths)


def of(*categories: str) -> Iterable[int]:
    """Return the code points of categories, each given in full or by its first letter."""
    return (code for code, category in enumerate(CATEGORIES) if category.startswith(categories))


def folds() -> str:
    """Return the case map as `first:count:stride:shift` runs, base 16."""
    runs: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        shift = lower(code) - code
        if not shift:
            continue
        if runs:
            first, count, stride, before = runs[-1]
            step = code - (first + (count - 1) * stride)
            if shift == before and step in ({1, 2} if count == 1 else {stride}):
                runs[-1] = [first, count + 1, step, shift]
                continue
        runs.append([code, 1, 1, shift])
    return " ".join(":".join(f"{part:x}" for part in run) for run in runs)


def constant(identifier: str, meaning: str, value: str) -> Iterable[str]:
    """Yield the source lines of one string constant."""
    lines = wrap(value, 110)
    if len(lines) == 1:
        yield f'{identifier} = "{value}"'
    else:
        yield f"{identifier} = ("
        yield from (f'    "{line} "' for line in lines[:-1])
        yield f'    "{lines[-1]}"'
        yield ")"
    yield f'"""{meaning}"""'
    yield ""


def module() -> Iterable[str]:
    """Yield the source lines of the table."""
    yield '"""Unicode 14.0 as far as tokens need it. Written by tools/unicode_table.py; not to be edited by hand.'
    yield ""
    yield "Sets of code points are lengths in base 16: of the gap from 0, of a range, of the next gap, and so on."
    yield '"""'
    yield ""
    spaced = "{} of scripts written with spaces."
    yield from constant("LETTERS", spaced.format("Letters (L)"), ranges(c for c in of("L") if c not in NO_SPACE))
    yield from constant("NUMERALS", spaced.format("Numerals (N)"), ranges(c for c in of("N") if c not in NO_SPACE))
    pair = "Letters and numerals of Han, kana, Thai, Lao, Khmer and Myanmar."
    yield from constant("UNSPACED", pair, ranges(sorted(NO_SPACE)))
    yield from constant("MARKS", "Combining marks (M) of every script.", ranges(of("M")))
    yield from constant("BRACKETS", "Opening brackets (Ps).", ranges(of("Ps")))
    yield from constant("CURRENCIES", "Currency signs (Sc).", ranges(of("Sc")))
    yield from constant("UNASSIGNED", "What Unicode 14.0 does not assign (Cn).", ranges(of("Cn")))
    meaning = "Small letters of capitals: runs of first code point, count, stride and shift."
    yield from constant("FOLDS", meaning, folds())
    yield "SCRIPTS = {"
    for script, prefixes in SCRIPTS.items():
        letters = ranges(code for code in of("L") if NAMES[code].startswith(prefixes))
        lines = wrap(letters, 106)
        if len(lines) == 1:
            yield f'    "{script}": ("{letters}"),'
            continue
        yield f'    "{script}": ('
        yield from (f'        "{line} "' for line in lines[:-1])
        yield f'        "{lines[-1]}"'
        yield "    ),"
    yield "}"
    yield '"""Letters of the common scripts; Han counts kana too."""'


if __name__ == "__main__":
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}: the table is of 14.0.0 (Python 3.11)")
    print("\n".join(module()))
