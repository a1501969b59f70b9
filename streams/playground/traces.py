"""The traces that an instrumented application would export for interactions; a simulated exporter, for proofs.

A trace is written as LangChain's instrumentation for OpenInference writes it, and is divided as an SDK and a Collector
divide it: by the times at which the SDK exports, then by resource and scope. Fields that no trace carries, such as an
expected answer, are left out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2 as pb

from ragweir.schemas.interaction import Context, Interaction, Span

SIMULATED = "ragweir.simulated_exporter"
"""Resource attribute that marks the traces: no application has run."""
FIRST_TOKEN = "First Token Stream Event"  # noqa: S105 - the name that OpenInference gives the event
_CHAIN, _OPENAI, _HTTP, _SERVER = (
    "openinference.instrumentation.langchain",
    "openinference.instrumentation.openai",
    "opentelemetry.instrumentation.httpx",
    "opentelemetry.instrumentation.fastapi",
)
_SCOPES = {"embedding": _OPENAI, "api": _HTTP}
_KINDS = {"retrieval": "RETRIEVER", "rerank": "RERANKER", "embedding": "EMBEDDING", "tool": "TOOL", "llm": "LLM"}
_HAS_REMOTE, _IS_REMOTE, _SAMPLED = 0x100, 0x200, 0x1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Made:
    """A span, and what it is exported with."""

    service: str
    scope: str
    span: pb.Span


def trace_ids(interaction: Interaction) -> tuple[str, str]:
    """Return the ids of the interaction's trace and of its root span: its own, or else digests of its event id.

    >>> trace_ids(Interaction(event_id="1", query="", response="", trace_id="0" * 31 + "1", span_id="0" * 15 + "2"))
    ('00000000000000000000000000000001', '0000000000000002')
    """
    digest = blake2b(interaction.event_id.encode(), digest_size=24).hexdigest()
    return interaction.trace_id or digest[:32], interaction.span_id or digest[32:]


def assembled_id(interaction: Interaction) -> str:
    """Return the event id of the interaction that is assembled from its trace."""
    return ":".join(trace_ids(interaction))


def otlp_requests(
    interaction: Interaction, *, seed: int = 0, flushes: int = 2, two_services: bool = False
) -> list[bytes]:
    """Return the export requests of an interaction's trace, in the order in which they arrive.

    The result depends on the arguments only. The request with the root span is never the last of several.

    >>> asked = Interaction(event_id="1", query="Which excess?", response="604", ended_at=1_795_375_922, contexts=())
    >>> len(otlp_requests(asked)), otlp_requests(asked) == otlp_requests(asked)
    (2, True)

    Args:
        interaction: an interaction with a time.
        seed: decides which spans are exported together.
        flushes: the number of times that each process exports during the trace, at most.
        two_services: retrieve in a second process, whose spans have a remote parent.

    Raises:
        ValueError: if the interaction has no time, or its trace or span id is not hexadecimal.
    """
    rng = random.Random(f"{seed} {interaction.event_id}")  # noqa: S311 (the same trace for the same seed)
    made = _Trace(interaction, two_services=two_services).spans()
    root = bytes.fromhex(trace_ids(interaction)[1])
    made.sort(key=lambda each: (each.span.end_time_unix_nano, each.span.span_id == root))
    cuts = sorted(rng.randrange(1, len(made)) for _ in range(flushes - 1)) if len(made) > 1 else []
    requests: list[tuple[bool, bytes]] = []
    for first, end in zip([0, *cuts], [*cuts, len(made)], strict=True):
        parts: dict[tuple[str, str], list[pb.Span]] = {}
        for each in made[first:end]:
            parts.setdefault((each.service, each.scope), []).append(each.span)
        for (service, scope), spans in sorted(parts.items()):
            has_root = any(span.span_id == root for span in spans)
            requests.append((has_root, _request(interaction, service, scope, spans)))
    if len(requests) > 1 and requests[-1][0]:
        requests[-2:] = reversed(requests[-2:])
    return [value for _, value in requests]


def orphaned(name: str) -> bytes:
    """Return an export request with two model calls, without their texts, whose parents never come.

    Args:
        name: decides the ids.
    """
    asked = Interaction(event_id=name, query=None, response=None, ended_at=_EPOCH)
    trace = _Trace(asked, two_services=False)
    calls = [each for each in trace.spans() if each.span.parent_span_id] * 2
    spans = [
        pb.Span.FromString(each.span.SerializeToString() + _ids(trace, number).SerializeToString())
        for number, each in enumerate(calls)
    ]
    return _request(asked, calls[0].service, calls[0].scope, spans)


def _ids(trace: _Trace, number: int) -> pb.Span:
    return pb.Span(span_id=trace.step_id(10 + number), parent_span_id=trace.step_id(20 + number))


def merged(requests: Iterable[bytes]) -> bytes:
    """Return one export request with the content of several, such as a Collector's batch of several traces."""
    # Repeated fields of protobuf messages are concatenated.
    return b"".join(requests)


def _request(interaction: Interaction, service: str, scope: str, spans: Sequence[pb.Span]) -> bytes:
    resource: dict[str, object] = {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "service.name": service,
        "service.version": interaction.pipeline_version,
        "deployment.environment.name": interaction.environment,
        SIMULATED: True,
    }
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(_attributes(resource))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = scope, "0.1.80"
    scope_spans.spans.extend(spans)
    return request.SerializeToString()


@dataclass(slots=True)
class _Trace:
    """The spans of one interaction."""

    interaction: Interaction
    two_services: bool
    _made: list[_Made] = field(default_factory=list)
    _number: int = 0

    def spans(self) -> list[_Made]:
        asked = self.interaction
        ended_at = asked.ended_at or asked.started_at
        if ended_at is None:
            raise ValueError("an interaction without a time has no trace")
        started_at = asked.started_at or ended_at
        root = bytes.fromhex(trace_ids(asked)[1])
        steps = _steps(asked, started_at, ended_at)
        is_agent = any(step.kind == "tool" for step in steps)
        shared = {"session.id": asked.session_id, "metadata": _json({**asked.labels, "tenant": asked.tenant})}
        chain = {
            "openinference.span.kind": "AGENT" if is_agent else "CHAIN",
            "input.value": asked.query,
            "output.value": asked.response,
        }
        span = self._add(_CHAIN, "rag", started_at, ended_at, {**chain, **shared}, None, root)
        _fail(span, asked.error)
        documents = _shared_out(asked.contexts, [step for step in steps if step.kind == "retrieval"])
        answering = [step for step in steps if step.kind == "llm"][-1]
        for index, step in enumerate(steps):
            began, over = step.started_at or started_at, step.ended_at or ended_at
            values = self._content(step, documents.get(id(step)), is_answer=step is answering)
            scope, name = _SCOPES.get(step.kind, _CHAIN), step.name or step.kind
            parent = self._parent(steps, index, root)
            service = None
            if step.kind == "retrieval" and self.two_services:
                service, parent = self._crossed(began, over, parent)
            marked, kind = ({}, pb.Span.SPAN_KIND_CLIENT) if scope == _HTTP else (shared, pb.Span.SPAN_KIND_INTERNAL)
            span = self._add(scope, name, began, over, {**values, **marked}, parent, self.step_id(index), service, kind)
            if step is answering and asked.first_token_at is not None:
                span.events.add(name=FIRST_TOKEN, time_unix_nano=_ns(asked.first_token_at))
            _fail(span, step.error)
        return self._made

    def _content(self, step: Span, documents: Sequence[Context] | None, *, is_answer: bool) -> _Values:
        """Return the attributes of a step."""
        asked, name = self.interaction, step.name or step.kind
        values: _Values = {}
        match step.kind:
            case "retrieval":
                output = [{"page_content": each.text, "type": "Document"} for each in documents or ()]
                values = {
                    "input.value": asked.query,
                    "output.value": _json({"documents": output}),
                    "output.mime_type": "application/json",
                    **dict(_documents("retrieval.documents", documents or ())),
                }
            case "rerank":
                texts = _documents("reranker.output_documents", asked.contexts or ())
                values = {"reranker.query": asked.query, **dict(texts)}
            case "embedding":
                values = {"embedding.model_name": "demo", "embedding.embeddings.0.embedding.text": asked.query}
            case "tool":
                values = {"tool.name": name, "input.value": asked.query}
            case "llm":
                values = self._llm(is_answer=is_answer)
            case "api":
                method, _, path = name.partition(" ")
                return {"http.request.method": method, "url.path": path}
        return {"openinference.span.kind": _KINDS.get(step.kind, "CHAIN"), **values}

    def _llm(self, *, is_answer: bool) -> dict[str, object]:
        asked, usage = self.interaction, self.interaction.usage
        context = "\n".join(each.text or "" for each in asked.contexts or ())
        prompt = [("system", f"Answer from the context only.\nCONTEXT:\n{context}")]
        prompt += [(message.role, message.text) for message in asked.history or ()]
        prompt += [("user", asked.query)] if asked.query is not None else []
        values: dict[str, object] = {"llm.model_name": asked.model}
        for number, (role, text) in enumerate(prompt):
            values[f"llm.input_messages.{number}.message.role"] = role
            values[f"llm.input_messages.{number}.message.content"] = text
        if not is_answer:
            return values
        if asked.response is not None and asked.error is None:
            values["llm.output_messages.0.message.role"] = "assistant"
            values["llm.output_messages.0.message.content"] = asked.response
        return values | {
            "llm.finish_reason": asked.finish_reason,
            "llm.token_count.prompt": usage and usage.input_tokens,
            "llm.token_count.completion": usage and usage.output_tokens,
            "llm.cost.total": usage and usage.cost_usd,
        }

    def _parent(self, steps: Sequence[Span], index: int, root: bytes) -> bytes:
        """Return the id of the tool that an API request is made in, or else of the root."""
        step = steps[index]
        for number, each in enumerate(steps):
            if step.kind == "api" and each.kind == "tool" and _contains(each, step):
                return self.step_id(number)
        return root

    def _crossed(self, began: datetime, over: datetime, parent: bytes) -> tuple[str, bytes]:
        """Add the request from the application to the search service; return the service and its server span's id."""
        self._number += 1
        client, server = self.step_id(1_000 + self._number), self.step_id(2_000 + self._number)
        service = f"{self.interaction.application or 'unknown_service'}-search"
        path = {"http.request.method": "POST", "url.path": "/search"}
        kinds = pb.Span.SPAN_KIND_CLIENT, pb.Span.SPAN_KIND_SERVER
        self._add(_HTTP, "POST /search", began, over, path, parent, client, None, kinds[0])
        span = self._add(_SERVER, "POST /search", began, over, path, client, server, service, kinds[1])
        span.flags |= _IS_REMOTE
        return service, server

    def step_id(self, number: int) -> bytes:
        """Return the span id with a number."""
        seed = f"{assembled_id(self.interaction)} {number}"
        return blake2b(seed.encode(), digest_size=8).digest()

    def _add(
        self,
        scope: str,
        name: str,
        began: datetime,
        over: datetime,
        values: _Values,
        parent: bytes | None,
        span_id: bytes,
        service: str | None = None,
        kind: pb.Span.SpanKind.ValueType = pb.Span.SPAN_KIND_INTERNAL,
    ) -> pb.Span:
        span = pb.Span(
            trace_id=bytes.fromhex(trace_ids(self.interaction)[0]),
            span_id=span_id,
            parent_span_id=parent or b"",
            flags=_HAS_REMOTE | _SAMPLED,
            name=name,
            kind=kind,
            start_time_unix_nano=_ns(began),
            end_time_unix_nano=_ns(over),
            attributes=_attributes(values),
        )
        self._made.append(_Made(service or self.interaction.application or "unknown_service", scope, span))
        return span


def _steps(asked: Interaction, started_at: datetime, ended_at: datetime) -> list[Span]:
    """Return the steps of an interaction, with the retrieval and the model call that its fields imply."""
    steps = list(asked.spans or ())
    kinds = {step.kind for step in steps}
    middle = asked.first_token_at or started_at + (ended_at - started_at) / 2
    if asked.contexts is not None and "retrieval" not in kinds:
        steps.insert(0, Span(kind="retrieval", name="search", started_at=started_at, ended_at=min(middle, ended_at)))
    if "llm" not in kinds:
        steps.append(Span(kind="llm", name="answer", started_at=min(middle, ended_at), ended_at=ended_at))
    return steps


def _shared_out(contexts: Sequence[Context] | None, retrievals: Sequence[Span]) -> dict[int, Sequence[Context]]:
    """Divide the contexts among the retrievals, in order."""
    share = -(-len(contexts or ()) // max(1, len(retrievals)))
    return {id(step): (contexts or ())[number * share :][:share] for number, step in enumerate(retrievals)}


def _documents(prefix: str, contexts: Sequence[Context]) -> Iterator[tuple[str, object]]:
    for number, context in enumerate(contexts):
        at = f"{prefix}.{number}.document"
        yield f"{at}.content", context.text
        yield f"{at}.id", context.chunk_id
        yield f"{at}.score", context.score
        metadata = {
            "chunk_id": context.chunk_id,
            "source": context.document_id,
            "page": context.page,
            "retrieval_method": context.retrieval_method,
        }
        yield f"{at}.metadata", _json(metadata)


def _contains(outer: Span, inner: Span) -> bool:
    if outer.started_at is None or outer.ended_at is None or inner.started_at is None or inner.ended_at is None:
        return False
    return outer.started_at <= inner.started_at and inner.ended_at <= outer.ended_at


def _json(values: _Values) -> str | None:
    given = {name: value for name, value in values.items() if value is not None}
    return json.dumps(given, ensure_ascii=False) if given else None


def _fail(span: pb.Span, error: str | None) -> None:
    span.status.code = pb.Status.STATUS_CODE_OK if error is None else pb.Status.STATUS_CODE_ERROR
    if error is not None:
        span.status.message = error


def _ns(time: datetime) -> int:
    """Return epoch nanoseconds, exactly.

    >>> _ns(datetime(2026, 11, 23, 12, 0, 0, 123_457, UTC))
    1795435200123457000
    """
    return (time.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1_000


def _attributes(values: _Values) -> list[KeyValue]:
    """Return attributes; None values are left out."""
    return [KeyValue(key=name, value=_value(value)) for name, value in values.items() if value is not None]


def _value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=str(value))
