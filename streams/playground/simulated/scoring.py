"""What the simulated judge thinks: word overlap, in the shape that a schema asks for. No model is behind it.

It keeps to the marks around an event's texts, and knows the fields of our suites' answers by name: relevance is the
share of the query's words that the response takes up, faithfulness the share of the response's words that stand in the
contexts, and so on. Any other field is filled in so that it is valid. It reads no meaning; its numbers only behave like
a judge's: better grounded answers get higher ones. The same question has the same answer, and each reason says that it
is simulated.
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
    """What all messages say."""
    texts: Mapping[str, str]
    """What stands between marks, by name."""
    instructions: str
    """What stands around it."""
    check: str
    """The check word; empty where the request is not framed as ours are."""
    name: str
    """Of the schema: as the request names it, else its title or fields; empty without one."""
    schema: Mapping[str, Any] | None
    as_json: bool
    """Whether the answer must be JSON."""

    def called(self, name: str) -> list[str]:
        """The texts of a name, those too that are numbered: `context 1`, `context 2`."""
        return [text for own, text in self.texts.items() if own == name or own.startswith(f"{name} ")]

    @property
    def digest(self) -> str:
        """The same for the same question, whatever its marks and check word are."""
        around = self.instructions.replace(self.check, "") if self.check else self.instructions
        return sha256(orjson.dumps([self.name, around, *self.texts.items()])).hexdigest()[:32]


def read(messages: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> ChatRequest:
    """Read a request's messages and its response_format. In JSON mode the schema is looked for in the instructions.

    Raises:
        AttributeError: if they are not of OpenAI's shape.
        KeyError: likewise.
        TypeError: likewise.
    """
    said = [(message["role"], _content(message["content"])) for message in messages]
    system = "\n".join(text for role, text in said if role in {"system", "developer"})
    user = "\n".join(text for role, text in said if role == "user")
    try:
        texts, instructions, check = unframed(system, user)
    except ValueError:
        texts, instructions, check = {}, user, ""
    by_endpoint = wanted["json_schema"] if wanted["type"] == "json_schema" else None
    schema = dict(by_endpoint["schema"].items()) if by_endpoint else _schema_in(f"{system}\n{instructions}")
    name = (by_endpoint and by_endpoint.get("name")) or _named(schema)
    as_json = wanted["type"] != "text" or schema is not None
    return ChatRequest(tuple(text for _, text in said), texts, instructions, check, str(name), schema, as_json)


def answered(question: ChatRequest) -> str:
    """What the simulated judge says: JSON that fits the schema, if there is one.

    >>> texts = {"response": "Ada wrote poems.", "context 1": "Ada wrote notes."}
    >>> fields = {"faithfulness": {"type": "number"}, "reason": {"type": "string"}}
    >>> print(answered(ChatRequest((), texts, "", "", "", {"type": "object", "properties": fields}, True)))
    {"faithfulness":0.67,"reason":"simulated: 67 % of the words are shared"}
    """
    if question.schema is not None:
        thoughts, share = _thoughts(question, question.schema.get("properties", {}))
        return orjson.dumps(filled(question.schema, thoughts, share)).decode()
    said = "simulated: no schema was given"
    return orjson.dumps({"reason": said, "check": question.check}).decode() if question.as_json else said


def vector(text: str, dimensions: int) -> list[float]:
    """A unit vector of a text's words, hashed and counted, so that texts that share words are near each other.

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
    """The questions about one event repeat its texts."""
    return Text(raw)


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise TypeError("a message has no content")
    return "".join(part["text"] for part in content if part["type"] == "text")


def _schema_in(text: str) -> dict[str, Any] | None:
    """The first JSON schema of an object that stands in a text."""
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
    """The share of the words of some texts that stand in others: what has no words has none there."""
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
    """On the claims or statements, whether most of one's words are in one context; else on the contexts themselves."""
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


_THOUGHTS: Mapping[str, Callable[[ChatRequest], object]] = MappingProxyType(
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
"""What is thought of each field of our suites' answers."""


def _thoughts(question: ChatRequest, fields: Collection[str]) -> tuple[dict[str, object], float]:
    """What is thought of some fields, and how much the response shares with whatever it is held against."""
    others = [text for name, text in question.texts.items() if name != "response"]
    share = _shared(question.called("response"), others)
    thoughts = {name: _THOUGHTS[name](question) for name in fields if name in _THOUGHTS}
    known = next((thought for thought in thoughts.values() if isinstance(thought, float)), share)
    for name in fields:
        if name.endswith(_REASON):
            own = thoughts.get(name.removesuffix(_REASON).rstrip("_"))
            thoughts[name] = _reason(own if isinstance(own, float) else known)
    return thoughts, share
