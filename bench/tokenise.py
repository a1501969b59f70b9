"""The cost of the tokenised view: microseconds for 4,500 characters of the answers and contexts of labelled files.

    python bench/tokenise.py FILE.jsonl ...

Prints the median over the distinct texts, once with the memory of pieces warm and once while it fills.
"""

import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter

from ragweir.metrics.text.text import Text

CHARACTERS = 4_500


def texts(paths: Iterable[str]) -> Iterator[str]:
    """Every response and context of at least 300 characters."""
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found = [row.get("response", ""), *(context["text"] for context in row.get("contexts", []))]
            yield from (text for text in found if len(text) >= 300)


def microseconds(text: str) -> float:
    """The time that one reading takes, for `CHARACTERS` characters."""
    started = perf_counter()
    read = Text(text)
    assert len(read.kinds) == len(read.tokens) >= len(read.content) >= len(read.stems)
    return (perf_counter() - started) * 1e6 * CHARACTERS / len(text)


def main(paths: list[str]) -> None:
    """Print one line for cold and one for warm."""
    distinct = sorted(set(texts(paths)))
    Text("compiles the patterns: é")
    cold = [microseconds(text) for text in distinct]
    warm = [min(microseconds(text) for _ in range(20)) for text in distinct]
    for name, times in (("cold", cold), ("warm", warm)):
        print(f"{name}: {statistics.median(times):6.0f} us for {CHARACTERS} characters, {len(times)} texts")


if __name__ == "__main__":
    main(sys.argv[1:])
