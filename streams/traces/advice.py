"""Advice: for each reason why a trace gives no full interaction, the line to change in the application."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ragweir.streams.traces.gaps import Gap

ADVICE: Mapping[Gap, str] = MappingProxyType(
    {
        "no_root": "The trace has several spans without a parent, and none of them alone has question and answer: pass "
        "the trace context on (`traceparent` between processes, `contextvars.copy_context()` into threads), and raise "
        "`assemble.patience_s` if spans arrive late.",
        "no_genai": "The trace has no span of a model, a retrieval, a chain or an agent: instrument the application "
        "with OpenInference, OpenTelemetry GenAI or OpenLLMetry, or leave its topic out of `input.topic`.",
        "content_off": "The instrumentation does not capture content: set "
        "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY` with "
        "`OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental` (GenAI; older versions: `=true`), or "
        "`TRACELOOP_TRACE_CONTENT=true` (OpenLLMetry).",
        "redacted": "The instrumentation hides content: set `OPENINFERENCE_HIDE_INPUTS=false` and "
        "`OPENINFERENCE_HIDE_OUTPUTS=false` (also `..._HIDE_INPUT_TEXT`, `..._HIDE_INPUT_MESSAGES` and the like).",
        "no_question": "No span holds the question: write it to the root span, as `input.value` (OpenInference), "
        "`gen_ai.input.messages` (GenAI) or `traceloop.entity.input` (OpenLLMetry).",
        "no_answer": "No span holds the answer: write it to the root span, as `output.value` (OpenInference), "
        "`gen_ai.output.messages` (GenAI) or `traceloop.entity.output` (OpenLLMetry); a request that failed has none.",
        "no_contexts": "No span holds the texts of the retrieved chunks: add a span of kind RETRIEVER with "
        "`retrieval.documents.0.document.content` (OpenInference), or pass the chunks as a prompt variable `context`.",
        "attributes_cut": "The SDK left out attributes of a retrieval, the best ranked chunks first: set "
        "`OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=4096` (or `OTEL_ATTRIBUTE_COUNT_LIMIT`); the default is 128.",
        "no_session": "No span names the conversation: set the attribute `session.id` (OpenInference: "
        '`using_session(...)`; LangChain: `metadata={"session_id": ...}`) or `gen_ai.conversation.id`.',
        "spans_missing": "Spans of the trace never came: set `required_acks: -1` and `partition_traces_by_id: true` in "
        "the Collector's kafka exporter, keep batches below its `max_message_bytes`, and sample whole traces.",
    }
)
"""One sentence for each gap, with the line to change."""
