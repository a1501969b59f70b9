"""A LangChain application: a chain of a retriever, a prompt and a model."""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from typing_extensions import override

from tools.otel.applications.common import INSTRUCTION, MODEL, NEAREST, Answer, Ask, embedding, main


class _Words(Embeddings):
    @override
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [embedding(text) for text in texts]

    @override
    def embed_query(self, text: str) -> list[float]:
        return embedding(text)


def begin(documents: dict[str, str], provider: TracerProvider) -> Ask:
    store = InMemoryVectorStore(_Words())
    store.add_documents([Document(text, id=name, metadata={"source": name}) for name, text in documents.items()])
    LangChainInstrumentor().instrument(tracer_provider=provider)
    found: list[str] = []

    def joined(retrieved: list[Document]) -> str:
        found[:] = [each.page_content for each in retrieved]
        return "\n".join(found)

    retriever = store.as_retriever(search_kwargs={"k": NEAREST})
    prompt = ChatPromptTemplate.from_messages([("user", INSTRUCTION)])
    model = ChatOpenAI(model=MODEL)
    chain = {"context": retriever | joined, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

    def ask(question: str) -> Answer:
        return chain.invoke(question), list(found)

    return ask


if __name__ == "__main__":
    main(begin)
