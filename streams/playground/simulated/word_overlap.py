"""The answers of the simulated judge: word overlap, in the form of the requested schema. There is no model.

It reads the texts of an event between the marks of the prompt, and fills in the fields of the suites' answers by name:
relevance is the share of the query's words that the response has, faithfulness the share of the response's words that
the contexts have, and so on. Other fields are filled in with valid values. Better grounded answers get higher scores.
The same question has the same answer, and each reason begins with "simulated".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import chain, islice
from math import sqrt
from types import MappingProxyType
from typing import Any

import orjson

from ragweir.metrics.judged.framing import unframed
from ragweir.metrics.text.text import Text
from ragweir.streams.playground.simulated.filling import filled

_SUPPORTED = 0.6
"""The share of a claim's words that one context must hold to support it."""
_RELEVANT = 0.3
"""The share of the query's words that a context must hold to be relevant."""
_RIGHT = 0.5
"""The share of an expected answer's words that a response must hold to be right."""
_MOST_SENTENCES = 20
_SENTENCE_CHARACTERS = 200
_QUESTIONS = 3
_WORDS_OF_QUESTION = 8
_NUMBER = re.compile(r"^\d+\. ")
_REASON = "reason"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request as the simulated judge reads it."""

    messages: tuple[str, ...]
    """The texts of all messages."""
    texts: Mapping[str, str]
    """The texts between marks, by name."""
    instructions: str
    """The text outside the marks."""
    check: str
    """The check word; empty if the request has no marks."""
    name: str
    """Name of the schema, else its title or fields; empty without one."""
    schema: Mapping[str, Any] | None
    as_json: bool
    """True if the answer must be JSON."""

    def called(self, name: str) -> list[str]:
        """Return the texts of a name, with numbered ones: `context 1`, `context 2`."""
        return [text for own, text in self.texts.items() if own == name or own.startswith(f"{name} ")]

    @property
    def digest(self) -> str:
        """The digest of the question, without its marks and check word."""
        around = self.instructions.replace(self.check, "") if self.check else self.instructions
        return sha256(orjson.dumps([self.name, around, *self.texts.items()])).hexdigest()[:32]


def read(messages: Sequence[Mapping[str, Any]], response_format: Mapping[str, Any]) -> ChatRequest:
    """Read a request's messages and its response_format. In JSON mode the schema is looked for in the instructions.

    Raises:
        AttributeError, KeyError, TypeError: if they are not of OpenAI's schema.
    """
    texts_by_role = [(message["role"], _content(message["content"])) for message in messages]
    system = "\n".join(text for role, text in texts_by_role if role in {"system", "developer"})
    user = "\n".join(text for role, text in texts_by_role if role == "user")
    try:
        texts, instructions, check = unframed(system, user)
    except ValueError:
        texts, instructions, check = {}, user, ""
    by_endpoint = response_format["json_schema"] if response_format["type"] == "json_schema" else None
    schema = dict(by_endpoint["schema"].items()) if by_endpoint else _schema_in(f"{system}\n{instructions}")
    name = (by_endpoint and by_endpoint.get("name")) or _named(schema)
    as_json = response_format["type"] != "text" or schema is not None
    return ChatRequest(tuple(text for _, text in texts_by_role), texts, instructions, check, str(name), schema, as_json)


def answered(question: ChatRequest) -> str:
    """Return the answer of the simulated judge: JSON that is valid for the schema, if there is one.

    >>> texts = {"response": "Ada wrote poems.", "context 1": "Ada wrote notes."}
    >>> fields = {"faithfulness": {"type": "number"}, "reason": {"type": "string"}}
    >>> print(answered(ChatRequest((), texts, "", "", "", {"type": "object", "properties": fields}, True)))
    {"faithfulness":0.67,"reason":"simulated: 67 % of the words are shared"}
    """
    if question.schema is not None:
        values, share = _values(question, question.schema.get("properties", {}))
        return orjson.dumps(filled(question.schema, values, share)).decode()
    text = "simulated: no schema was given"
    return orjson.dumps({"reason": text, "check": question.check}).decode() if question.as_json else text


def vector(text: str, dimensions: int) -> list[float]:
    """Return a unit vector of a text's hashed words; texts that share words are near each other.

    >>> one, other, third = (vector(text, 256) for text in ("Ada wrote notes", "notes by Ada", "rain falls"))
    >>> sum(a * b for a, b in zip(one, other)) > sum(a * b for a, b in zip(one, third))
    True
    """
    read = _text(text)
    counts = [0.0] * dimensions
    for word in list(filter(None, read.token_stems)) or read.tokens or [text]:
        counts[_bucket(word) % dimensions] += 1
    length = sqrt(sum(count * count for count in counts))
    return [count / length for count in counts]


@lru_cache(maxsize=50_000)
def _bucket(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@lru_cache(maxsize=128)
def _text(raw: str) -> Text:
    """Analyse a text; the questions about one event repeat its texts."""
    return Text(raw)


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise TypeError("a message has no content")
    return "".join(part["text"] for part in content if part["type"] == "text")


def _schema_in(text: str) -> dict[str, Any] | None:
    """Return the first JSON schema of an object in a text."""
    decode, start = json.JSONDecoder().raw_decode, text.find("{")
    while start >= 0:
        try:
            found, end = decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if "properties" in found:
                return dict(found)
        start = text.find("{", end)
    return None


def _named(schema: Mapping[str, Any] | None) -> str:
    return "" if schema is None else schema.get("title") or ",".join(schema.get("properties", ()))


def _shared(words: Iterable[str], others: Iterable[str]) -> float:
    """Return the share of the words of some texts that others have; 0 without words."""
    wanted = frozenset(chain.from_iterable(_text(each).stems for each in words))
    found = frozenset(chain.from_iterable(_text(each).stems for each in others))
    return round(len(wanted & found) / len(wanted), 2) if wanted else 0.0


def _relevance(question: ChatRequest) -> float:
    return _shared(question.called("query"), question.called("response"))


def _faithfulness(question: ChatRequest) -> float:
    return _shared(question.called("response"), question.called("context"))


def _correctness(question: ChatRequest) -> float:
    return max((_shared(question.called("response"), [each]) for each in question.called("expected")), default=0.0)


def _completeness(question: ChatRequest) -> float:
    return max((_shared([each], question.called("response")) for each in question.called("expected")), default=0.0)


def _sentences(raw: str) -> list[str]:
    text = _text(raw)
    spans = ((text.spans[first][0], text.spans[last - 1][1]) for first, last in text.sentences)
    return [text.text[start:stop][:_SENTENCE_CHARACTERS] for start, stop in islice(spans, _MOST_SENTENCES)]


def _claims(question: ChatRequest) -> list[str]:
    return list(chain.from_iterable(map(_sentences, question.called("response"))))


def _statements(question: ChatRequest) -> list[dict[str, object]]:
    numbered = enumerate(question.called("expected"), 1)
    return [{"expected": number, "statement": each} for number, text in numbered for each in _sentences(text)]


def _questions(question: ChatRequest) -> list[str]:
    words = list(dict.fromkeys(chain.from_iterable(_text(each).content for each in question.called("response"))))
    some = (words[first::_QUESTIONS][:_WORDS_OF_QUESTION] for first in range(_QUESTIONS))
    return [f"What about {' '.join(each)}?" for each in some if each]


def _verdicts(question: ChatRequest) -> list[dict[str, object]]:
    """Judge if a context has most words of each claim or statement; without these, if each context is relevant."""
    contexts = question.called("context")
    lines = [line for name in ("claims", "statements") for text in question.called(name) for line in text.splitlines()]
    if lines:
        shares = [max((_shared([_NUMBER.sub("", line)], [each]) for each in contexts), default=0.0) for line in lines]
        least = _SUPPORTED
    else:
        query = [*question.called("query"), *question.called("expected")]
        shares, least = [_shared(query, [each]) for each in contexts], _RELEVANT
    return [
        {"number": number, "reason": _reason(share), "verdict": share >= least}
        for number, share in enumerate(shares, 1)
    ]


def _reason(share: float) -> str:
    return f"simulated: {100 * share:.0f} % of the words are shared"


_VALUES: Mapping[str, Callable[[ChatRequest], object]] = MappingProxyType(
    {
        "check": lambda question: question.check,
        "relevance": _relevance,
        "score": _relevance,
        "faithfulness": _faithfulness,
        "hallucination": lambda question: round(1 - _faithfulness(question), 2),
        "contextual_relevance": lambda question: _shared(question.called("query"), question.called("context")),
        "recall": lambda question: _shared(
            [*question.called("query"), *question.called("response")], question.called("context")
        ),
        "correctness": _correctness,
        "completeness": _completeness,
        "consistency": lambda question: round((_correctness(question) + _completeness(question)) / 2, 2),
        "verdict": lambda question: "CORRECT" if _completeness(question) >= _RIGHT else "WRONG",
        "claims": _claims,
        "statements": _statements,
        "questions": _questions,
        "verdicts": _verdicts,
    }
)
"""The values of the fields of the suites' answers."""


def _values(question: ChatRequest, fields: Collection[str]) -> tuple[dict[str, object], float]:
    """Return the values of fields, and the share of the response's words that the other texts have."""
    others = [text for name, text in question.texts.items() if name != "response"]
    share = _shared(question.called("response"), others)
    values = {name: _VALUES[name](question) for name in fields if name in _VALUES}
    known = next((value for value in values.values() if isinstance(value, float)), share)
    for name in fields:
        if name.endswith(_REASON):
            own = values.get(name.removesuffix(_REASON).rstrip("_"))
            values[name] = _reason(own if isinstance(own, float) else known)
    return values, share
