"""Adversarial events, generated from a seed: long texts, long lists, extreme numbers and wrong types.

`TEXTS` are kinds of text, `LAYOUTS` the fields that a text fills. `LISTS` are events that cost by the number of their
parts, `PRODUCTS` events that cost by the product of two such numbers. `lines` yields all of them, and events with wrong
values, as JSON lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, cycle, islice
from typing import Any

import orjson

from ragweir.metrics.laws.corpus import RICH, START, VALUES, Fields, changed, paths

Make = Callable[[int], str]
"""Returns a text of about that many bytes of UTF-8."""

_LETTERS = "bcdfghjklmnpqrstvwxz"


def _repeated(unit: str) -> Make:
    size = len(unit.encode())
    return lambda length: unit * max(length // size, 1)


def _joined(units: Callable[[], Iterator[str]]) -> Make:
    """Return a maker of texts of distinct units, so that no cache holds the next one."""

    def make(length: int) -> str:
        parts: list[str] = []
        made = units()
        while length > 0:
            parts.append(next(made))
            length -= len(parts[-1].encode())
        return "".join(parts)

    return make


def _word(number: int, letters: str = _LETTERS, least: int = 3) -> str:
    """Return the word with this number, of at least that many letters."""
    word = ""
    while number or len(word) < least:
        number, digit = divmod(number, len(letters))
        word += letters[digit]
    return word


def _each(form: Callable[[int], str]) -> Make:
    return _joined(lambda: map(form, count()))


def _day(number: int) -> str:
    return f"{1000 + number // 336 % 9000}-{number % 12 + 1:02}-{number // 12 % 28 + 1:02} "


def _marks(length: int) -> str:
    """Return combining marks in the opposite of the canonical order."""
    return "a" + "\u0301" * (length // 4) + "\u0323" * (length // 4)


TEXTS: Mapping[str, Make] = {
    "one word": _repeated("a"),
    "long words": _each(lambda n: f"{_word(n) * 50} "),
    "words over the memory": _each(lambda n: f"{_word(n) * 43}z "),
    "distinct words": _each(lambda n: f"{_word(n)} "),
    "distinct capitals": _each(lambda n: f"{_word(n).capitalize()} "),
    "distinct accents": _each(lambda n: f"{_word(n, 'àçéñøüßåîō', 2)} "),
    "distinct identifiers": _each(lambda n: f"{_word(n, least=1)}-{n % 10} "),
    "short sentences": _each(lambda n: f"{_word(n).capitalize()}. "),
    "phrases": _each(lambda n: f"{_word(n).capitalize()} {_word(n + 7).capitalize()}, "),
    "letters": _repeated("a b c d "),
    "stop words": _repeated("the of and "),
    "hedges": _repeated("may May might I think "),
    "refusals": _repeated("I do not know "),
    "conceding refusals": _repeated("While I cannot say I do not know that it is not mentioned "),
    "refused lines": _repeated("No.\nI cannot answer.\n"),
    "claims": _each(lambda n: f"The {_word(n)} covers {_word(n + 3)}. "),
    "claims of one sentence": _each(lambda n: f"the {_word(n)} covers {_word(n + 3)} and "),
    "claims alike": _each(lambda n: f"The roof covers {_word(n)}. "),
    "questions": _repeated("is it? "),
    "digits": _repeated("9"),
    "numbers": _each(lambda n: f"{n} "),
    "decimals": _each(lambda n: f"{n}.{n} "),
    "grouped digits": _repeated("1,234,"),
    "money": _each(lambda n: f"-${n} million "),
    "dates": _each(_day),
    "written dates": _each(lambda n: f"Dec {n % 28 + 1}, {1000 + n % 9000} "),
    "months": _repeated("May Dec "),
    "times": _each(lambda n: f"{n % 24}:{n // 24 % 60:02}:{n // 1440 % 60:02} "),
    "sums": _repeated("3 x 4 * "),
    "Han": _repeated("保険料三百円以上"),
    "distinct Han": _each(lambda n: chr(0x4E00 + n * 7919 % 20_000)),
    "Thai": _repeated("อัตราภาษี"),
    "Arabic": _repeated("الفيضان مغطى "),
    "Hangul letters": _repeated("\u1100\u1161\u11a8"),
    "far letters": _repeated("\U00020000"),
    "accents to compose": _repeated("e\u0301"),
    "marks out of order": _marks,
    "marks that take turns": _repeated("\u0301\u0323\u0334"),
    "vowel signs that decompose": _repeated("\u0f73"),
    "unassigned": _repeated("\u0378e\u0301"),
    "emoji": _repeated("👩\u200d🚒"),
    "spaces": _repeated(" "),
    "lines": _repeated("\n"),
    "carriage returns and spaces": _repeated("\r \u3000"),
    "list marks": _repeated("\n1. "),
    "list items": _each(lambda n: f"\n* {_word(n)}: x"),
    "rules": _each(lambda n: f"Rule C-{n} "),
    "dots": _repeated("."),
    "signs": _repeated("(+$"),
    "distinct signs": _each(lambda n: f"{_word(n, '(){}<>/|', 1)} "),
    "apostrophes": _repeated("a'"),
    "hyphens": _repeated("a-"),
    "hyphens and digits": _repeated("a-1"),
    "opening brackets": _repeated("["),
    "citations": _repeated("[1]"),
    "a list of citations": lambda length: f"[{'1,' * (length // 2)}1]",
    "citations without an end": lambda length: f"[{'1,' * (length // 2)}",
    "controls": _repeated("\x00"),
}
"""Kinds of text, each costly to another part of the evaluation."""


def _parts(text: str, number: int) -> list[str]:
    size = max(len(text) // number, 1)
    return [text[part * size : (part + 1) * size] for part in range(number)]


def _contexts(texts: Sequence[str]) -> list[Fields]:
    return [{"text": text, "chunk_id": f"c{index}"} for index, text in enumerate(texts)]


def _everywhere(make: Make, size: int) -> Fields:
    query, response, expected, context = _parts(make(size), 4)
    return {"query": query, "response": response, "expected": expected, "contexts": _contexts([context])}


def _same_everywhere(make: Make, size: int) -> Fields:
    text = make(size // 4)
    return {"query": text, "response": text, "expected": text, "contexts": _contexts([text]), "question_id": "EF_3"}


def _many_contexts(make: Make, size: int) -> Fields:
    response, *rest = _parts(make(size), 4)
    return {"query": response[:500], "response": response, "contexts": _contexts(_parts("".join(rest), 64))}


def _many_answers(make: Make, size: int) -> Fields:
    response, expected = _parts(make(size), 2)
    return {"response": response, "expected": _parts(expected, 32), "question_id": "EF_1"}


def _same_answers(make: Make, size: int) -> Fields:
    response = make(size // 2)
    answers = [response[start : start + len(response) // 32] for start in range(32)]
    return {"response": response, "expected": answers, "question_id": "EF_1"}


def _many_extractions(make: Make, size: int) -> Fields:
    parts = iter(_parts(make(size), 800))
    found = [{"field": "f", "value": value, "evidence": evidence} for value, evidence in zip(parts, parts, strict=True)]
    return {"extractions": found}


LAYOUTS: Mapping[str, Callable[[Make, int], Fields]] = {
    "response": lambda make, size: {"response": make(size)},
    "everywhere": _everywhere,
    "everywhere alike": _same_everywhere,
    "64 contexts": _many_contexts,
    "32 answers": _many_answers,
    "32 answers alike": _same_answers,
    "400 extractions": _many_extractions,
}
"""The fields that a kind of text fills."""


def _filled(name: str, items: Callable[[], Iterator[Any]], **more: Any) -> Callable[[int], Fields]:
    """Return a maker of events whose list in this field takes the whole size."""

    def make(size: int) -> Fields:
        each = len(orjson.dumps(list(islice(items(), 1_000)))) / 1_000
        return {name: list(islice(items(), int(size / each))), **more}

    return make


def _always(item: Any) -> Callable[[], Iterator[Any]]:
    return lambda: cycle([item])


def _counted(form: Callable[[int], Any]) -> Callable[[], Iterator[Any]]:
    return lambda: map(form, count())


def _in(field: str, name: str, make: Callable[[int], Fields], *, listed: bool = False) -> Callable[[int], Fields]:
    """Return a maker of events with the list as a part of another field."""

    def within(size: int) -> Fields:
        part = {name: make(size)[name]}
        return {field: [part] if listed else part}

    return within


def _span(number: int) -> Fields:
    return {"kind": "tool", "started_at": START + number, "ended_at": START + 10**6 - number}


LISTS: dict[str, Callable[[int], Fields]] = {
    "answers of a letter": _filled("expected", _always("a")),
    "answers and a long response": lambda size: {
        "expected": ["a"] * (size // 8),
        "response": TEXTS["distinct words"](size // 2),
    },
    "contexts of 0": _filled("contexts", _always(0)),
    "empty contexts": _filled("contexts", _always({})),
    "contexts of a word": _filled("contexts", _counted(lambda n: {"text": _word(n)}), response="word"),
    "labelled contexts": _filled("contexts", _counted(lambda n: {"chunk_id": str(n), "relevant": 1.7e308, "rank": -n})),
    "contexts of JSON": _in("contexts", "text", _filled("text", _always(1e15)), listed=True),
    "contexts of objects": _in("contexts", "text", _filled("text", _always({"a": {}})), listed=True),
    "empty spans": _filled("spans", _always({})),
    "spans that overlap": _filled("spans", _counted(_span)),
    "spans of no kind": _filled("spans", _always({"kind": "nothing"})),
    "relevant ids": _in("retrieval", "relevant_ids", _filled("relevant_ids", _counted(str))),
    "relevant lists": _in("retrieval", "relevant_ids", _filled("relevant_ids", _always([]))),
    "empty extractions": _filled("extractions", _always({})),
    "extractions of a field": _filled("extractions", _counted(lambda n: {"field": "f", "value": n, "evidence": "7"})),
    "extractions of many fields": _filled("extractions", _counted(lambda n: {"field": str(n), "value": 1.5})),
    "extracted numbers": _in("extractions", "value", _filled("value", _always(1.7e308)), listed=True),
    "extracted words": _in("extractions", "value", _filled("value", _counted(_word)), listed=True),
    "extracted objects": _in("extractions", "value", _filled("value", _always({"a": []})), listed=True),
    "aggregations": _filled("aggregation", _counted(lambda n: {"field": str(n), "confidence": "9"})),
    "empty aggregations": _filled("aggregation", _always({})),
    "history": _filled("history", _always({"role": "", "text": ""})),
    "wrong history": _filled("history", _always(0)),
    "labels": lambda size: {"labels": {str(number): "" for number in range(size // 10)}},
    "labels of lists": lambda size: {"labels": {str(number): [] for number in range(size // 10)}},
    "unknown fields": lambda size: {f"own_{number}": number for number in range(size // 20)},
    "an unknown list": _filled("own", _always([])),
    "extra": lambda size: {"extra": {str(number): 0 for number in range(size // 12)}},
}
"""Events that cost by the number of their parts."""


def _phrases_and_pairs(size: int) -> Fields:
    """Return contexts that contain every pair of words of the response's phrases, and none of the phrases."""
    words = [_word(number).capitalize() for number in range(size // 12 + 3)]
    runs = list(zip(words[::3], words[1::3], words[2::3], strict=False))
    pairs = [f"{one} {two}. {two} {three}" for one, two, three in runs]
    return {
        "response": ", ".join(map(" ".join, runs)),
        "contexts": _contexts([". ".join(pairs[part::32]) for part in range(32)]),
    }


def _growing_phrases(size: int) -> Fields:
    """Return phrases each of which ends the next."""
    longest = int((size / 4) ** 0.5)
    text = ". ".join("Aa " * length for length in range(1, longest))
    return {"response": text, "expected": [text], "contexts": _contexts(["Aa " * (size // 12)])}


def _drawn(words: int, length: int, size: int, form: str) -> str:
    """Return sentences of words drawn from a small vocabulary."""
    rng = random.Random(size)
    vocabulary = [_word(number, least=2) * 2 for number in range(words)]
    sentences = (form.format(*rng.sample(vocabulary, length)) for _ in count())
    return "".join(islice(sentences, size // (5 * length)))


def _claims_of_few_words(size: int) -> Fields:
    """Return claims that share their words, and contexts whose sentences contain nearly all of these."""
    return {
        "response": _drawn(16, 4, size // 3, "The {} {} covers {} {}. "),
        "contexts": _contexts(_parts(_drawn(16, 6, size // 2, "{} {} {} {} {} {}. "), 16)),
    }


def _sentences_in_all_contexts(size: int) -> Fields:
    """Return sentences whose words all occur in every context."""
    vocabulary = " ".join(_word(number) for number in range(size // 400))
    return {
        "response": _drawn(size // 400, 2, size // 4, "{} {}. "),
        "contexts": _contexts([f"{vocabulary} {number}" for number in range(64)]),
    }


_distinct, _phrases = TEXTS["distinct words"], TEXTS["phrases"]
PRODUCTS: dict[str, Callable[[int], Fields]] = {
    "phrases that occur as pairs": _phrases_and_pairs,
    "phrases that end in phrases": _growing_phrases,
    "claims of few words": _claims_of_few_words,
    "sentences in all contexts": _sentences_in_all_contexts,
    "a query of distinct words": lambda size: {
        "query": (words := _distinct(size // 3)),
        "response": words,
        "contexts": _contexts(_parts(words, 64)),
    },
    "phrases in all contexts": lambda size: {
        "response": (text := _phrases(size // 4)),
        "contexts": _contexts([f"{part} {text[-200:]}" for part in _parts(_phrases(size // 2), 64)]),
    },
    "64 full contexts alike": lambda size: {
        "query": _distinct(size // 66),
        "response": _distinct(size // 66),
        "contexts": _contexts([f"{_distinct(size // 66)}{number}" for number in range(64)]),
    },
    "words of one beginning": lambda size: {
        "query": (words := "".join(f"collision{number:08} " for number in range(size // 54))),
        "response": words,
        "contexts": _contexts([words]),
    },
    "a concession with gaps": lambda size: {"response": "While " + "I cannot say".ljust(60) * (size // 60)},
}
"""Events that cost by the product of two numbers of parts."""


def event(fields: Fields, event_id: str = "hostile") -> bytes:
    """Return the bytes of an interaction with these fields."""
    base: Fields = {"event_id": event_id, "ended_at": START, "query": "Who wrote it?", "response": "Ada wrote it."}
    return orjson.dumps(base | fields)


def shapes() -> Iterator[tuple[str, Callable[[int], Fields]]]:
    """Yield every shape with its name: each kind of text in each layout, then the lists and the products."""
    for kind, make in TEXTS.items():
        for layout, fill in LAYOUTS.items():
            yield f"{kind}: {layout}", lambda size, make=make, fill=fill: fill(make, size)  # type: ignore[misc]
    yield from LISTS.items()
    yield from PRODUCTS.items()


def sized(make: Callable[[int], Fields], size: int) -> bytes:
    """Return an event of a shape with at most that many bytes, and nearly as many.

    JSON writes some characters longer than UTF-8 does, so the size is reduced until the event fits. Sizes
    below 32 KiB are too small for some shapes.
    """
    asked = size - 200
    value = event(make(asked))
    while len(value) > size:
        asked = int(asked * (size - 100) / len(value))
        value = event(make(asked))
    return value


_PATHS = tuple(paths())
_SHAPES = tuple(shapes())
_BROKEN = (
    *(b"{", b'{"event_id": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 2_000),
    *(b"null", b'"text"', b"{}", b"[{}]"),
)


def _mutant(rng: random.Random) -> Fields:
    fields = RICH
    for _ in range(rng.randrange(1, 6)):
        fields = changed(fields, rng.choice(_PATHS), rng.choice(VALUES))
    return fields


def lines(number: int, seed: int = 7, most_bytes: int = 1024 * 1024) -> Iterator[bytes]:
    """Yield lines, none of them blank: events with wrong values, shapes of this module, and lines that are no event.

    The sizes of the shapes are spread evenly over their logarithm from 1 KiB to 64 KiB. Every 100th line is a shape of
    `most_bytes`, and the next line is longer than that.
    """
    rng = random.Random(seed)
    for index in range(number):
        event_id = f"odd-{index if rng.random() > 0.03 else rng.randrange(index + 1)}"
        kind = rng.random()
        if index % 100 == 50:
            yield sized(rng.choice(_SHAPES)[1], most_bytes)
        elif index % 100 == 51:
            yield event({"query": "x" * most_bytes}, event_id)
        elif kind < 0.7:
            yield orjson.dumps(_mutant(rng) | ({"event_id": event_id} if rng.random() > 0.05 else {}))
        elif kind < 0.95:
            yield event(rng.choice(_SHAPES)[1](int(1024 * 64 ** rng.random())), event_id)
        elif kind < 0.98:
            yield rng.choice(_BROKEN)
        else:
            whole = orjson.dumps(RICH | {"event_id": event_id})
            yield whole[: rng.randrange(1, len(whole))]
