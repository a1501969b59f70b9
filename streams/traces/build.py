"""Builds an interaction of the spans that belong to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, get_args

from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.interaction import Assembly, AssemblyFlag, Context, Interaction, Span, Usage
from ragweir.schemas.times import from_epoch
from ragweir.streams.traces import contexts as reading
from ragweir.streams.traces.attribute_values import as_name, as_text, first
from ragweir.streams.traces.calls import Calls
from ragweir.streams.traces.conversation import Steps, answer, has_answer, history, question, tool_results
from ragweir.streams.traces.gaps import Gap
from ragweir.streams.traces.roots import Item
from ragweir.streams.traces.span import TraceSpan
from ragweir.streams.traces.step import Step
from ragweir.streams.traces.tree import Tree

_MAX_SPANS = DEFAULT_MAX_ITEMS["spans"] + 1
"""Maximum number of spans: one more than intake keeps, so that it flags the cut."""
_DIGEST_DIGITS = 16
_APPLICATION, _VERSION = ("service.name",), ("service.version",)
_ENVIRONMENT = ("deployment.environment.name", "deployment.environment")
_SPAN_KINDS = frozenset(get_args(Span.model_fields["kind"].annotation))
_FLAGS: Sequence[AssemblyFlag] = get_args(AssemblyFlag)


def digest(text: str | None) -> str | None:
    """Return a short digest of a text: equal texts have equal ones.

    >>> digest("a"), digest(None)
    ('ca978112ca1bbdca', None)
    """
    return None if text is None else sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST_DIGITS]


def time_of(nanoseconds: int) -> datetime | None:
    """Return a time in epoch nanoseconds, to the microsecond; None for 0 and for one that no datetime holds."""
    try:
        return from_epoch(nanoseconds, "ns") if nanoseconds else None
    except ValueError:
        return None


def error_of(span: TraceSpan) -> str | None:
    """Return the error of a span: the message of its exception, or else of its status; None if it succeeded."""
    if span.error is None:
        return None
    for event in reversed(span.events):
        if event.name == "exception":
            said = as_name(first(event.attributes, ("exception.message", "exception.type")))
            if said is not None:
                return said
    return as_name(span.error) or as_name(span.attributes.get("error.type")) or "error"


@dataclass(frozen=True, slots=True)
class Built:
    """An interaction and the reasons why it is not full."""

    interaction: Interaction
    gaps: tuple[Gap, ...]


class Builder:
    """Builds the interactions of one trace."""

    def __init__(self, tree: Tree, calls: Calls, dialects: Sequence[str | None], tops: Sequence[int]) -> None:
        self._tree, self._calls, self._dialects = tree, calls, dialects
        members: dict[int, list[int]] = {}
        for number, top in enumerate(tops):
            if top >= 0:
                members.setdefault(top, []).append(number)
        self._members = members

    def members(self, item: Item) -> list[int]:
        """Return the numbers of the spans of an interaction, in the order of their beginnings."""
        return sorted(number for top in item.tops for number in self._members.get(top, ()))

    def is_full(self, item: Item) -> bool:
        """Return whether an item has question and answer."""
        steps, _ = self._conversation(item, self.members(item))
        return bool(question(steps)) and bool(answer(steps))

    def build(self, item: Item) -> Built:
        """Return an interaction."""
        members = self.members(item)
        steps, answering = self._conversation(item, members)
        query, response = question(steps), answer(steps)
        error = self._error(item, members, response)
        contexts, is_cut = self._contexts(members)
        gaps = self._gaps(steps, query, response, contexts)
        if response is None and query is not None and error is not None:
            response = ""  # There is none: the request failed.
        flags = {*item.flags, *(("attributes_cut",) if is_cut else ())}
        if is_cut:
            gaps = [*(gap for gap in gaps if gap != "no_contexts"), "attributes_cut"]
        if "spans_missing" in flags:
            gaps.append("spans_missing")
        spans = self._tree.spans
        root = spans[item.root] if item.root >= 0 else None
        ended = [root.ended_ns] if root else [spans[number].ended_ns for number in item.tops]
        if answering >= 0:
            ended.append(spans[answering].ended_ns)  # The answer may be streamed after the root's end.
        started = root.started_ns if root else min(spans[number].started_ns for number in item.tops)
        home = root or spans[item.tops[0]]
        model = steps.answering or next((step for step in reversed(steps.calls)), None)
        firsts = [step for step in (steps.root, *steps.every) if step]
        trace_id = spans[item.tops[0]].trace_id[:32]
        interaction = Interaction(
            event_id=f"{trace_id}:{item.root_id[:16]}",
            query=query,
            response=response,
            started_at=time_of(started),
            ended_at=time_of(max(ended)),
            first_token_at=time_of(model.first_token_ns) if model and model.first_token_ns else None,
            application=as_name(first(home.resource, _APPLICATION)),
            environment=as_name(first(home.resource, _ENVIRONMENT)),
            pipeline_version=as_name(first(home.resource, _VERSION)),
            model=model.model if model else None,
            session_id=next((step.session_id for step in firsts if step.session_id), None),
            trace_id=trace_id,
            span_id=item.root_id[:16],
            labels=_labels(firsts),
            finish_reason=model.finish_reason if model else None,
            error=error,
            history=history(steps, query),
            contexts=contexts,
            spans=self._spans(members),
            usage=self._usage(members),
            assembly=Assembly(
                dialect=next((self._dialects[top] for top in item.tops if self._dialects[top]), None),
                spans=len(members) + (item.root >= 0 and item.root not in item.tops),
                flags=tuple(flag for flag in _FLAGS if flag in flags),
            ),
        )
        if interaction.session_id is None:
            gaps.append("no_session")
        return Built(interaction, tuple(gaps))

    def _step(self, number: int) -> Step | None:
        return self._calls.steps[number]

    def _counted(self, members: Iterable[int], *kinds: str) -> list[tuple[int, Step]]:
        """Return the steps of some kinds, without those that count for others."""
        found = ((number, self._step(number)) for number in members if not self._calls.is_duplicate[number])
        return [(number, step) for number, step in found if step and step.kind in kinds]

    def _conversation(self, item: Item, members: Sequence[int]) -> tuple[Steps, int]:
        """Return the steps by their parts, and the number of the call that answers, -1 if there is none."""
        spans = self._tree.spans
        counted = self._counted(members, "llm")
        calls = [(number, step) for number, step in counted if not self._calls.is_inner[number]] or counted
        answering = -1
        if saying := [number for number, step in calls if has_answer(step)] or [number for number, _ in calls]:
            answering = max(saying, key=lambda number: (spans[number].ended_ns, number))
        found = Steps(
            root=self._step(item.root) if item.root >= 0 else None,
            tops=[step for top in item.tops if (step := self._step(top))],
            calls=[step for _, step in calls],
            answering=self._step(answering) if answering >= 0 else None,
            retrievals=[step for _, step in self._counted(members, "retrieval", "rerank", "embedding")],
            every=[step for number in members if (step := self._step(number))],
        )
        return found, answering

    def _error(self, item: Item, members: Sequence[int], response: str | None) -> str | None:
        """Return the error of the root, or of the last span below it or the last call if there is no answer."""
        spans = self._tree.spans
        if item.root >= 0 and (said := error_of(spans[item.root])) is not None:
            return said
        if response is not None:
            return None
        calls = [number for number, _ in self._counted(members, "llm") if not self._calls.is_inner[number]]
        for numbers in (item.tops, calls):
            last = max(numbers, key=lambda number: (spans[number].ended_ns, number), default=-1)
            if last >= 0 and (said := error_of(spans[last])) is not None:
                return said
        return None

    # Contexts.

    def _contexts(self, members: Sequence[int]) -> tuple[tuple[Context, ...] | None, bool]:
        """Return the contexts, and whether attributes of a span that holds them were cut."""
        found = self._counted(members, "retrieval", "rerank")
        if any(self._is_cut(number) for number, _ in found):
            return None, True
        steps = [self._with_tool_texts(number, step) for number, step in found]
        contexts = reading.merged(steps)
        is_hidden = any((step := self._step(number)) and step.is_redacted for number in members)
        if is_hidden or (contexts is not None and (not contexts or any(each.text for each in contexts))):
            return contexts, False  # Instrumentations that hide content forget the variables of prompts.
        texts = self._other_texts(members)
        if any(self._is_cut(number) for number, _ in texts):
            return None, True
        return reading.with_texts(contexts, [text for _, text in texts]) if texts else contexts, False

    def _other_texts(self, members: Sequence[int]) -> list[tuple[int, str]]:
        """Return texts that the model was given, with the numbers of their spans: the contexts without a retrieval.

        They are variables of prompts, or else results of tools, or else those among the messages of model calls.
        """
        steps = [(number, step) for number in members if (step := self._step(number))]
        if found := [(n, text) for n, step in steps for text in reading.texts_in(step.prompt_variables)]:
            return found
        tools = [(n, step) for n, step in self._counted(members, "tool") if not self._calls.is_inner[n]]
        if tools:
            return [(n, step.output) for n, step in tools if step.output and not self._tool_error(n, step)]
        return [(n, text) for n, step in self._counted(members, "llm") for text in tool_results(step)]

    def _is_cut(self, number: int) -> bool:
        step = self._step(number)
        return self._tree.spans[number].dropped_attributes > 0 or bool(step and step.is_cut)

    def _with_tool_texts(self, number: int, step: Step) -> Step:
        """Return a retrieval whose documents lack their texts with those in the result of the tool around it."""
        tool = self._step(self._calls.tool[number]) if self._calls.tool[number] >= 0 else None
        if not tool or not tool.output or not step.documents or any(each.text for each in step.documents):
            return step
        return replace(step, documents=reading.with_texts(step.documents, [tool.output]))

    def _tool_error(self, number: int, step: Step) -> str | None:
        return step.error or error_of(self._tree.spans[number])

    # The rest.

    def _spans(self, members: Sequence[int]) -> tuple[Span, ...]:
        spans = self._tree.spans
        found: list[Span] = []
        for number in members:
            step = self._step(number)
            if step is None or not self._calls.is_listed(number):
                continue
            if len(found) == _MAX_SPANS:
                break
            span, above = spans[number], self._calls.listed[number]
            found.append(
                Span(
                    kind=step.kind if step.kind in _SPAN_KINDS else "other",
                    name=(step.model if step.kind == "llm" else None) or step.name,
                    started_at=time_of(span.started_ns),
                    ended_at=time_of(span.ended_ns),
                    error=self._tool_error(number, step),
                    id=span.span_id[:16],
                    parent_id=spans[above].span_id[:16] if above >= 0 else None,
                    input_digest=digest(_input_text(step)),
                    output_digest=digest(_output_text(step)),
                )
            )
        return tuple(found)

    def _usage(self, members: Sequence[int]) -> Usage | None:
        steps = [step for _, step in self._counted(members, "llm")]
        sums = {name: _sum(getattr(step, name) for step in steps) for name in Usage.model_fields}
        return Usage(**sums) if any(value is not None for value in sums.values()) else None

    @staticmethod
    def _gaps(steps: Steps, query: str | None, response: str | None, contexts: Sequence[Context] | None) -> list[Gap]:
        gaps: list[Gap] = []
        has_texts = reading.has_texts(contexts)
        if (query is None or response is None or not has_texts) and any(step.is_redacted for step in steps.every):
            gaps.append("redacted")
        if query is None and response is None and not gaps and not any(map(_has_content, steps.every)):
            gaps.append("content_off")
        if not gaps:
            gaps += ["no_question"] if query is None else []
            gaps += ["no_answer"] if response is None else []
            gaps += [] if has_texts else ["no_contexts"]
        return gaps


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _labels(steps: Iterable[Step]) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    for step in steps:
        for name, value in (("user", step.user_id), ("prompt_version", step.prompt_version)):
            if value:
                labels.setdefault(name, value)
    return dict(sorted(labels.items()))


def _has_content(step: Step) -> bool:
    messages = (*(step.input_messages or ()), *(step.output_messages or ()))
    texts = [*(each.text for each in messages), *(each.text for each in step.documents or ())]
    return any((step.input, step.output, step.prompt_variables, *texts))


def _input_text(step: Step) -> str | None:
    return _joined(step.input_messages) if step.input_messages else as_text(step.input)


def _output_text(step: Step) -> str | None:
    if step.documents is not None:
        return "\n".join(f"{each.chunk_id or ''}\t{each.text or ''}" for each in step.documents)
    said = step.output_messages
    return _joined(said) if said and any(each.text for each in said) else as_text(step.output)


def _joined(messages: Iterable[Any]) -> str:
    return "\n".join(f"{message.role}\t{message.text}" for message in messages)
