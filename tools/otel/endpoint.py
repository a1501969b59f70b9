"""A made-up OpenAI endpoint: it answers each question that it knows, whatever else the prompt has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ragweir.streams.playground.serving import Reply, Request, serving


@contextmanager
def made_up_model(answers: Mapping[str, str]) -> Iterator[str]:
    """Serve chat completions for the length of a block, and yield the base URL.

    Args:
        answers: the answers by question. A prompt that has none of the questions is an error of the client.
    """

    def answer(request: Request) -> Reply:
        given = json.loads(request.body)
        prompt = "\n".join(map(_text, given["messages"]))
        known = [answer for question, answer in answers.items() if question in prompt]
        status, body = (200, _completion(given, known[-1])) if known else (400, {"error": {"message": "unknown"}})
        return Reply(status, json.dumps(body).encode())

    with serving(answer) as server:
        yield f"{server.url}/v1"


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _completion(request: Mapping[str, Any], answer: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_795_435_200,
        "model": request["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49},
    }
