"""The evaluation as a textbook writes it with faust-streaming: an agent that reads, scores and sends. Not exactly once.

Run as `python -m chaos.naive_faust BOOTSTRAP PREFIX`. It scores what the checker looks at, and nothing else.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import faust


def application(bootstrap: str, prefix: str, folder: str) -> faust.App:
    """The app with its one agent.

    Args:
        bootstrap: the broker.
        prefix: of the topics.
        folder: for what faust keeps.
    """
    app = faust.App(
        f"{prefix}naive",
        broker=f"kafka://{bootstrap}",
        datadir=folder,
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        # Not the textbook's minute: after it a killed worker's partitions are given to the next one.
        broker_session_timeout=3.0,
        broker_heartbeat_interval=1.0,
    )
    interactions = app.topic(f"{prefix}interactions", value_type=bytes)
    evaluations = app.topic(f"{prefix}evaluations", value_type=bytes)

    @app.agent(interactions)
    async def evaluate(stream: Any) -> None:
        async for event in stream.events():
            evaluation = scored(event.value, event.message.partition, event.message.offset)
            await evaluations.send(key=event.key, value=evaluation)

    return app


def scored(value: bytes, partition: int, offset: int) -> bytes:
    """The evaluation of one interaction."""
    event = json.loads(value)
    scores = {
        "total_latency_ms": event["ended_at"] - event["started_at"],
        "input_tokens": event["usage"]["input_tokens"],
        "output_tokens": event["usage"]["output_tokens"],
    }
    source = {"partition": partition, "offset": offset}
    evaluation = {"event_id": event["event_id"], "stage": "scored", "scores": scores, "source": source}
    return json.dumps(evaluation).encode()


if __name__ == "__main__":
    app = application(*sys.argv[1:4])
    app.finalize()
    worker = faust.Worker(app, loglevel="INFO")
    worker.execute_from_commandline()
