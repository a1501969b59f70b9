"""A Haystack application: a pipeline of an embedder, a retriever, a prompt and a model."""

from __future__ import annotations

import os

from haystack import Document, Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from tools.otel.applications.common import INSTRUCTION, MODEL, NEAREST, Answer, Ask, embedding, main

_CONTEXT = "{% for document in documents %}{{ document.content }}\n{% endfor %}"


@component
class _Words:
    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        return {"embedding": embedding(text)}


def begin(documents: dict[str, str], provider: TracerProvider) -> Ask:
    store = InMemoryDocumentStore()
    store.write_documents(
        [Document(id=name, content=text, embedding=embedding(text)) for name, text in documents.items()]
    )
    template = INSTRUCTION.format(context=_CONTEXT, question="{{ question }}")
    pipeline = Pipeline()
    pipeline.add_component("embedder", _Words())
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=NEAREST))
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables="*"))
    pipeline.add_component("llm", OpenAIChatGenerator(model=MODEL, api_base_url=os.environ["OPENAI_BASE_URL"]))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    HaystackInstrumentor().instrument(tracer_provider=provider)

    def ask(question: str) -> Answer:
        given = {"embedder": {"text": question}, "prompt": {"question": question}}
        result = pipeline.run(given, include_outputs_from={"retriever"})
        return result["llm"]["replies"][0].text, [each.content for each in result["retriever"]["documents"]]

    return ask


if __name__ == "__main__":
    main(begin)
