"""Recorders: context managers that take the times of one interaction and of the calls within it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Self

from typing_extensions import override

from ragweir.streams.clients.publish.backlog import CapturedEvent, CapturedSpan
from ragweir.streams.clients.publish.identity import event_id
from ragweir.streams.runtime.machine import machine

_MAX_SPANS = 2_000
"""Maximum number of recorded spans of an interaction: more than `ragweir evaluate` reads, which then flags the cut."""

_Open = tuple[int, int, Any]
"""An open span: its recorder's number, its own number, and the open span around it or None.

It holds no recorder, since tasks keep their contexts, and thereby would keep events.
"""

_open: ContextVar[_Open | None] = ContextVar("ragweir_open_span", default=None)
"""The innermost open span of this thread or task."""
_numbers = count()


class Sink(Protocol):
    """Takes what was recorded."""

    def capture(self, make: Callable[[], CapturedEvent]) -> None:
        """Take the event that a function makes. It raises nothing, whatever the function raises."""


class _Timed(ABC):
    """A context manager for `with` and `async with`."""

    __slots__ = ()

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


class SpanRecorder(_Timed):
    """One timed call within an interaction, from the beginning of its `with` block to the end.

    An exception in the block becomes the span's error, by the name of its class, and is raised on.
    """

    __slots__ = ("_ended", "_number", "_outer", "_parent", "_recorder", "_started", "_token", "error", "kind", "name")

    def __init__(self, recorder: InteractionRecorder, kind: str, name: str | None) -> None:
        self.kind = kind
        self.name = name
        self.error: str | None = None
        """Description of the error of the call; None if there was none."""
        self._recorder = recorder
        self._parent: int | None = None
        self._token: Token[_Open | None] | None = None
        self._started = 0
        self._ended: int | None = None

    @override
    def __enter__(self) -> Self:
        """Begin the span; the innermost open span of this thread or task is its parent."""
        recorder = self._recorder
        outer = parent = _open.get()
        while parent is not None and parent[0] != recorder._number:
            parent = parent[2]
        self._parent = None if parent is None else parent[1]
        self._number = next(recorder._span_numbers)
        self._token = _open.set((recorder._number, self._number, outer))
        if self._number <= _MAX_SPANS:
            recorder._spans.append(self)
        self._started = machine.monotonic_ns()
        return self

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the span."""
        self._ended = machine.monotonic_ns()
        if kind is not None and self.error is None:
            self.error = _class_name(kind)
        if self._token is not None:
            # A generator may be resumed, and so ended, in another context than the one in which it began.
            with suppress(ValueError, RuntimeError):
                _open.reset(self._token)
            self._token = None


class InteractionRecorder(_Timed):
    """One answered question, from the beginning of its `with` block to the end, where it is published.

    Any field of an interaction can be given to `ragweir.publish` or assigned as an attribute within the block; other
    names are kept under `extra`. An attribute that was not assigned is None. An exception in the block becomes the
    field `error`, by the name of its class, and is raised on; the response is then empty if there was none.

    >>> from ragweir.streams.clients.publish.publisher import Publisher
    >>> event = Publisher().publish(query="Who wrote the first program?")
    >>> event.response = "Ada Lovelace."
    >>> event.query, event.response, event.expected
    ('Who wrote the first program?', 'Ada Lovelace.', None)
    """

    __slots__ = (
        "_fields",
        "_first_token",
        "_number",
        "_sink",
        "_span_numbers",
        "_spans",
        "_started",
        "_usage",
        "_wall",
    )

    def __init__(self, sink: Sink, fields: dict[str, Any]) -> None:
        put = super().__setattr__
        put("_sink", sink)
        put("_fields", fields)
        put("_spans", [])
        put("_span_numbers", count(1))
        put("_number", next(_numbers))
        put("_usage", None)
        put("_first_token", None)
        put("_wall", 0)
        put("_started", 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._fields.get(name)

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    @override
    def __enter__(self) -> Self:
        """Begin the interaction: take its start, and give it an id if it has none."""
        put = super().__setattr__
        put("_wall", machine.time_ns())
        if self._fields.get("event_id") is None:
            self._fields["event_id"] = event_id(self._wall)
        put("_started", machine.monotonic_ns())
        return self

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take the end of the interaction and publish it; see `ragweir.publish`."""
        ended = machine.monotonic_ns()
        self._sink.capture(lambda: self._captured(ended, kind))

    def llm(self, name: str | None = None) -> SpanRecorder:
        """Return a recorder for a call of a language model, by the model's name."""
        return SpanRecorder(self, "llm", name)

    def tool(self, name: str | None = None) -> SpanRecorder:
        """Return a recorder for a call of a tool."""
        return SpanRecorder(self, "tool", name)

    def api(self, name: str | None = None) -> SpanRecorder:
        """Return a recorder for a request to an API."""
        return SpanRecorder(self, "api", name)

    def retrieval(self, name: str | None = None) -> SpanRecorder:
        """Return a recorder for a search for contexts."""
        return SpanRecorder(self, "retrieval", name)

    def embedding(self, name: str | None = None) -> SpanRecorder:
        """Return a recorder for a call of an embedding model."""
        return SpanRecorder(self, "embedding", name)

    def rerank(self, name: str | None = None) -> SpanRecorder:
        """Return a recorder for the ranking of contexts."""
        return SpanRecorder(self, "rerank", name)

    def first_token(self) -> None:
        """Take the time of the first token of the response; later calls change nothing."""
        if self._first_token is None:
            super().__setattr__("_first_token", machine.monotonic_ns())

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost_usd: float | None = None,
        **_: object,
    ) -> None:
        """Add the tokens and the cost in US dollars of one call; several calls are summed. Other counts are ignored."""
        if self._usage is None:
            super().__setattr__("_usage", [])
        self._usage.append({"input_tokens": input_tokens, "output_tokens": output_tokens, "cost_usd": cost_usd})

    def _captured(self, ended: int, kind: type[BaseException] | None) -> CapturedEvent:
        # One reading of the wall clock: if it is set meanwhile, durations stay right.
        offset = self._wall - self._started
        fields = self._fields
        if kind is not None and fields.get("error") is None:
            fields["error"] = _class_name(kind)
        if self._usage and fields.get("usage") is None:
            fields["usage"] = _sums(self._usage)
        first = self._first_token
        return CapturedEvent(
            fields=fields,
            captured_ns=offset + ended,
            started_ns=self._wall,
            ended_ns=offset + ended,
            first_token_ns=None if first is None else offset + first,
            spans=tuple(
                CapturedSpan(
                    span._number,
                    span._parent,
                    span.kind,
                    span.name,
                    offset + span._started,
                    None if span._ended is None else offset + span._ended,
                    span.error,
                )
                for span in self._spans
            ),
        )


def _class_name(kind: type) -> str:
    """Return the name of a class without running code of its metaclass."""
    return type.__dict__["__name__"].__get__(kind)  # type: ignore[no-any-return]


def _sums(usages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of each count, or its first value that is no number, which the evaluation then flags."""
    if len(usages) == 1:
        return usages[0]
    given = {name: [usage[name] for usage in usages if usage[name] is not None] for name in usages[0]}
    return {name: _sum(values) for name, values in given.items()}


def _sum(values: list[Any]) -> Any:
    odd = [each for each in values if type(each) not in {int, float}]
    return odd[0] if odd else sum(values) if values else None
