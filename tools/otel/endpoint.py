"""A made-up OpenAI endpoint: it answers each question that it knows, whatever else the prompt has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from typing_extensions import override


@contextmanager
def made_up_model(answers: Mapping[str, str]) -> Iterator[str]:
    """Serve chat completions for the length of a block, and yield the base URL.

    Args:
        answers: the answers by question. A prompt that has none of the questions is an error of the client.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = "\n".join(map(_text, request["messages"]))
            known = [answer for question, answer in answers.items() if question in prompt]
            status, body = (200, _completion(request, known[-1])) if known else (400, {"error": {"message": "unknown"}})
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


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
