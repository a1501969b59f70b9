"""A LlamaIndex application: a query engine over an index of vectors."""

from __future__ import annotations

import os

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from typing_extensions import override

from tools.otel.applications.common import MODEL, NEAREST, Answer, Ask, embedding, main


class _Words(BaseEmbedding):
    @override
    def _get_text_embedding(self, text: str) -> list[float]:
        return embedding(text)

    @override
    def _get_query_embedding(self, query: str) -> list[float]:
        return embedding(query)

    @override
    async def _aget_query_embedding(self, query: str) -> list[float]:
        return embedding(query)


def begin(documents: dict[str, str], provider: TracerProvider) -> Ask:
    nodes = [TextNode(text=text, id_=name) for name, text in documents.items()]
    index = VectorStoreIndex(nodes, embed_model=_Words(model_name="words"))
    model = OpenAILike(
        model=MODEL,
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        context_window=8_192,
    )
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    engine = index.as_query_engine(similarity_top_k=NEAREST, llm=model)

    def ask(question: str) -> Answer:
        response = engine.query(question)
        return str(response), [each.node.get_content() for each in response.source_nodes]

    return ask


if __name__ == "__main__":
    main(begin)
