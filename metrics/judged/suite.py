"""Suites: groups of metrics that are computed by one conversation with a judge about one event.

A conversation is a generator without I/O. It yields an `Ask` or an `Embed` and is sent the result, or a `Null` with the
reason why there is none; at its end it returns a `SuiteResult`. So any client can drive it, and a test with a list of
scripted answers:

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
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from typing_extensions import override

from ragweir.metrics.judged.deciding import Deciding, Distribution
from ragweir.metrics.judged.descriptions import field_docstrings
from ragweir.metrics.metric import Metric, Null, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Case:
    """The fields of an event that suites read. `contexts` and `expected` are None if the event has none."""

    query: str
    response: str
    contexts: tuple[str, ...] | None = None
    expected: tuple[str, ...] | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    """The scores of the event's free metrics."""
    cut: frozenset[str] = frozenset()
    """The lists of the event that were cut on reading; a suite that needs one is null, without a call."""
    absent: frozenset[str] = frozenset()
    """The fields that are None since their content was not captured; a metric that needs one is null for that
    reason."""


class Answer(BaseModel):
    """Base of the models of a judge's answers, whose JSON schemas are sent with the questions.

    The docstrings of fields and the first line of a subclass's docstring are sent as descriptions. Scores should be
    bounded or enumerated, and reasons come before scores, so that the judge gives them first.
    """

    # Most processes import these models without judging, and so do not build their validators.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    @override
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        for name, text in field_docstrings(cls).items():
            cls.model_fields[name].description = cls.model_fields[name].description or text
        return handler(source)


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the judge."""

    task: str
    """The instructions, with nothing of the event."""
    data: tuple[tuple[str, str], ...]
    """The event's texts by name: content to be judged, never instructions."""
    answer: type[Answer]
    """The model of the answer."""
    deciding: Deciding | None = None
    """The form of the question for a decision model; None if its answer is a text."""


@dataclass(frozen=True, slots=True)
class Embed:
    """A request for the vectors of texts. The result is a list of arrays, one per text, in order.

    By default there is one vector per text, of shape (dimensions,). With `tokens` there is one row per token without
    special tokens, of shape (tokens, dimensions), which only a local model can give.
    """

    texts: tuple[str, ...]
    tokens: bool = False


if TYPE_CHECKING:
    Vectors = list[NDArray[np.float32]]
else:
    Vectors = list


@dataclass(slots=True)
class SuiteResult:
    """The values of all metrics of a suite."""

    values: dict[str, Value] = field(default_factory=dict)
    explanations: dict[str, str] = field(default_factory=dict)
    """The judge's reasons by metric, of any length."""
    probabilities: dict[str, Distribution] = field(default_factory=dict)
    """The probabilities of the values of metrics, by metric, where a decision model gave them."""


Conversation = Generator[Ask | Embed, object, SuiteResult]
"""A generator that is sent the answer to the yielded `Ask`, or the `Vectors` of the yielded `Embed`, or a `Null` of the
kind `unanswered`."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A group of metrics that one conversation computes."""

    name: str
    version: str
    """Incremented whenever a prompt or a formula changes."""
    metrics: tuple[Metric, ...]
    converse: Callable[[Case], Conversation]
    asks: int
    """Maximum number of questions of one conversation, without repairs."""
    needs: tuple[str, ...] = ()
    """The fields of the case without which every metric is null."""
    parts: int = 1
    """Maximum number of questions of one step for a decision model."""
    decides: int = 0
    """Maximum number of questions that a decision model takes in one call; 0 to ask a chat model alone."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields that any metric of the suite needs."""
        return frozenset(self.needs).union(*(metric.needs for metric in self.metrics))

    def null(self, null: Null) -> SuiteResult:
        """Return a result in which every metric is null for one reason."""
        return SuiteResult({metric.name: null for metric in self.metrics})
