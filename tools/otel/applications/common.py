"""The parts that all applications share: their input and output, the tracer, and embeddings without a model."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from zlib import crc32

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

MODEL = "made-up"
NEAREST = 3
"""Number of documents that are retrieved for a question."""
INSTRUCTION = "Answer from the context only.\nCONTEXT:\n{context}\nQUESTION: {question}"
_DIMENSIONS = 256

Answer = tuple[str, list[str]]
"""An answer, and the texts that were retrieved for it, best first."""
Ask = Callable[[str], Answer]


def embedding(text: str) -> list[float]:
    """Return a vector by which texts with the same words are near."""
    vector = [0.0] * _DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[crc32(word.encode()) % _DIMENSIONS] += 1.0
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def main(begin: Callable[[dict[str, str], TracerProvider], Ask]) -> None:
    """Answer the questions on standard input.

    The address of the Collector and of the model's endpoint are in the environment, as the SDKs read them.

    Args:
        begin: makes the application from the texts of the documents by id, and a provider of tracers.
    """
    given = json.load(sys.stdin)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    ask = begin(given["documents"], provider)
    for question in given["questions"]:
        answer, contexts = ask(question)
        print(json.dumps({"question": question, "answer": answer, "contexts": contexts}), flush=True)
    provider.shutdown()
