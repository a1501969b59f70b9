"""A step: the content of one span, in the same form whatever the dialect that it was written in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragweir.schemas.interaction import Context, Message
from ragweir.streams.traces.span import TraceLog, TraceSpan

StepKind = Literal["llm", "tool", "api", "retrieval", "embedding", "rerank", "agent", "chain", "other"]


@dataclass(frozen=True, slots=True)
class Step:
    """The content of one span. What its span does not say is None.

    Texts are those of the application: a redacted text (`__REDACTED__`) is None, as is content that was not captured.
    """

    kind: StepKind
    name: str | None = None
    """Name of the tool, the model or the operation."""
    input: str | None = None
    """Input as a text, if it is one; the question of a chain, the query of a retrieval, the arguments of a tool."""
    output: str | None = None
    """Output as a text, if it is one; the answer of a chain, the result of a tool."""
    input_messages: tuple[Message, ...] | None = None
    output_messages: tuple[Message, ...] | None = None
    documents: tuple[Context, ...] | None = None
    """Documents that a retrieval returned, or a rerank kept, best first. Empty: it found none. None: not captured."""
    prompt_variables: dict[str, Any] = field(default_factory=dict)
    """Variables of the prompt template by name."""
    model: str | None = None
    """Name of the model that answered, or else that was asked for."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    finish_reason: str | None = None
    first_token_ns: int | None = None
    """Time of the first token, in epoch nanoseconds."""
    error: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    prompt_version: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """Further values that the application attached, by name."""
    is_pending: bool = False
    """True if the span was exported when it began and comes again when it ends: it is no span."""
    reranked: tuple[Context, ...] | None = None
    """Documents that a rerank was given. None: not captured."""
    is_redacted: bool = False
    """True if the application replaced content of the span, such as by `__REDACTED__`."""
    is_cut: bool = False
    """True if attributes of the span are missing although the SDK counted none, such as the first documents of a list.
    """


class Dialect(ABC):
    """A convention for the attributes of spans: a table of paths, and the few rules that a table cannot hold."""

    name: str
    """Name of the convention, such as `openinference`."""

    @abstractmethod
    def reads(self, span: TraceSpan) -> bool:
        """Return whether the span is written in this convention."""

    @abstractmethod
    def step(self, span: TraceSpan, logs: Sequence[TraceLog]) -> Step:
        """Return the content of a span.

        Args:
            span: a span of this convention.
            logs: the log records of the span, in the order of their times.
        """
