"""What a suite is: a conversation that asks a judge about one event and comes to values of its metrics.

A conversation is a generator without I/O. It yields an `Ask` or an `Embed` and is sent what came back, or a `Null` with
the reason why nothing usable did; at its end it returns its `SuiteResult`. So any client can drive it, and a test can
with a list of scripted answers:

>>> def length(case):
...     answer = yield Ask("How long is the answer, in words?", (("response", case.response),), Length)
...     return SuiteResult({"words": answer if isinstance(answer, Null) else float(answer.words)})
>>> class Length(Answer):
...     words: int
>>> conversation = length(Case(query="Who?", response="Ada did."))
>>> next(conversation).data
(('response', 'Ada did.'),)
>>> try:
...     conversation.send(Length(words=2))
... except StopIteration as end:
...     end.value.values
{'words': 2.0}
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ragweir.metrics.metric import Metric, Null, Value


@dataclass(frozen=True, slots=True)
class Case:
    """What suites read of an event. `contexts` and `expected` are None where the event has none."""

    query: str
    response: str
    contexts: tuple[str, ...] | None = None
    expected: tuple[str, ...] | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    """The free metrics of the event."""
    cut: frozenset[str] = frozenset()
    """The lists of the event that were cut when it was read; a suite that reads one asks nothing and is null."""


class Answer(BaseModel):
    """The shape of a judge's answer; its JSON schema goes out with the question. Unknown fields are refused.

    Fields are described by docstrings or `Field(description=...)`; scores are bounded or enumerated. The first line of
    a subclass's docstring describes it to the judge. Put what a judge should think of first (reasons) before scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the judge."""

    task: str
    """The instructions: rubric and what to answer. Nothing of the event stands in it."""
    data: tuple[tuple[str, str], ...]
    """The event's texts that the question is about, by name: content to be judged and never instructions."""
    answer: type[Answer]
    """What must come back."""


@dataclass(frozen=True, slots=True)
class Embed:
    """Texts whose vectors are wanted. What comes back is a list of arrays, one per text, in order.

    By default one vector per text, shape (dimensions,). With `tokens`, one row per token without special tokens, shape
    (tokens, dimensions), which only a local model can give.
    """

    texts: tuple[str, ...]
    tokens: bool = False


Vectors = list[NDArray[np.float32]]


@dataclass(slots=True)
class SuiteResult:
    """What a suite found. Every metric of the suite stands in `values`."""

    values: dict[str, Value] = field(default_factory=dict)
    explanations: dict[str, str] = field(default_factory=dict)
    """By metric, what the judge said for people; whoever publishes it bounds its length."""


# What is sent in is what the yielded Ask or Embed asked for: its answer, or Vectors; or Null.
Conversation = Generator[Ask | Embed, object, SuiteResult]


@dataclass(frozen=True, slots=True)
class Suite:
    """A group of metrics that one conversation computes."""

    name: str
    version: str
    """Raised whenever a prompt or a formula changes."""
    metrics: tuple[Metric, ...]
    converse: Callable[[Case], Conversation]
    asks: int
    """The most questions that one conversation asks, repairs not counted."""
    needs: tuple[str, ...] = ()
    """The fields of the case without which every metric is null."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields that some metric of the suite needs."""
        return frozenset(self.needs).union(*(metric.needs for metric in self.metrics))

    def null(self, reason: str) -> SuiteResult:
        """Every metric null, for one reason."""
        return SuiteResult({metric.name: Null(reason) for metric in self.metrics})
