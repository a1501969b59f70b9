"""Compares a command's output with the one that a page shows."""

import re
from collections.abc import Sequence


def difference(shown: Sequence[str], found: Sequence[str]) -> str | None:
    """Give the first shown line that the output does not have there, or None if the output is the shown one.

    `...` within a line stands for any text, as a line of its own for any number of lines. Runs of white space are
    equal, and empty lines at both ends do not count.

    >>> difference(["a ... c", "...", "z"], ["a b c", "", "y", "z"])
    >>> print(difference(["a", "b"], ["a", "c", "d"]))
    expected: b
    got:      c
    >>> print(difference(["a"], ["a", "b"]))
    expected: the end of the output
    got:      b
    """
    lines = _stripped(found)
    reached = {0}
    for line in shown:
        if line.strip() == "...":
            following = set(range(min(reached), len(lines) + 1))
        else:
            pattern = _pattern(line)
            following = {at + 1 for at in reached if at < len(lines) and pattern.fullmatch(_spaced(lines[at]))}
        if not following:
            # After a wildcard the line may have been expected anywhere.
            first = min(reached)
            got = "the end of the output" if first == len(lines) else lines[first]
            anywhere = f" (nor in the {len(reached) - 1} lines after it)" if len(reached) > 1 else ""
            return f"expected: {line.strip()}\ngot:      {got}{anywhere}"
        reached = following
    if len(lines) in reached:
        return None
    return f"expected: the end of the output\ngot:      {lines[max(reached)]}"


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in re.split(r"\.{3,}", _spaced(line))))


def _spaced(line: str) -> str:
    return " ".join(line.split())


def _stripped(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[0].strip():
        kept.pop(0)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
