"""Feedback of people in OTLP: annotations of OpenInference, and evaluation events of the GenAI conventions.

| form | answer that it is about |
| --- | --- |
| log record or span event `gen_ai.evaluation.result` of a person, or `gen_ai.evaluation.user_feedback` | its span |
| attributes `annotations.N.annotation.*` of a person | the span that has them |
| `trace.annotations.N.annotation.*` of a person | the trace |
| span of kind EVALUATOR with `evaluations.N.evaluation.*` of a person | the span that its only link names |
| span `user_feedback` with any of these, or with `feedback.*` | the span of its only link, else its parent |

A person gave it if its annotator or evaluator is human, or if its event or span is named for feedback. The results of
judges are no feedback. Explanations are dropped as other comments are, and an annotation without a label or score with
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.feedback import feedback_of
from ragweir.schemas.times import from_epoch
from ragweir.streams.traces.attribute_values import Numbered, as_name, first
from ragweir.streams.traces.export_request import LOGS, ExportRequest
from ragweir.streams.traces.wire import SPAN_ID_BYTES, TRACE_ID_BYTES, attributes_of, event_name, is_id, most_bytes

_MENTION = re.compile(rb"feedback|annotation|evaluation")
"""Text that each form has, by which most requests need no closer look."""
FEEDBACK_NAME = "user_feedback"
"""Name of the span, and name of feedback that has none."""
_RESULT, _USER_FEEDBACK = "gen_ai.evaluation.result", "gen_ai.evaluation.user_feedback"
_FORMS = {
    "annotations": "annotation.",
    "evaluations": "evaluation.",
    "trace.annotations": "annotation.",
    "trace.evaluations": "evaluation.",
}
"""The attributes of each item of a list, by the list's name."""
_STARTS = tuple(f"{form}." for form in _FORMS)
_EVENTS = frozenset({_RESULT, _USER_FEEDBACK, FEEDBACK_NAME})
_NAMES = "gen_ai.evaluation.name", "feedback.name", "name"
_VALUES = (
    *("gen_ai.evaluation.score.label", "feedback.label", "label"),
    *("gen_ai.evaluation.score.value", "gen_ai.evaluation.score", "feedback.value", "feedback.score"),
    *("feedback.rating", "score"),
)
"""Attributes of the value, of which the first counts: a label says more than its score."""
_EXPLANATIONS = "gen_ai.evaluation.explanation", "feedback.comment", "explanation"
_KINDS = "gen_ai.evaluation.evaluator.type", "annotator_kind"
_GIVERS = "identifier", "user.id", "enduser.id"
"""Attributes of the giver. An annotation replaces one of the same span, name and identifier, as feedback of a giver
does."""
_PEOPLE = frozenset({"human", "user", "end_user"})


class Given(NamedTuple):
    """Feedback for the topic `feedback`."""

    key: bytes
    value: bytes


class _Target(NamedTuple):
    trace_id: str
    """Empty if no answer is named."""
    span_id: str | None
    time_ns: int


_Found = tuple[_Target, Mapping[str, Any]]
"""The target of feedback, and the attributes that have its name and value."""


@dataclass(slots=True)
class GivenFeedback:
    """The feedback of a request."""

    request: ExportRequest
    """The request without the spans and log records that are feedback and nothing else."""
    given: list[Given] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    """Reasons why more of it is not usable."""


def taken_feedback(request: ExportRequest, value: bytes) -> GivenFeedback:
    """Take the feedback out of a request.

    Args:
        request: the request, which is changed.
        value: its bytes.
    """
    taken = GivenFeedback(request)
    if _MENTION.search(value) is None:
        return taken
    found: list[_Found] = []
    signal, removed = request.signal, False
    take = _of_log if signal is LOGS else _of_span
    for resource in getattr(request.message, signal.resources):
        for scope in getattr(resource, signal.scopes):
            items = getattr(scope, signal.items)
            whole = [place for place, item in enumerate(items) if take(item, found)]
            removed = removed or bool(whole)
            for place in reversed(whole):
                del items[place]
    if removed:
        taken.request = replace(request, is_protobuf=False)
    _encode(found, most_bytes(value), taken)
    return taken


def _of_log(record: Any, found: list[_Found]) -> bool:
    """Add the feedback of a log record; return true if it is nothing else."""
    if not is_id(record.trace_id, TRACE_ID_BYTES):
        return False
    attributes = attributes_of(record.attributes)
    if not _is_event(event_name(record, attributes), attributes):
        return False
    span_id = record.span_id.hex() if is_id(record.span_id, SPAN_ID_BYTES) else None
    time_ns = record.time_unix_nano or record.observed_time_unix_nano
    found.append((_Target(record.trace_id.hex(), span_id, time_ns), attributes))
    return True


def _of_span(span: Span, found: list[_Found]) -> bool:
    """Add the feedback of a span; return true if it is nothing else."""
    if not (is_id(span.trace_id, TRACE_ID_BYTES) and is_id(span.span_id, SPAN_ID_BYTES)):
        return False
    own = _Target(span.trace_id.hex(), span.span_id.hex(), span.end_time_unix_nano)
    found += [
        (own._replace(time_ns=event.time_unix_nano), values)
        for event in span.events
        if event.name in _EVENTS and _is_event(event.name, values := attributes_of(event.attributes))
    ]
    is_named = span.name == FEEDBACK_NAME
    if not is_named and not any(pair.key.startswith(_STARTS) for pair in span.attributes):
        return False
    attributes = attributes_of(span.attributes)
    giver, before = attributes.get("user.id"), len(found)
    is_apart = is_named or attributes.get("openinference.span.kind") == "EVALUATOR"
    for form, item in _items(attributes):
        if _is_person(item, unknown=is_named):
            target = _linked(span, own, is_named=is_named) if is_apart else own
            target = target._replace(span_id=None) if form.startswith("trace.") else target
            found.append((target, {"user.id": giver, **item}))
    has_items = len(found) > before
    if is_named and not has_items:
        found.append((_linked(span, own, is_named=True), attributes))
    return is_apart and (is_named or has_items)


def _is_event(name: str, attributes: Mapping[str, Any]) -> bool:
    if name == _RESULT:
        return _is_person(attributes, unknown=attributes.get("gen_ai.evaluation.name") == FEEDBACK_NAME)
    return name in _EVENTS


def _is_person(attributes: Mapping[str, Any], *, unknown: bool) -> bool:
    """Return whether a person gave it; `unknown` if nothing says who did."""
    kind = first(attributes, _KINDS)
    return unknown if kind is None else isinstance(kind, str) and kind.lower() in _PEOPLE


def _items(attributes: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    numbered = Numbered(attributes, _FORMS)
    for form, prefix in _FORMS.items():
        for item in numbered[form].values():
            yield form, {name.removeprefix(prefix): value for name, value in item.items() if name.startswith(prefix)}


def _linked(span: Span, own: _Target, *, is_named: bool) -> _Target:
    """Return the target of a span that is no part of the answer."""
    links = [link for link in span.links if is_id(link.trace_id, TRACE_ID_BYTES)]
    if len(links) == 1:
        span_id = links[0].span_id.hex() if is_id(links[0].span_id, SPAN_ID_BYTES) else None
        return own._replace(trace_id=links[0].trace_id.hex(), span_id=span_id)
    if links or not is_named:
        return own._replace(trace_id="")
    parent = span.parent_span_id
    return own._replace(span_id=parent.hex() if is_id(parent, SPAN_ID_BYTES) else None)


def _encode(found: Sequence[_Found], most_bytes: int, taken: GivenFeedback) -> None:
    """Encode feedback for its topic. A few bytes of a request could name the same long giver any number of times."""
    for target, attributes in found:
        value = first(attributes, _VALUES)
        if value is None and first(attributes, _EXPLANATIONS) is not None:
            continue
        try:
            encoded = _encoded(target, value, attributes)
        except Rejected as rejected:
            taken.rejected.append(rejected.message)
            continue
        most_bytes -= len(encoded)
        if most_bytes < 0:
            taken.rejected.append("it would take more than four times the bytes of its request")
        else:
            taken.given.append(Given(target.trace_id.encode(), encoded))


def _encoded(target: _Target, value: object, attributes: Mapping[str, Any]) -> bytes:
    """Return feedback as its topic has it.

    Raises:
        Rejected: if it is none.
    """
    if not target.trace_id:
        raise Rejected("invalid", "the span needs exactly one link, which names the span of the answer")
    if value is None:
        raise Rejected("invalid", "it has neither a label nor a score")
    given = {
        "trace_id": target.trace_id,
        "span_id": target.span_id,
        "name": first(attributes, _NAMES) or FEEDBACK_NAME,
        "value": value,
        "giver": as_name(first(attributes, _GIVERS)),
        "time": from_epoch(target.time_ns, "ns") if target.time_ns else None,
    }
    return encode(feedback_of(given))
